"""What vLLM writes while it boots, dies and ends."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

from .options import Options

TRACEBACK = """Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/vllm/v1/engine/core.py", line 1299, in run_engine_core
    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)"""
DEATHS = {
    "crash": "ModuleNotFoundError: No module named 'flashinfer'",
    "oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "119.70 GiB of which 1.10 GiB is free.",
    "cache": "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
    "initializing the engine.",
}


def say(text: str, *, process: str = "APIServer", pid: int | None = None, level: str = "INFO", where: str) -> None:
    stamp = time.strftime("%m-%d %H:%M:%S")
    for line in text.splitlines() or [""]:
        print(f"({process} pid={pid or os.getpid()}) {level} {stamp} [{where}] {line}", flush=True)


def plain(text: str) -> None:
    print(text, flush=True)


def banner(options: Options) -> None:
    say("       █     █     █▄   ▄█\n ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0", where="api_utils.py:347")
    say(f"  █▄█▀ █     █     █     █  model   {options.model}", where="api_utils.py:347")
    say(f"non-default args: {options.arguments}", where="api_utils.py:286")
    for name in options.unknown_variables:
        say(f"Unknown vLLM environment variable detected: {name}", level="WARNING", where="interface.py:1458")
    if options.model.startswith("/") and not Path(options.model).is_dir():
        die_without_model(options)
    if options.per_request_metrics != "none" and not options.speculative:
        print(
            "Traceback (most recent call last):\n"
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
            "  Value error, --per-request-spec-decode-metrics requires speculative decoding to be enabled "
            "(via --speculative-config). [type=value_error]",
            flush=True,
        )
        raise SystemExit(1)
    say(f"Using max model len {options.max_model_len}", where="model.py:2152")


def die_without_model(options: Options) -> None:
    print(
        "Traceback (most recent call last):\n"
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
        f"'{options.model}'. Use `repo_type` argument if needed.",
        flush=True,
    )
    raise SystemExit(1)


def die(options: Options) -> int:
    """Fail to boot as vLLM does: the cause in the EngineCore, the consequence in the API server."""
    kind = options.fault("die_at_boot")
    if kind == "model":
        die_without_model(options)
    if kind == "argument":
        print("usage: api_server.py [-h] [options]\napi_server.py: error: unrecognized arguments: --no-such-flag")
        return 2
    if kind == "port":
        port_taken(OSError(errno.EADDRINUSE, "Address already in use"))
        return 1
    core = os.getpid() + 1
    error = {"process": "EngineCore", "pid": core, "level": "ERROR", "where": "core.py:1330"}
    say(f"EngineCore failed to start.\n{TRACEBACK}\n{DEATHS.get(kind, DEATHS['crash'])}", **error)
    print(
        f"(APIServer pid={os.getpid()}) RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}",
        flush=True,
    )
    return 1


def ready(options: Options, core: int) -> None:
    engine = {"process": "EngineCore", "pid": core}
    config = "None"
    if options.speculative:
        method, model = options.speculative.get("method"), options.speculative.get("model")
        tokens = options.speculative.get("num_speculative_tokens")
        config = f"SpeculativeConfig(method={method!r}, model={model!r}, num_spec_tokens={tokens})"
    say(
        f"Initializing a V1 LLM engine (v0.32.0) with config: model={options.model!r}, speculative_config={config}, "
        f"tokenizer={options.model!r}, max_seq_len={options.max_model_len}, "
        "compilation_config={'cudagraph_capture_sizes': [1, 2, 4, 8], 'max_cudagraph_capture_size': 8}",
        where="core.py:133",
        **engine,
    )
    say("Loading weights took 0.02 seconds", where="default_loader.py:501", **engine)
    say("Model loading took 0.29 GiB and 0.021 seconds", where="model_runner.py:305", **engine)
    tokens, length = 131072, options.max_model_len
    say(
        f"CPU KV cache size: {tokens:,} tokens, Maximum concurrency for {length:,} tokens per request: "
        f"{tokens / length:.2f}x",
        where="kv_cache_utils.py:2327",
        **engine,
    )
    say("Graph capturing finished in 1 secs, took 0.01 GiB", where="model_runner.py:747", **engine)
    say(f"Starting vLLM server on http://{options.host}:{options.port}", where="entry.py:140")
    plain(f"INFO:     Started server process [{os.getpid()}]")
    plain("INFO:     Waiting for application startup.")
    plain("INFO:     Application startup complete.")


def port_taken(error: OSError) -> None:
    print("Traceback (most recent call last):", file=sys.stderr)
    print(f"OSError: [Errno {error.errno}] Address already in use", file=sys.stderr, flush=True)


def jit_line() -> None:
    say(
        "Triton kernel JIT compilation during inference: _prepare_inputs_kernel. This causes a latency spike; "
        "consider extending warmup to cover this shape/config.",
        process="EngineCore",
        level="WARNING",
        where="jit_monitor.py:135",
    )


def engine_died() -> None:
    say("AsyncLLM output_handler failed.", level="ERROR", where="async_llm.py:906")
    say(
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
        "See stack trace (above) for the root cause.",
        level="ERROR",
        where="async_llm.py:906",
    )


def shutdown() -> None:
    say("[shutdown] API server: shutdown triggered", where="launcher.py:254")
    plain("INFO:     Application shutdown complete.")


def access(peer: str, request: str, status: str) -> None:
    plain(f'INFO:     {peer} - "{request} HTTP/1.1" {status}')
