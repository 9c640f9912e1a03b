"""Start vLLM's server from its CPU build, with what that build needs to be fast and right.

    ENGINE/bin/python serve.py --model DIR --port N ...          (the options of `vllm serve`)

1. `vllm serve` of the CPU package fails on its own version text, so the server's main function is called directly.
2. libiomp5 is preloaded where it exists (x86-64): speculation is slow without it. aarch64 has none and needs none.
3. Where it speculates, each reply carries its own acceptance (`--per-request-spec-decode-metrics`, which the server
   refuses without speculation).
4. Per-request sampling parameters under speculation are repaired. vLLM 0.32 spreads them over the drafted tokens with
   a kernel that, on CPU, rounds them to integers and writes into a copy (vllm-project/vllm issue 55005): above
   temperature 0 every draft is rejected. The replacement stands at module level because vLLM's worker processes import
   this file again before they start.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import vllm.utils.cpu_triton_utils as kernels

PER_REQUEST = "--per-request-spec-decode-metrics"


def expand_per_request_values(output, input_val, cu_num_tokens, replace_from, replace_to, MAX_NUM_TOKENS=None):  # noqa: N803
    """Write each request's value to all of its tokens, ``replace_from`` as ``replace_to``, in the output's own type.

    The names are those of the kernel that it replaces: the dispatcher passes arguments by name.
    """
    counts = torch.diff(cu_num_tokens.to(torch.int64), prepend=cu_num_tokens.new_zeros(1, dtype=torch.int64))
    values = torch.where(input_val == replace_from, torch.full_like(input_val, replace_to), input_val)
    spread = values.repeat_interleave(counts)
    output[: spread.numel()] = spread.to(output.dtype)


kernels._expand_kernel_impl = expand_per_request_values


def main() -> None:
    _preload(Path(sys.prefix) / "lib" / "libiomp5.so")
    if "--speculative-config" in sys.argv and PER_REQUEST not in sys.argv:
        sys.argv += [PER_REQUEST, "detailed"]
    from vllm.entrypoints.launchers.api_server.entry import main as serve  # after the preload: it loads torch's OpenMP

    serve()


def _preload(library: Path) -> None:
    """Start again with the library preloaded; the process id stays the same."""
    preloaded = os.environ.get("LD_PRELOAD", "")
    if library.exists() and str(library) not in preloaded.split(":"):
        environment = {**os.environ, "LD_PRELOAD": ":".join(filter(None, (str(library), preloaded)))}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)


if __name__ == "__main__":
    main()
