"""Two scrapes to the counts between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from harness.records.counters import NO_SPECULATION, CounterDelta, CounterSnapshot

NO_METRICS = "no /metrics, or none with an engine's counters"
RESTARTED = "the engine restarted inside the window"
_MONOTONIC = (
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "prompt_tokens",
    "generation_tokens",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "preemptions",
    "iterations",
    "requests_finished",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftLength:
    """How long drafts are, as the engine counts them: the proof that the asked k is live."""

    positions: int | None  # highest position label + 1: k, also before anything was drafted
    tokens_per_draft: float | None  # equals k where nothing trims drafts; None before the first draft


def difference(
    before: CounterSnapshot | None,
    after: CounterSnapshot | None,
    *,
    settled: bool,
    num_speculative_tokens: int | None = None,
) -> CounterDelta:
    """Return what the engine counted between two scrapes.

    Args:
        before: None where the server has no counters.
        after: likewise.
        settled: as ``settled_after`` said.
        num_speculative_tokens: k as asked for, so that missing speculation counters are explained; None: unknown.
    """
    if before is None or after is None:
        return CounterDelta(settled=False, absent_because=NO_METRICS)
    if _restarted(before, after):
        return CounterDelta(restarted=True, settled=False, absent_because=RESTARTED)
    counts: dict[str, Any] = {name: _count(getattr(before, name), getattr(after, name)) for name in _MONOTONIC}
    return CounterDelta(
        **counts,
        accepted_by_position=_by_position(before.accepted_by_position, after.accepted_by_position),
        settled=settled,
        absent_because=_absence(after, num_speculative_tokens),
    )


def draft_length(counters: CounterSnapshot | CounterDelta) -> DraftLength:
    """Return k as the counters show it; both None for a server without speculation."""
    by_position, drafts, drafted = counters.accepted_by_position, counters.drafts, counters.draft_tokens
    return DraftLength(
        positions=len(by_position) if by_position is not None else None,
        tokens_per_draft=drafted / drafts if drafts and drafted is not None else None,
    )


def _restarted(before: CounterSnapshot, after: CounterSnapshot) -> bool:
    born_before, born_after = before.process_start_s, after.process_start_s
    if born_before is not None and born_after is not None and born_before != born_after:
        return True
    pairs = [(getattr(before, name), getattr(after, name)) for name in _MONOTONIC]
    pairs += zip_longest(before.accepted_by_position or (), after.accepted_by_position or ())
    return any(earlier is not None and (later is None or later < earlier) for earlier, later in pairs)


def _count(before: int | None, after: int | None) -> int | None:
    # Some servers create a counter at its first event, so a series that appears has risen from zero.
    return None if after is None else after - (before or 0)


def _by_position(before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if after is None:
        return None
    return tuple(later - earlier for earlier, later in zip_longest(before or (), after, fillvalue=0))


def _absence(after: CounterSnapshot, num_speculative_tokens: int | None) -> str | None:
    if after.drafts is not None:
        return None
    if num_speculative_tokens:
        return f"the server counts no drafts, though k = {num_speculative_tokens} was asked for"
    return NO_SPECULATION
