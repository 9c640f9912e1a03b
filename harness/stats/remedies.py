"""What can be done about a doubt, given what the sweep sets already: nobody is told to do what was done. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.records.cell import LoadPoint
from harness.records.launch import LaunchRecord
from harness.stats.case import Case

_CONTROL_CLASS = "repetitive"  # it repeats itself by intent
_DEEP_TOKENS = 32_768  # of a cold round: from here on the plan sends no more requests than it must
_CAPPED_TURNS = 2


def against_repetition(case: Case) -> str:
    """For answers that repeat themselves."""
    load = case.trial.cell.load
    if load.workload_class == _CONTROL_CLASS:
        return "Nothing: this class is a control that repeats itself. Draw no verdict from it."
    wishes = []
    if load.recorded is None:
        wishes += [] if load.output.natural else ["natural length (output_tokens: {natural: N})"]
        wishes.append("another class")
    if load.temperature <= 0 and "temperature" not in _as_recorded(load):
        wishes.append("a temperature above 0, as you use it")
    if load.recorded is not None or (load.output.natural and load.temperature > 0):
        wishes.append("a look at the answers (--keep-text): template, quantisation or drafter may be at fault")
    return f"Try {_listed(wishes)}."


def against_short_answers(case: Case) -> str:
    """For answers that are shorter than asked for."""
    load, room = case.trial.cell.load, _room(case.trial.cell.load, case.launch)
    asked = f"context_tokens + output_tokens is {load.context_tokens + load.output.most_tokens}"
    if room is not None and room < load.output.most_tokens and load.recorded is None:
        return f"{asked}, and the model takes {load.context_tokens + room}: lower one of them, or raise max_model_len."
    return (
        "The server may not know min_tokens and ignore_eos: ask for natural length (output_tokens: {natural: N}) "
        "there, so that every arm ends where its text does."
    )


def against_few_drafts(load: LoadPoint | None, launches: Sequence[LaunchRecord], *, wanted: int) -> str:
    """For a cell with too few drafts."""
    more = "add launches (--resume RUN --launches N)"
    if load is None:
        return f"{_sentence(more)}: acceptance gets precise with drafts, not with requests."
    if load.recorded is not None:
        return f"Replay more of the trace (workload.sample.sessions), or {more}."
    deep = load.context_tokens * load.concurrency >= _DEEP_TOKENS / _CAPPED_TURNS
    if load.cache == "cold" and deep:
        return f"Ask for cache: warm, where a deep prompt is computed once a launch, or {more}."
    room = min((left for launch in launches if (left := _room(load, launch)) is not None), default=None)
    full = room is not None and load.output.most_tokens >= room
    if load.output.natural or full:
        why = "the model takes no longer answers" if full else "answers end by themselves"
        return f"{_sentence(more)}, or raise repeat.drafts above {wanted}: {why}, so a higher output_tokens is no help."
    return f"Ask for longer output_tokens, or {more}: acceptance gets precise with drafts, not with requests."


def against_missed_prefix(case: Case) -> str:
    """For prefixes that were not in the cache."""
    load = case.trial.cell.load
    there = case.launch.boot.kv_cache_tokens if case.launch and case.launch.boot else None
    longest = max([load.context_tokens, *(one.expected_prompt_tokens or 0 for one in case.trial.requests)])
    needed = load.concurrency * (longest + load.output.most_tokens)
    if there is not None and needed > there:
        return f"{load.concurrency} streams need {needed} tokens of KV cache, and there are {there}: ask for fewer."
    if load.concurrency > 1:
        return (
            "Give the engine more KV cache, or ask for fewer streams: the prefix was evicted, or is not cached at all."
        )
    return "See whether prefix caching is on: one stream alone is not evicted."


def against_cold_hits(case: Case) -> str:
    """For prompts that were in the cache and should not be."""
    if case.trial.cell.load.recorded is not None:
        return "The engine may not know cache_salt, which keeps requests of a trace apart: ask for cache: as_recorded."
    return "Check that nothing between here and the engine rewrites the head of a prompt, or ask for cache: warm."


def against_failures(case: Case) -> str:
    """For requests that failed."""
    outcomes = {request.outcome for request in case.failed}
    load = case.trial.cell.load
    if outcomes == {"timeout"}:
        return (
            "It was slower than the recipe's slowest speeds (measuring.slowest_decode_tokens_per_s and "
            "prefill_tokens_per_s): correct them, or leave this cell out."
        )
    lower = "context_tokens" if load.concurrency == 1 else "concurrency or context_tokens"
    return f"See the engine's log; lower {lower} if it ran out of memory."


def against_late_sends(case: Case) -> str:
    """For requests that were sent later than they were due."""
    recorded = case.trial.cell.load.recorded
    knob = "speed" if recorded is None or recorded.arrivals == "recorded" else "rate_per_s"
    return f"Times count from the send: add the wait (sent_s - scheduled_s), or lower workload.{knob}."


def against_missing_requests(case: Case) -> str:
    """For a trace of which not every request was sent."""
    takes = case.launch.live.max_model_len if case.launch and case.launch.live else None
    longest = f" ({takes} tokens)" if takes else ""
    return f"The others are longer than the model takes{longest}, or time was up: raise max_model_len or budget.cell."


def against_merged_events(case: Case) -> str:
    """For events that are no steps."""
    if case.metrics.values["iteration_s"] is None:
        return "Read no step time here: the engine counts no iterations. Rates over whole answers still hold."
    return "Use iteration_s as the step time; rates over whole answers still hold."


def against_undrafted_steps(case: Case) -> str:
    """For steps that drafted nothing."""
    known = "" if case.metrics.values["iteration_s"] is None else "iteration_s and "
    return f"step_s and delivered_per_step are per draft here: read {known}decode_tokens_per_s instead."


def against_preemption(case: Case) -> str:
    """For an engine that ran out of KV cache."""
    load = case.trial.cell.load
    fewer = "shorter contexts or answers" if load.concurrency == 1 else "fewer streams, shorter contexts or answers"
    return f"Give the engine more KV cache (gpu_memory_utilization, kv_cache_dtype), or ask for {fewer}."


def _room(load: LoadPoint, launch: LaunchRecord | None) -> int | None:
    """Tokens that an answer may have behind this context."""
    longest = launch.live.max_model_len if launch and launch.live else None
    return None if longest is None else longest - load.context_tokens


def _as_recorded(load: LoadPoint) -> tuple[str, ...]:
    return load.recorded.as_recorded if load.recorded is not None else ()


def _listed(wishes: Sequence[str]) -> str:
    return wishes[0] if len(wishes) == 1 else f"{', '.join(wishes[:-1])} or {wishes[-1]}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
