"""Reasons not to believe a trial, as data: one small function each, with its figures and what can be done. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.records.cell import LoadPoint
from harness.records.doubt import Doubt
from harness.records.imported import ImportedFigures
from harness.records.launch import LaunchRecord
from harness.records.request import RequestRecord
from harness.records.summary import TrialMetrics, TrialSummary
from harness.records.trial import TrialRecord
from harness.stats import remedies
from harness.stats.case import Case, Limits
from harness.stats.engine_checks import ENGINE_CHECKS
from harness.stats.host_checks import HOST_CHECKS
from harness.stats.kinds import doubt
from harness.stats.replay_checks import REPLAY_CHECKS
from harness.stats.setting_checks import SETTING_CHECKS
from harness.stats.summary import busy_s, decode_s, decode_tokens, output_tokens
from harness.units import format_change, format_number, format_rate, format_ratio, format_seconds


def doubts(
    trial: TrialRecord,
    metrics: TrialMetrics,
    launch: LaunchRecord | None,
    limits: Limits,
    *,
    no_speculation_tokens_per_s: float | None = None,
) -> tuple[Doubt, ...]:
    """Return every reason not to believe a trial, those that void it first.

    Args:
        trial: the facts.
        metrics: its figures (stats.summary).
        launch: the boot it ran in; None while that is not over, so nothing is known of the canary after it.
        limits: of this rig.
        no_speculation_tokens_per_s: decode rate of the same load without speculation, the physical reference.
    """
    if trial.imported is not None:
        return (_imported(trial.imported),)
    case = Case(
        trial=trial,
        metrics=metrics,
        launch=launch,
        limits=limits,
        no_speculation_tokens_per_s=no_speculation_tokens_per_s,
    )
    checks = (*ENGINE_CHECKS, *SETTING_CHECKS, *HOST_CHECKS, *REPLAY_CHECKS, *_CLIENT_CHECKS)
    found = [one for check in checks if (one := check(case)) is not None]
    return tuple(sorted(found, key=lambda one: not one.void))


def _imported(figures: ImportedFigures) -> Doubt:
    evidence = f"{figures.program} measured it, by its own clock and definitions"
    return doubt("imported", evidence, "Measure it again with a sweep of the recipe before you rely on it.")


def cell_doubts(
    *,
    trials: Sequence[TrialSummary],
    drafts_in_all: float | None,
    limits: Limits,
    launches: Sequence[LaunchRecord] = (),
    load: LoadPoint | None = None,
) -> tuple[Doubt, ...]:
    """Return what speaks against a cell as a whole.

    Args:
        trials: those that are not void.
        drafts_in_all: over these trials.
        limits: of this rig.
        launches: those that these trials ran in.
        load: of the cell, for what can be done.
    """
    more_drafts = remedies.against_few_drafts(load, launches, wanted=limits.least_drafts)
    found = (_too_few_drafts(trials, drafts_in_all, limits, more_drafts), _kv_tokens_differ(launches, limits))
    return tuple(one for one in found if one is not None)


def _too_few_drafts(
    trials: Sequence[TrialSummary], drafts_in_all: float | None, limits: Limits, remedy: str
) -> Doubt | None:
    if not trials or drafts_in_all is None or drafts_in_all >= limits.least_drafts:
        return None
    return doubt(
        "too_few_drafts",
        f"{format_number(drafts_in_all)} drafts in {len(trials)} trials, {limits.least_drafts} were asked for",
        remedy,
    )


def _kv_tokens_differ(launches: Sequence[LaunchRecord], limits: Limits) -> Doubt | None:
    counts = [launch.boot.kv_cache_tokens for launch in launches if launch.boot and launch.boot.kv_cache_tokens]
    least, most = min(counts, default=0), max(counts, default=0)
    if most <= least * (1 + limits.kv_tokens_ratio):
        return None
    evidence = f"{least} to {most} tokens of KV cache over {len(counts)} launches ({format_change(most / least)})"
    remedy = "Look for what else holds memory on a node; restart the hosts if it leaked, and launch again."
    return doubt("kv_tokens_differ", evidence, remedy)


def _nothing_measured(case: Case) -> Doubt | None:
    if case.finished:
        return None
    reason = case.trial.failure or _outcomes(case.trial.requests) or "no request was sent"
    return doubt("nothing_measured", reason, "See the engine's log of this launch.")


def _requests_failed(case: Case) -> Doubt | None:
    failed, total = len(case.failed), len(case.trial.requests)
    if not failed or not case.finished:
        return None
    kind = "requests_failed" if failed / total > case.limits.failed_ratio else "some_requests_failed"
    evidence = f"{failed} of {total} requests failed ({_outcomes(case.failed)})"
    return doubt(kind, evidence, remedies.against_failures(case))


def _no_finish_reason(case: Case) -> Doubt | None:
    silent = [
        request
        for request in case.trial.requests
        if request.outcome == "broken_stream" or (request.finished and request.finish_reason is None)
    ]
    if not silent:
        return None
    evidence = f"{len(silent)} of {len(case.trial.requests)} streams ended without a finish_reason"
    return doubt("no_finish_reason", evidence, "See the engine's log for a crash, and proxies for a timeout.")


def _prompt_off_target(case: Case) -> Doubt | None:
    worst: tuple[int, int] | None = None
    for request in case.finished:
        got, wanted = request.prompt_tokens, request.expected_prompt_tokens
        if got is None or wanted is None:
            continue
        allowed = max(case.limits.prompt_off_ratio * wanted, case.limits.prompt_off_tokens)
        off = abs(got - wanted)
        if off > allowed and (worst is None or off > abs(worst[0] - worst[1])):
            worst = (got, wanted)
    if worst is None:
        return None
    evidence = f"a prompt of {worst[0]} tokens where {worst[1]} were promised"
    return doubt("prompt_off_target", evidence, "Check that the tokenizer and chat template are this engine's own.")


def _output_degenerate(case: Case) -> Doubt | None:
    tails = [request.repeated_tail_ratio for request in case.finished if request.repeated_tail_ratio is not None]
    worst = max(tails, default=0.0)
    if worst <= case.limits.repeated_tail_ratio:
        return None
    share = sum(tail > case.limits.repeated_tail_ratio for tail in tails)
    evidence = f"{share} of {len(tails)} answers repeat themselves, the worst over {format_ratio(worst)} of its length"
    return doubt("output_degenerate", evidence, remedies.against_repetition(case))


def _output_short(case: Case) -> Doubt | None:
    wanted = case.trial.cell.load.output
    counts = [count for request in case.finished if (count := output_tokens(request)) is not None]
    short = [count for count in counts if count < wanted.most_tokens]
    if wanted.natural or not short:
        return None
    evidence = (
        f"{len(short)} of {len(counts)} answers are short, the shortest {min(short)} of {wanted.most_tokens} tokens"
    )
    return doubt("output_short", evidence, remedies.against_short_answers(case))


def _thinking_used_budget(case: Case) -> Doubt | None:
    cut = [request for request in case.finished if request.finish_reason == "length" and _all_reasoning(request, case)]
    if not cut:
        return None
    most = case.trial.cell.load.output.most_tokens
    evidence = f"{len(cut)} of {len(case.finished)} answers were cut within their reasoning, at {most} tokens or below"
    return doubt(
        "thinking_used_budget", evidence, "Raise thinking_tokens (the reserve for reasoning), or lower thinking."
    )


def _no_answer(case: Case) -> Doubt | None:
    ended = [request for request in case.trial.requests if request.finished]
    empty = [request for request in ended if request.answer_tokens == 0 and request.finish_reason != "length"]
    if not empty:
        return None
    reasoned = sum(bool(request.batches) for request in empty)
    evidence = f"{len(empty)} of {len(ended)} answers have no token"
    evidence += f", {reasoned} of them after reasoning" if reasoned else ""
    remedy = "Look whether the chat template and --reasoning-parser are this model's own; try thinking: off."
    return doubt("no_answer", evidence, remedy)


def _client_bottleneck(case: Case) -> Doubt | None:
    lag_s, cpu_ratio = case.trial.client.loop_lag_max_s, case.trial.client.cpu_ratio
    gap_s = _mean_gap_s(case) if case.trial.events == "tokens" else case.metrics.values["inter_chunk_p50_s"]
    evidence = []
    if lag_s is not None and gap_s and lag_s > case.limits.loop_lag_gaps * gap_s:
        evidence.append(f"the event loop stood still for {format_seconds(lag_s)}, a step takes {format_seconds(gap_s)}")
    if cpu_ratio is not None and cpu_ratio > case.limits.client_cpu_ratio:
        evidence.append(f"the client used {format_ratio(cpu_ratio)} of a core")
    if not evidence:
        return None
    return doubt(
        "client_bottleneck", "; ".join(evidence), "Run the client on another machine, or on a core of its own."
    )


def _events_merged(case: Case) -> Doubt | None:
    if case.trial.events == "tokens":
        return None  # those of one step belong together
    reads = sum(request.coalesced_reads for request in case.trial.requests)
    events, steps = case.events, case.steps
    evidence = []
    if events and reads / events > case.limits.coalesced_ratio:
        evidence.append(f"{reads} socket reads brought more than one of {events} events")
    if steps and steps - events > max(_STRAY_EVENTS, case.limits.coalesced_ratio * steps):
        evidence.append(f"{events} events for {steps} steps")
    if not evidence:
        return None
    return doubt("events_merged", "; ".join(evidence), remedies.against_merged_events(case))


def _above_ceiling(case: Case) -> Doubt | None:
    k, base = case.k, case.no_speculation_tokens_per_s
    rate = case.metrics.values["decode_tokens_per_s"]
    if not k or base is None or rate is None or rate <= base * (k + 1) * (1 + case.limits.ceiling_ratio):
        return None
    evidence = (
        f"{format_rate(rate)} tokens/s, while {format_rate(base)} tokens/s without speculation "
        f"times {k + 1} is {format_rate(base * (k + 1))}"
    )
    return doubt("above_ceiling", evidence, "Check the token counts per event, and measure no speculation again.")


def _identity_violated(case: Case) -> Doubt | None:
    delivered = case.metrics.values["delivered_per_step"]
    step_s, name = _client_step(case)
    if case.trial.cell.load.concurrency != 1 or delivered is None or step_s is None or case.failed:
        return None
    if _steps_without_draft(case) is not None:
        return None  # the counters then count something else than steps
    tokens = [decode_tokens(request) for request in case.finished]
    seconds = sum(decode_s(request) for request in case.finished)
    if None in tokens or seconds <= 0:
        return None
    # Pooled over requests, as the counters are: a median would compare one prompt with all of them.
    seen = sum(count or 0 for count in tokens) / seconds * step_s
    if abs(seen / delivered - 1) <= case.limits.identity_ratio:
        return None
    evidence = (
        f"rate x {name} gives {format_number(seen)} tokens per step, the counters {format_number(delivered)} "
        f"({format_change(seen / delivered)})"
    )
    remedy = "Look for pauses (inter_chunk_max_s), other load on the host, or merged events; repeat when it is quiet."
    return doubt("identity_violated", evidence, remedy)


def _steps_without_draft(case: Case) -> Doubt | None:
    """Counters can only exceed what was delivered (by overshoot), unless a step came out of no draft at all."""
    counters, counts = case.trial.counters, [output_tokens(request) for request in case.finished]
    if not counters.drafts or counters.accepted_tokens is None or None in counts or case.failed:
        return None
    delivered = sum(count or 0 for count in counts) - len(counts)
    undrafted = delivered - counters.drafts - counters.accepted_tokens
    if undrafted <= case.limits.undrafted_ratio * counters.drafts:
        return None
    evidence = f"at least {undrafted} steps came without a draft, beside {counters.drafts} drafts"
    return doubt("steps_without_draft", evidence, remedies.against_undrafted_steps(case))


_CLIENT_CHECKS: tuple[Callable[[Case], Doubt | None], ...] = (
    _nothing_measured,
    _requests_failed,
    _no_finish_reason,
    _prompt_off_target,
    _output_degenerate,
    _output_short,
    _thinking_used_budget,
    _no_answer,
    _client_bottleneck,
    _events_merged,
    _above_ceiling,
    _identity_violated,
    _steps_without_draft,
)
_STRAY_EVENTS = 2  # a stream may merge one or two events without being behind


def _outcomes(requests: Sequence[RequestRecord]) -> str:
    names = sorted({request.outcome for request in requests})
    counts = {name: sum(request.outcome == name for request in requests) for name in names}
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _mean_gap_s(case: Case) -> float | None:
    """Events of one step come together, so that their median gap is no time at all."""
    return sum(decode_s(request) for request in case.finished) / case.events if case.events else None


def _all_reasoning(request: RequestRecord, case: Case) -> bool:
    total = output_tokens(request)
    if not total:
        return False
    if request.answer_tokens == 0:
        return True
    if request.reasoning_tokens is None:
        return False
    return request.reasoning_tokens >= case.limits.reasoning_ratio * total


def _client_step(case: Case) -> tuple[float | None, str]:
    """The step as the client saw it, or the engine's own where events are no steps."""
    if _events_merged(case) is None:
        return case.metrics.values["inter_chunk_p50_s"], "median event gap"
    iterations = case.trial.counters.iterations
    # Each request's first token comes from an iteration before its busy time begins.
    decoding = iterations - len(case.finished) if iterations else 0
    busy = busy_s((request.batches[0].at_s, request.batches[-1].at_s) for request in case.finished)
    return (busy / decoding if decoding > 0 else None), "busy time / iterations"
