"""The log of a simulated engine: a file with the lines that vLLM writes, so that whoever reads logs reads this one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.records.clock import Clock
from harness.records.launch import BootFacts
from harness.simulator.engine import EngineLoop
from harness.simulator.front import VERSION

MARK = "SIMULATED: no engine runs here, and nothing below was measured on one"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLog:
    """Lines go to the end of a file, at once."""

    path: Path
    clock: Clock

    def size(self) -> int:
        """The offset that marks now; 0 where there is no log."""
        return self.path.stat().st_size if self.path.exists() else 0

    def say(self, line: str, *, process: str = "EngineCore", level: str = "INFO") -> None:
        """Write one line with vLLM's prefix."""
        date, time = self.clock.stamp().split("T")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"({process} pid=0) {level} {date[5:]} {time[:8]} [simulator] {line}\n")

    def write(self, line: str) -> None:
        """Write one line as it is."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def matching(self, offset: int, patterns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the lines after ``offset`` that match one of ``patterns``."""
        if not self.path.exists():
            return ()
        with self.path.open("rb") as file:
            file.seek(offset)
            lines = file.read().decode("utf-8", errors="replace").splitlines()
        compiled = [re.compile(pattern) for pattern in patterns]
        return tuple(line for line in lines if any(pattern.search(line) for pattern in compiled))


def boot_lines(engine: EngineLoop, *, model: str) -> Iterator[tuple[float, str]]:
    """Yield what the engine says while it boots, and at which share of the time it takes."""
    settings, truth = engine.settings, engine.scenario.truth
    facts = boot_facts(engine)
    config = _config(engine)
    arguments = {"model": model, "max_model_len": settings.max_model_tokens}
    yield 0.0, MARK
    yield 0.0, f"vLLM API server version {VERSION}"
    yield 0.0, f"non-default args: {arguments | ({'speculative_config': config} if config else {})}"
    yield (
        0.02,
        f"Initializing a V1 LLM engine (v{VERSION}) with config: model={model!r}, "
        f"speculative_config={_object(config)}, max_seq_len={settings.max_model_tokens}, "
        f"max_num_batched_tokens={settings.scheduling.max_batched_tokens}, "
        f"cudagraph_capture_sizes={list(engine.capture_sizes)}",
    )
    yield 0.6, f"Loading weights took {facts.model_load_s:.2f} seconds"
    yield 0.6, f"Model loading took 0.0 GiB and {facts.model_load_s:.3f} seconds"
    yield (
        0.7,
        f"GPU KV cache size: {truth.kv_cache_tokens:,} tokens, Maximum concurrency for "
        f"{settings.max_model_tokens:,} tokens per request: {facts.max_concurrency_x:.2f}x",
    )
    yield 0.95, f"Graph capturing finished in {facts.graph_capture_s:.0f} secs, took 0.0 GiB"
    yield 1.0, "Application startup complete."


def boot_facts(engine: EngineLoop) -> BootFacts:
    """Return the same as facts. Of k they say what was asked for, as a log does."""
    settings, truth = engine.settings, engine.scenario.truth
    return BootFacts(
        engine_version=VERSION,
        kv_cache_tokens=truth.kv_cache_tokens,
        max_concurrency_x=round(truth.kv_cache_tokens / settings.max_model_tokens, 2),
        model_load_s=round(0.58 * truth.launch_s, 2),
        graph_capture_s=float(round(0.25 * truth.launch_s)),
        capture_sizes=engine.capture_sizes or None,
        max_num_batched_tokens=settings.scheduling.max_batched_tokens,
        speculative_config=dict(_config(engine)),
    )


def _config(engine: EngineLoop) -> dict[str, str | int]:
    speculation = engine.settings.speculation
    if speculation.k == 0:
        return {}
    return {
        "method": "dspark",
        "num_speculative_tokens": speculation.k,
        "draft_sample_method": speculation.draft_sample_method,
    }


def _object(config: dict[str, str | int]) -> str:
    if not config:
        return "None"
    method, k = config["method"], config["num_speculative_tokens"]
    return f"SpeculativeConfig(method={method!r}, model='simulated', num_spec_tokens={k})"
