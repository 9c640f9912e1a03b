"""Doubts about a replayed trace: what was left out, came late, was in the cache, or is no real text. Pure."""

from __future__ import annotations

from collections.abc import Callable

from harness.records.cell import RecordedLoad
from harness.records.doubt import Doubt
from harness.stats import remedies
from harness.stats.case import Case
from harness.stats.kinds import doubt
from harness.units import format_ratio, format_seconds


def _synthetic_text(case: Case) -> Doubt | None:
    recorded = case.trial.cell.load.recorded
    if recorded is None or recorded.synthetic_class is None:
        return None
    evidence = f"some prompts are made-up {recorded.synthetic_class} of the recorded length"
    remedy = "Read times, not acceptance; record whole texts for a verdict on the depth of speculation."
    return doubt("synthetic_text", evidence, remedy)


def _replay_incomplete(case: Case) -> Doubt | None:
    recorded = case.trial.cell.load.recorded
    sent = len(case.trial.requests)
    if recorded is None or not sent or sent >= recorded.requests:
        return None
    evidence = f"{sent} of {recorded.requests} requests were sent"
    return doubt("replay_incomplete", evidence, remedies.against_missing_requests(case))


def _sent_late(case: Case) -> Doubt | None:
    recorded = case.trial.cell.load.recorded
    if recorded is None or recorded.arrivals == "closed":
        return None
    late = sorted(
        request.sent_s - request.scheduled_s
        for request in case.trial.requests
        if request.sent_s is not None and request.sent_s - request.scheduled_s > case.limits.late_s
    )
    if len(late) <= case.limits.late_ratio * len(case.trial.requests):
        return None
    evidence = (
        f"{len(late)} of {len(case.trial.requests)} requests were due before the answer that they follow had ended, "
        f"the latest by {format_seconds(late[-1])}"
    )
    return doubt("sent_late", evidence, remedies.against_late_sends(case))


def _recorded_reuse_differs(case: Case) -> Doubt | None:
    load = case.trial.cell.load
    seen = _hit_ratio(case)
    if load.recorded is None or load.cache != "as_recorded" or seen is None or case.failed:
        return None
    low, high = _expected(load.recorded, case)
    if low <= seen <= high:
        return None
    expected = format_ratio(load.recorded.reused_ratio)
    evidence = f"{format_ratio(seen)} of the prompt tokens were in the cache, {expected} begin an earlier prompt"
    remedy = "Less: the cache is too small, or off. More: the engine knows no cache_salt, and was filled before."
    return doubt("recorded_reuse_differs", evidence, remedy)


def _expected(recorded: RecordedLoad, case: Case) -> tuple[float, float]:
    """Caches work in whole blocks, and a prompt cannot use what is only being computed."""
    least = recorded.reused_ratio * case.limits.reuse_low_ratio - case.limits.reuse_off
    return least, recorded.reused_ratio + case.limits.reuse_off


def _hit_ratio(case: Case) -> float | None:
    counters = case.trial.counters
    if counters.prefix_cache_hits is not None and counters.prefix_cache_queries:
        return counters.prefix_cache_hits / counters.prefix_cache_queries
    known = [(one.cached_tokens, one.prompt_tokens) for one in case.finished if one.cached_tokens is not None]
    prompt = sum(tokens or 0 for _, tokens in known)
    return sum(cached or 0 for cached, _ in known) / prompt if prompt else None


REPLAY_CHECKS: tuple[Callable[[Case], Doubt | None], ...] = (
    _synthetic_text,
    _replay_incomplete,
    _sent_late,
    _recorded_reuse_differs,
)
