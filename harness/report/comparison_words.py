"""The sentences of a verdict. Every number in them comes with its interval or its source."""

from __future__ import annotations

import math

from harness.records.noise import StoredNoise
from harness.records.verdict import Comparison, Effect, Part
from harness.report.labels import counted
from harness.stats.effect import ASSUMED_SIGMA_RATIO
from harness.stats.floor import sigma_interval
from harness.units import MISSING, format_ratio

_NOTICEABLE_LOG = math.log(1.01)  # a part that moved by less explains nothing
_PRICE_LOG = math.log(1.05)  # a loss of less beside a win is not worth a sentence
_PERCENT = 100


def change(effect: Effect | None) -> str:
    """Return "+12.3 %"."""
    return MISSING if effect is None else percent(effect.log_ratio)


def interval(effect: Effect | None) -> str:
    """Return "+8.1 % … +16.7 %"."""
    return MISSING if effect is None else f"{percent(effect.low)} … {percent(effect.high)}"


def percent(log_ratio: float) -> str:
    """Return a logarithm of a ratio as a change with sign."""
    return f"{math.expm1(log_ratio) * _PERCENT:+.1f} %"


def result_words(comparison: Comparison, noise: StoredNoise | None = None) -> str:
    """Return the verdict in one sentence, with its margin; of an A/A the noise floor that it found."""
    base, candidate = comparison.base.name, comparison.candidate.name
    effect, margin = comparison.effect, format_ratio(comparison.margin_ratio)
    if comparison.same:
        return _same_words(comparison, noise)
    if effect is None:
        return f"Cannot tell whether {candidate} is better than {base}: {comparison.null_reason}."
    figures = f"{change(effect)} ({interval(effect)}), margin {margin}"
    of_what = f"{comparison.objective} over the workload"
    if comparison.objective == "seconds":
        of_what = "speed over the workload, first token included"
    if comparison.verdict in ("better", "worse"):
        return f"{candidate} is {comparison.verdict} than {base}: {figures}, {of_what}."
    if comparison.verdict == "no difference":
        inner = f"{percent(effect.low90)} … {percent(effect.high90)}"
        return f"No difference within {margin} between {candidate} and {base}: {change(effect)} ({inner}), {of_what}."
    vetoes = "; ".join(comparison.vetoes)
    if vetoes and effect.low <= 0:
        return f"Cannot tell whether {candidate} is better than {base}: {figures}, {of_what}; {vetoes}."
    if vetoes:
        return f"{candidate} is not called better than {base}, although it is at {figures}: {vetoes}."
    return f"Cannot tell whether {candidate} is better than {base}: {figures}, {of_what}."


def _same_words(comparison: Comparison, noise: StoredNoise | None) -> str:
    if noise is None:
        because = comparison.null_reason or "fewer than two launches measured every cell of the workload"
        return f"The noise floor could not be measured: {because}."
    return (
        f"Launches of {comparison.base.name.removesuffix(' (A)')} differ by {format_ratio(noise.total_sigma_ratio)} "
        f"(standard deviation over {noise.launches} of them): that is the noise floor of this rig."
    )


def spread_words(comparison: Comparison, noise: StoredNoise | None) -> str:
    """Return how well an A/A knows what it found."""
    if noise is None or not comparison.same:
        return ""
    low, high = sigma_interval(noise)
    return f"The true figure lies between {format_ratio(low)} and {format_ratio(high)} (95 %): more launches narrow it."


def explained(comparison: Comparison) -> str:
    """Return why: acceptance against step time ("slower although it accepts 9 % more per step")."""
    parts = {part.metric: part for part in comparison.overall}
    tokens, step = _effect(parts.get("delivered_per_step")), _effect(parts.get("step_s"))
    if tokens is None or step is None or comparison.same:
        return ""
    more = _moved(tokens, "accepts", "more tokens per step", "fewer tokens per step")
    cost = _cost(step)
    if not more and not cost:
        return "It delivers as many tokens per step, and a step takes as long."
    if not more or not cost:
        return f"It {more or 'delivers as many tokens per step'}, and a step {cost or 'takes as long'}."
    total = tokens.log_ratio + step.log_ratio
    against = tokens.log_ratio * step.log_ratio < 0
    if not against:
        return f"It {more}, and a step {cost}."
    if total >= 0:
        return (
            f"It is faster because it {more}, although a step {cost}."
            if tokens.log_ratio > 0
            else (f"It is faster because a step {cost}, although it {more}.")
        )
    return (
        f"It is slower although it {more}: a step {cost}."
        if tokens.log_ratio > 0
        else (f"It is slower although a step {cost}: it {more}.")
    )


def _moved(effect: Effect, verb: str, up: str, down: str) -> str:
    if abs(effect.log_ratio) < _NOTICEABLE_LOG:
        return ""
    size = f"{abs(math.expm1(effect.log_ratio)) * _PERCENT:.0f} %"
    return f"{verb} {size} {up if effect.log_ratio > 0 else down}"


def _cost(step: Effect) -> str:
    """The effect is signed by speed; people think of a step's time."""
    if abs(step.log_ratio) < _NOTICEABLE_LOG:
        return ""
    longer = math.expm1(-step.log_ratio)
    return f"costs {abs(longer) * _PERCENT:.0f} % {'more' if longer > 0 else 'less'}"


def price_words(comparison: Comparison) -> tuple[str, ...]:
    """Return what a win costs elsewhere: first token, worst stream, prefill."""
    if comparison.verdict != "better":
        return ()
    said = {
        "ttft_s": "the first token",
        "worst_stream_tokens_per_s": "the slowest stream",
        "prefill_tokens_per_s": "prefill",
    }
    lost = [
        f"{said[part.metric]} is {abs(math.expm1(effect.log_ratio)) * _PERCENT:.0f} % slower"
        for part in comparison.overall
        if part.metric in said and (effect := part.effect) is not None
        if effect.high < 0 and effect.log_ratio <= -_PRICE_LOG
    ]
    return (f"The win has a price: {', '.join(lost)}.",) if lost else ()


def noise_words(comparison: Comparison, *, measured_by: str = "The same command with --same") -> str:
    """Return what is known of the noise between launches, and from where, else the command that measures it."""
    effect = comparison.effect
    if effect is None or comparison.same:
        return ""
    sigma = format_ratio(effect.noise.sigma_ratio)
    if effect.noise.source == "stored":
        day = (effect.noise.measured_at or "")[:10]
        return f"Launches of this rig differ by {sigma} (the A/A of {day} and the launches here)."
    if effect.noise.source == "assumed":
        assumed = format_ratio(ASSUMED_SIGMA_RATIO)
        return (
            f"No A/A of this rig is stored: launches are assumed to differ by {assumed}, which with the launches here "
            f"makes {sigma}. {measured_by} measures it."
        )
    return f"Launches differ by {sigma} here."


def visible_words(comparison: Comparison) -> str:
    """Return what this design could have seen."""
    if comparison.smallest_visible_ratio is None or comparison.effect is None or comparison.same:
        return ""
    launches = counted(min(comparison.effect.launches), "launch", "launches")
    least = format_ratio(comparison.smallest_visible_ratio)
    return f"With {launches} of each arm a true gain of {least} is found in 80 of 100 comparisons."


def _effect(part: Part | None) -> Effect | None:
    return part.effect if part else None
