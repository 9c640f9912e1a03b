"""/metrics in the order, with the labels and the *_created gauges of vLLM 0.32."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from .engine import Engine

SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
TOKENS = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
REASONS = ("stop", "length", "abort", "error", "repetition")


def exposition(engine: Engine) -> str:
    """Return the page."""
    if not engine.started_at:
        engine.started_at = time.time()  # noqa: TID251 - the page shows a wall clock
    page = _Page(f'engine="0",model_name="{engine.options.served_model}"', engine.started_at)
    _process(page, engine)
    if engine.options.speculative and engine.options.k:
        _speculation(page, engine)
    _requests(page, engine)
    _tokens(page, engine)
    _histograms(page, engine)
    return page.text()


class _Page:
    def __init__(self, labels: str, created: float) -> None:
        self._labels = labels
        self._created = created
        self._lines: list[str] = []

    def head(self, name: str, kind: str) -> None:
        self._lines += [f"# HELP {name} What vLLM says about {name}.", f"# TYPE {name} {kind}"]

    def gauge(self, name: str, value: float, *, labels: str | None = None) -> None:
        self.head(name, "gauge")
        self.sample(name, value, labels=self._labels if labels is None else labels)

    def counter(self, name: str, value: float) -> None:
        self.counters(name, {"": value})

    def counters(self, name: str, values: dict[str, float]) -> None:
        """One counter with a further label (``name="value"``) a sample; engine labels stand around it by name."""
        self.head(f"{name}_total", "counter")
        for label, value in values.items():
            self.sample(f"{name}_total", value, labels=self._with(label))
        self.head(f"{name}_created", "gauge")
        for label in values:
            self.sample(f"{name}_created", self._created, labels=self._with(label))

    def histogram(self, name: str, observed: Sequence[float], bounds: Sequence[float]) -> None:
        self.head(name, "histogram")
        for bound in bounds:
            count = sum(value <= bound for value in observed)
            self.sample(f"{name}_bucket", count, labels=self._with(f'le="{bound}"'))
        self.sample(f"{name}_bucket", len(observed), labels=self._with('le="+Inf"'))
        self.sample(f"{name}_count", len(observed))
        self.sample(f"{name}_sum", sum(observed))
        self.head(f"{name}_created", "gauge")
        self.sample(f"{name}_created", self._created)

    def sample(self, name: str, value: float, *, labels: str | None = None) -> None:
        text = self._labels if labels is None else labels
        self._lines.append(f"{name}{{{text}}} {float(value)!r}" if text else f"{name} {float(value)!r}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def _with(self, label: str) -> str:
        return ",".join(sorted(filter(None, (*self._labels.split(","), label))))


def _process(page: _Page, engine: Engine) -> None:
    page.gauge("process_start_time_seconds", engine.started_at, labels="")
    page.head("process_cpu_seconds_total", "counter")
    page.sample("process_cpu_seconds_total", sum(os.times()[:2]), labels="")


def _speculation(page: _Page, engine: Engine) -> None:
    counters = engine.counters
    page.counter("vllm:spec_decode_num_drafts", counters.drafts)
    page.counter("vllm:spec_decode_num_draft_tokens", counters.draft_tokens)
    page.counter("vllm:spec_decode_num_accepted_tokens", counters.accepted)
    page.counters(
        "vllm:spec_decode_num_accepted_tokens_per_pos",
        {f'position="{place}"': count for place, count in enumerate(counters.by_position)},
    )


def _requests(page: _Page, engine: Engine) -> None:
    page.gauge("vllm:num_requests_running", len(engine.running))
    page.gauge("vllm:num_requests_waiting", len(engine.waiting))
    used = sum(len(request.prompt) + request.made for request in engine.running)
    page.gauge("vllm:kv_cache_usage_perc", used / 131072)
    page.counter("vllm:prefix_cache_queries", engine.counters.cache_queries)
    page.counter("vllm:prefix_cache_hits", engine.counters.cache_hits)
    page.counter("vllm:external_prefix_cache_queries", 0)
    page.counter("vllm:external_prefix_cache_hits", 0)
    page.counter("vllm:num_preemptions", 0)


def _tokens(page: _Page, engine: Engine) -> None:
    counters = engine.counters
    page.counter("vllm:prompt_tokens", counters.prompt_tokens)
    page.counters(
        "vllm:prompt_tokens_by_source",
        {
            'source="local_compute"': counters.prompt_tokens - counters.cache_hits,
            'source="local_cache_hit"': counters.cache_hits,
            'source="external_kv_transfer"': 0,
        },
    )
    page.counter("vllm:prompt_tokens_cached", counters.cache_hits)
    page.counter("vllm:generation_tokens", counters.generation_tokens)
    page.counters(
        "vllm:request_success",
        {f'finished_reason="{reason}"': counters.finished.get(reason, 0) for reason in REASONS},
    )


def _histograms(page: _Page, engine: Engine) -> None:
    counters = engine.counters
    page.histogram("vllm:iteration_tokens_total", counters.iterations, TOKENS)
    page.histogram("vllm:time_to_first_token_seconds", counters.first_token_s, SECONDS)
    page.histogram("vllm:inter_token_latency_seconds", counters.gaps_s, SECONDS)
    page.histogram("vllm:e2e_request_latency_seconds", counters.requests_s, SECONDS)
    page.head("vllm:cache_config_info", "gauge")
    page.sample(
        "vllm:cache_config_info",
        1,
        labels=f'block_size="{engine.options.block_size}",cache_dtype="auto",'
        f'enable_prefix_caching="{engine.options.prefix_caching}",engine="0",kv_cache_size_tokens="131072"',
    )
