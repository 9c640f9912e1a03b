"""What the engine counted, before and after a trial. A counter that the engine does not export is None, never 0."""

from __future__ import annotations

from dataclasses import dataclass

NO_SPECULATION = "no speculation"  # the usual ``absent_because``, and why acceptance is null


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSnapshot:
    """One scrape. Counts since the engine started, summed over its label sets."""

    at_s: float  # monotonic, when the scrape returned
    drafts: int | None = None  # None: no speculation, or a server that has none of these counters
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_by_position: tuple[int, ...] | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    prefix_cache_queries: int | None = None  # tokens
    prefix_cache_hits: int | None = None  # tokens
    preemptions: int | None = None
    iterations: int | None = None  # vllm:iteration_tokens_total_count
    requests_finished: int | None = None
    requests_running: int | None = None
    requests_waiting: int | None = None
    kv_cache_usage_ratio: float | None = None
    process_start_s: float | None = None  # process_start_time_seconds: a change is a restart


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterDelta:
    """The difference of two scrapes around a trial."""

    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_by_position: tuple[int, ...] | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    prefix_cache_queries: int | None = None
    prefix_cache_hits: int | None = None
    preemptions: int | None = None
    iterations: int | None = None
    requests_finished: int | None = None
    restarted: bool = False  # a counter went back
    settled: bool = True  # generation_tokens agrees with what was served
    absent_because: str | None = None  # why there are no speculation counts


NO_COUNTERS = CounterDelta(settled=False, absent_because="the server exports no counters")
