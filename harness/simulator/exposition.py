"""/metrics as vLLM prints it: its names, the order of its families and labels, and a `_created` gauge per counter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.simulator.counters import FINISH_REASONS, Counters, Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the page shows besides the counters. Times are seconds since 1970."""

    model: str
    started_at: float
    speculates: bool  # without speculation there are no such series at all
    kv_cache_tokens: int
    block_tokens: int
    prefix_caching: bool


def exposition(counters: Counters, facts: Facts) -> str:
    """Return the page."""
    page = _Page({"engine": "0", "model_name": facts.model}, facts.started_at)
    page.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", facts.started_at)
    if facts.speculates:
        _speculation(page, counters)
    _requests(page, counters, facts)
    _tokens(page, counters)
    _histograms(page, counters)
    page.info(
        "vllm:cache_config_info",
        "Information of the cache configuration.",
        {
            "block_size": str(facts.block_tokens),
            "cache_dtype": "auto",
            "enable_prefix_caching": str(facts.prefix_caching),
            "engine": "0",
            "kv_cache_size_tokens": str(facts.kv_cache_tokens),
        },
    )
    return page.text()


def _speculation(page: _Page, counters: Counters) -> None:
    page.counter("vllm:spec_decode_num_drafts", "Number of drafts.", counters.drafts)
    page.counter("vllm:spec_decode_num_draft_tokens", "Number of draft tokens.", counters.draft_tokens)
    page.counter("vllm:spec_decode_num_accepted_tokens", "Number of accepted tokens.", counters.accepted_tokens)
    page.counters(
        "vllm:spec_decode_num_accepted_tokens_per_pos",
        "Accepted tokens by position in the draft.",
        "position",
        {str(position): count for position, count in enumerate(counters.accepted_by_position)},
    )


def _requests(page: _Page, counters: Counters, facts: Facts) -> None:
    page.gauge("vllm:num_requests_running", "Requests in the batch.", counters.running, engine=True)
    page.gauge("vllm:num_requests_waiting", "Requests that wait.", counters.waiting, engine=True)
    used = counters.kv_tokens / facts.kv_cache_tokens
    page.gauge("vllm:kv_cache_usage_perc", "Share of the cache in use, 1 is all of it.", used, engine=True)
    queries, hits = counters.prefix_cache_queries, counters.prefix_cache_hits
    page.counter("vllm:prefix_cache_queries", "Tokens looked up in the prefix cache.", queries)
    page.counter("vllm:prefix_cache_hits", "Tokens found in the prefix cache.", hits)
    page.counter("vllm:external_prefix_cache_queries", "Tokens looked up in other caches.", 0)
    page.counter("vllm:external_prefix_cache_hits", "Tokens found in other caches.", 0)
    page.counter("vllm:num_preemptions", "Preemptions.", 0)


def _tokens(page: _Page, counters: Counters) -> None:
    page.counter("vllm:prompt_tokens", "Tokens of prompts.", counters.prompt_tokens)
    page.counters(
        "vllm:prompt_tokens_by_source",
        "Tokens of prompts by where they came from.",
        "source",
        {
            "local_compute": counters.prompt_tokens - counters.prefix_cache_hits,
            "local_cache_hit": counters.prefix_cache_hits,
            "external_kv_transfer": 0,
        },
    )
    page.counter("vllm:prompt_tokens_cached", "Cached tokens of prompts.", counters.prefix_cache_hits)
    page.counter("vllm:generation_tokens", "Tokens of answers.", counters.generation_tokens)
    finished = {reason: counters.finished[reason] for reason in FINISH_REASONS}
    page.counters("vllm:request_success", "Requests that ended.", "finished_reason", finished)


def _histograms(page: _Page, counters: Counters) -> None:
    page.histogram("vllm:request_prompt_tokens", "Tokens by prompt.", counters.request_prompt_tokens)
    page.histogram("vllm:request_generation_tokens", "Tokens by answer.", counters.request_generation_tokens)
    page.histogram("vllm:iteration_tokens_total", "Tokens by engine step.", counters.iteration_tokens)
    page.histogram("vllm:time_to_first_token_seconds", "Seconds to the first token.", counters.first_token_s)
    page.histogram("vllm:inter_token_latency_seconds", "Seconds between two steps of a request.", counters.gap_s)
    page.histogram("vllm:e2e_request_latency_seconds", "Seconds of a whole request.", counters.request_s)


class _Page:
    """Samples have their labels in the order of the alphabet."""

    def __init__(self, labels: Mapping[str, str], created: float) -> None:
        self._labels = labels
        self._created = created
        self._lines: list[str] = []

    def gauge(self, name: str, about: str, value: float, *, engine: bool = False) -> None:
        self._head(name, about, "gauge")
        self._sample(name, value, self._labels if engine else {})

    def counter(self, name: str, about: str, value: float) -> None:
        self._head(f"{name}_total", about, "counter")
        self._sample(f"{name}_total", value, self._labels)
        self._head(f"{name}_created", about, "gauge")
        self._sample(f"{name}_created", self._created, self._labels)

    def counters(self, name: str, about: str, label: str, values: Mapping[str, float]) -> None:
        self._head(f"{name}_total", about, "counter")
        for key, value in values.items():
            self._sample(f"{name}_total", value, {**self._labels, label: key})
        self._head(f"{name}_created", about, "gauge")
        for key in values:
            self._sample(f"{name}_created", self._created, {**self._labels, label: key})

    def histogram(self, name: str, about: str, observed: Histogram) -> None:
        self._head(name, about, "histogram")
        below = 0
        for bound, count in zip((*map(str, observed.bounds), "+Inf"), observed.counts, strict=True):
            below += count
            self._sample(f"{name}_bucket", below, {**self._labels, "le": bound})
        self._sample(f"{name}_count", below, self._labels)
        self._sample(f"{name}_sum", observed.total, self._labels)
        self._head(f"{name}_created", about, "gauge")
        self._sample(f"{name}_created", self._created, self._labels)

    def info(self, name: str, about: str, labels: Mapping[str, str]) -> None:
        self._head(name, about, "gauge")
        self._sample(name, 1, labels)

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def _head(self, name: str, about: str, kind: str) -> None:
        self._lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]

    def _sample(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        written = ",".join(f'{key}="{_escaped(labels[key])}"' for key in sorted(labels))
        self._lines.append(f"{name}{{{written}}} {float(value)!r}" if written else f"{name} {float(value)!r}")


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
