"""``vllm bench serve`` on the same server, its per-request figures as timelines."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.truth import Server, Timeline

# The command line of the CPU build cannot start, since it asks for the version of a package of another name.
_PROGRAM = """
import argparse
from vllm.benchmarks import serve
parser = argparse.ArgumentParser()
serve.add_cli_args(parser)
serve.main(parser.parse_args())
"""


def run_vllm_bench(
    python: Path, server: Server, prompts: Sequence[str], *, tokens: int, concurrency: int
) -> list[Timeline]:
    """Send ``prompts``, ``concurrency`` of them at a time. Raises CalledProcessError with the tool's own output."""
    folder = server.log.parent
    dataset = folder / "prompts.jsonl"
    lines = [json.dumps({"prompt": prompt}) for prompt in prompts]
    dataset.write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = {
        "backend": "openai-chat",
        "base-url": server.url,
        "endpoint": "/v1/chat/completions",
        "model": "truth",
        "dataset-name": "custom",
        "dataset-path": str(dataset),
        # Without a tokenizer the tool asks for one token, whatever length it was given.
        "extra-body": json.dumps({"max_completion_tokens": tokens}),
        "num-prompts": str(len(prompts)),
        "max-concurrency": str(concurrency),
        "request-rate": "inf",
        "result-dir": str(folder),
        "result-filename": "bench.json",
    }
    flags = ["skip-chat-template", "skip-tokenizer-init", "disable-shuffle", "disable-tqdm", "save-result"]
    command = [str(python), "-c", _PROGRAM, *(f"--{flag}" for flag in (*flags, "save-detailed"))]
    command += [part for name, value in arguments.items() for part in (f"--{name}", value)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return _timelines(json.loads((folder / "bench.json").read_text(encoding="utf-8")), tokens)


def _timelines(result: dict[str, list[float]], tokens: int) -> list[Timeline]:
    gaps = [list(map(float, each)) for each in result["itls"]]  # type: ignore[call-overload]  # a list of lists
    return [
        Timeline(
            order=index,
            ttft_s=ttft_s,
            span_s=sum(gaps[index]),
            gap_s=median(gaps[index]),
            steps=len(gaps[index]),
            decoded_tokens=tokens - 1,
            tokens=(None,),
        )
        for index, ttft_s in enumerate(result["ttfts"])
    ]
