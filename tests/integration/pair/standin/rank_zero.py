"""What rank 0 does once rank 1 has joined: the last lines of the boot, then serving."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from datetime import UTC, datetime
from typing import Any

from harness.errors import HarnessError
from harness.records.cell import KnobValue
from harness.simulator.engine import EngineLoop
from tests.integration.pair.standin import faults
from tests.integration.pair.standin.served import Served, new_engine, serve
from tests.integration.pair.standin.vllm import Options, say

_INPUTS = {  # what the model takes -> vLLM's argument, and the recipe's default where it is not given
    "max_num_seqs": 6,
    "max_num_batched_tokens": 8192,
    "max_model_len": 1048576,
    "long_prefill_token_threshold": 1024,
}


def run(options: Options, settings: dict[str, Any], known: faults.Faults) -> int:
    """Finish the boot and serve until the end; returns the exit code."""
    served = _served(options, settings)
    try:
        engine = new_engine(served, lambda line: say(line, level="WARNING", where="jit_monitor.py:135"))
    except HarnessError as problem:
        say(f"ValueError: {problem}", level="ERROR")
        return 1
    _say_boot(options, engine, settings["boot_s"] / 2)
    chats = itertools.count()

    def chats_fail() -> bool:
        is_later = next(chats) > 0
        return known.happens(faults.CHAT_500) or (is_later and known.happens(faults.LATER_CHAT_500))

    serving = serve(
        engine,
        served,
        chats_fail=chats_fail,
        on_ready=lambda: _say_ready(served),
        on_access=lambda line: print(line, flush=True),
    )
    try:
        asyncio.run(serving)
    except OSError as problem:
        print(
            f"OSError: [Errno {problem.errno}] error while attempting to bind on address: {problem.strerror}",
            flush=True,
        )
        return 1
    if engine.dead:
        say("EngineCore encountered an issue. See stack trace (above) for the root cause.", level="ERROR")
        return 1
    say("[shutdown] API server: shutdown triggered", process="APIServer", where="launcher.py:254")
    return 0


def _served(options: Options, settings: dict[str, Any]) -> Served:
    capture = options.whole("max_cudagraph_capture_size", 0)
    return Served(
        truth=_truth(options),
        inputs=_inputs(options),
        truncated_graphs=capture % 8 != 0,
        speed=float(settings["speed"]),
        scenario=settings["scenario"],
        seed=int(settings["seed"]),
        launch_key=datetime.now(UTC).isoformat(),
        model=options.served_model,
        host=str(options.arguments.get("host", "0.0.0.0")),
        port=options.whole("port", 8000),
        api_keys=options.api_keys,
        kv_cache_tokens=settings.get("kv_cache_tokens"),
    )


def _truth(options: Options) -> str:
    model = options.model.lower()
    if "vision-exp" in model:
        return "vision-exp-anemll"
    if options.stage_c:
        return "0731-stage-c" if "0731" in model else "preview-stage-c"
    return "0731-anemll"


def _inputs(options: Options) -> dict[str, KnobValue]:
    inputs: dict[str, KnobValue] = {name: options.whole(name, default) for name, default in _INPUTS.items()}
    prefills = os.environ.get("DSPARK_MAX_INFLIGHT_PREFILLS", "")
    inputs["max_inflight_prefills"] = min(int(prefills), 3) if prefills.isdigit() and int(prefills) > 0 else 1
    inputs["num_speculative_tokens"] = options.k
    inputs["draft_sample_method"] = str(options.speculation.get("draft_sample_method", "greedy"))
    if options.stage_c:
        threshold = os.environ.get("VLLM_DSPARK_CONFIDENCE_THRESHOLD")
        inputs["confidence_threshold"] = float(threshold or 0.0)
        inputs["confidence_scheduler"] = os.environ.get("VLLM_DSPARK_CONFIDENCE_SCHEDULER") or "off"
    return inputs


def _say_boot(options: Options, engine: EngineLoop, seconds: float) -> None:
    truth, longest = engine.scenario.truth, options.whole("max_model_len", 1048576)
    capture = options.whole("max_cudagraph_capture_size", 0)
    say("Model loading took 79.2 GiB and 41.3 seconds", where="gpu_model_runner.py:3140")
    time.sleep(seconds)
    say("Available KV cache memory: 18.08 GiB", where="gpu_worker.py:560")
    say(f"GPU KV cache size: {truth.kv_cache_tokens:,} tokens", where="kv_cache_utils.py:2177")
    ratio = truth.kv_cache_tokens / longest
    say(f"Maximum concurrency for {longest:,} tokens per request: {ratio:.2f}x", where="kv_cache_utils.py:2178")
    sizes = list(range(8, capture + 1, 8))
    say(f"cudagraph_capture_sizes=[{', '.join(map(str, sizes))}]", where="compilation.py:88")
    say("Graph capturing finished in 23 secs, took 1.27 GiB", where="gpu_model_runner.py:747")


def _say_ready(served: Served) -> None:
    say(f"Starting vLLM server on http://{served.host}:{served.port}", process="APIServer", where="entry.py:140")
    print(f"INFO:     Started server process [{os.getpid()}]\nINFO:     Waiting for application startup.", flush=True)
    print("INFO:     Application startup complete.", flush=True)
