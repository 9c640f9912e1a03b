"""Doubts about the engine: what it counted, what it is, and what it did besides serving us. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.records.doubt import Doubt
from harness.stats import remedies
from harness.stats.case import Case
from harness.stats.growing import promised_reuse
from harness.stats.kinds import doubt
from harness.stats.summary import output_tokens, speculates
from harness.units import format_change, format_ratio, format_seconds


def _engine_restarted(case: Case) -> Doubt | None:
    if not case.trial.counters.restarted:
        return None
    return doubt(
        "engine_restarted",
        "a counter is lower after the trial than before it, or the process is another one",
        "See why it restarted (its log, memory on the host), then measure the trial again.",
    )


def _wrong_configuration(case: Case) -> Doubt | None:
    evidence = _launch_says_wrong(case) or _counters_say_wrong(case)
    if evidence is None:
        return None
    remedy = "Check that every tuned variable reached the engine (all ranks), and that an old one is not still running."
    return doubt("wrong_configuration", evidence, remedy)


def _jit_in_window(case: Case) -> Doubt | None:
    lines = case.trial.jit_lines
    if not lines:
        return None
    return doubt(
        "jit_in_window",
        f"{len(lines)} log lines report compilation inside the window",
        "Warm up this shape for longer, then measure the trial again.",
    )


def _slow_launch(case: Case) -> Doubt | None:
    if case.launch is None or case.launch.outcome != "slow_canary":
        return None
    evidence = case.launch.reason or "the canary of this boot was beyond the limit"
    return doubt("slow_launch", evidence, "Nothing to do: the launch was repeated once.")


def _cold_cache_hits(case: Case) -> Doubt | None:
    if case.trial.cell.load.cache != "cold":
        return None
    seen = _cache_hits(case)
    if seen is None or seen.ratio <= case.limits.cache_hit_ratio:
        return None
    return doubt("cold_cache_hits", seen.words, remedies.against_cold_hits(case))


def _reused_prefix_missed(case: Case) -> Doubt | None:
    if case.trial.cell.load.cache not in ("warm", "shared"):
        return None
    seen = _cache_hits(case)
    if seen is None:
        return None
    promised = promised_reuse(case)
    if promised is None:
        missed, words = seen.ratio < case.limits.reused_hit_ratio, seen.words
    else:
        missed = seen.ratio < promised.least_ratio(case.limits)
        words = f"{seen.words}; turns that begin with the whole one before promise {format_ratio(promised.ratio)}"
    return doubt("reused_prefix_missed", words, remedies.against_missed_prefix(case)) if missed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _CacheHits:
    ratio: float
    words: str


def _cache_hits(case: Case) -> _CacheHits | None:
    counters = case.trial.counters
    hits, asked, source = counters.prefix_cache_hits, counters.prefix_cache_queries, "the engine's counters"
    if hits is None or not asked:
        known = [(r.cached_tokens, r.prompt_tokens) for r in case.finished if r.cached_tokens is not None]
        hits, asked = sum(cached or 0 for cached, _ in known), sum(prompt or 0 for _, prompt in known)
        source = "the cached_tokens of the answers"
    if not asked:
        return None
    ratio = hits / asked
    words = f"{format_ratio(ratio)} of {asked} prompt tokens were in the cache, by {source}"
    return _CacheHits(ratio=ratio, words=words)


def _foreign_traffic(case: Case) -> Doubt | None:
    counters = case.trial.counters
    ours = {
        "output tokens": (counters.generation_tokens, _sum([output_tokens(r) for r in case.finished])),
        "prompt tokens": (counters.prompt_tokens, _sum([r.prompt_tokens for r in case.finished])),
        "requests": (counters.requests_finished, len(case.finished)),
    }
    # A failed request counts in the engine, and nobody can say how far it got.
    if case.failed or counters.restarted:
        return None
    more = [
        f"{counted} {name}, {served} of them ours"
        for name, (counted, served) in ours.items()
        if counted is not None and served is not None and counted > served
    ]
    if not more:
        return None
    return doubt("foreign_traffic", "; ".join(more), "Let nobody else use this engine while it is measured.")


def _counters_not_settled(case: Case) -> Doubt | None:
    counters = case.trial.counters
    if counters.settled or counters.restarted or counters.generation_tokens is None or _foreign_traffic(case):
        return None
    served = _sum([output_tokens(request) for request in case.finished])
    evidence = f"{counters.generation_tokens} output tokens counted, {_or_unknown(served)} delivered"
    remedy = "Failed or aborted requests cause it; else acceptance of this trial may lack its last steps."
    return doubt("counters_not_settled", evidence, remedy)


def _canary_moved(case: Case) -> Doubt | None:
    if case.launch is None or case.launch.canary_before is None or case.launch.canary_after is None:
        return None
    before, after = case.launch.canary_before.step_s, case.launch.canary_after.step_s
    if before <= 0 or abs(after / before - 1) <= case.limits.canary_ratio:
        return None
    evidence = (
        f"{format_seconds(before)} a step before, {format_seconds(after)} after ({format_change(after / before)})"
    )
    return doubt("canary_moved", evidence, "Look for heat, power limits or other load on the host; add launches.")


def _warmup_not_stable(case: Case) -> Doubt | None:
    warmup = case.trial.warmup
    if warmup is None or warmup.stable:
        return None
    change = "" if warmup.change_ratio is None else f", the last round {format_ratio(abs(warmup.change_ratio))} off"
    return doubt(
        "warmup_not_stable",
        f"not stable after {warmup.requests} requests{change}",
        "Look for other load on the host, or for compilation in the engine's log; add repeats.",
    )


def _speculation_bypassed(case: Case) -> Doubt | None:
    stats = case.launch.speculation if case.launch else None
    if stats is None or not stats.bypassed or not speculates(case.trial):
        return None
    remedy = "Use a build that drafts for plain chat too, or send tools; until then this is the speed without drafts."
    return doubt("speculation_bypassed", "0 draft cycles in the whole launch, by the engine's own account", remedy)


def _untested_generation(case: Case) -> Doubt | None:
    if case.launch is None or case.launch.untested is None:
        return None
    remedy = "Compare with a launch by hand, or use a generation of the scripts that the recipe's README names."
    return doubt("untested_generation", case.launch.untested, remedy)


ENGINE_CHECKS: tuple[Callable[[Case], Doubt | None], ...] = (
    _engine_restarted,
    _wrong_configuration,
    _jit_in_window,
    _slow_launch,
    _cold_cache_hits,
    _reused_prefix_missed,
    _foreign_traffic,
    _counters_not_settled,
    _canary_moved,
    _warmup_not_stable,
    _speculation_bypassed,
    _untested_generation,
)


def _launch_says_wrong(case: Case) -> str | None:
    launch, k = case.launch, case.k
    if launch is None:
        return None
    if launch.outcome == "wrong_configuration":
        return launch.reason or "the launch was found to be another configuration"
    live = launch.live.num_speculative_tokens if launch.live else None
    return None if k is None or live is None or live == k else f"k = {live} is live, {k} was asked for"


def _counters_say_wrong(case: Case) -> str | None:
    """Drafts may be shorter than k (trimmed by confidence or by an n-gram), never longer, and never where k is 0."""
    k, counters = case.k, case.trial.counters
    if k is None or counters.restarted or not counters.drafts:
        return None
    if k == 0:
        return f"{counters.drafts} drafts were made without speculation"
    positions = counters.accepted_by_position
    if positions is not None and len(positions) != k:
        return f"the engine drafts {len(positions)} tokens, {k} were asked for"
    if counters.draft_tokens is not None and counters.draft_tokens > k * counters.drafts:
        return f"{counters.draft_tokens} tokens in {counters.drafts} drafts are more than {k} each"
    return None


def _sum(counts: list[int | None]) -> int | None:
    return sum(count or 0 for count in counts) if None not in counts else None


def _or_unknown(count: int | None) -> str:
    return "an unknown number" if count is None else str(count)
