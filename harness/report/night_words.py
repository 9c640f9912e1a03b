"""What a judged night leaves to be said: why it is to be believed, and all of it in one line. Up is better. Pure."""

from __future__ import annotations

from typing import Literal

from harness.records.manifest import SIMULATED_MARK
from harness.report.labels import counted
from harness.report.text import one_line
from harness.stats import morning_words
from harness.stats.morning import WORDS, Figure, Morning
from harness.stats.paired import SECONDS
from harness.units import MISSING

COULD_NOT_RUN: Literal["could not run"] = "could not run"
LONG = WORDS | {SECONDS: "speed over the workload, first token included"}
_PERCENT = 100
_LEAST_P = 1e-9
_WHO = {1: "this night and the one before it are", 2: "both launches of this night are"}


def percent(log_ratio: float | None) -> str:
    """Return a logarithm of a ratio as a change with sign: "+0.4 %"."""
    return MISSING if log_ratio is None else morning_words.percent(log_ratio)


def moved_words(one: Figure) -> str:
    """Return how much a series moved, with its interval and since when, as well as that is known."""
    change = one.change
    if change is None:
        return percent(one.log_ratio)
    interval = f"({percent(change.low)} … {percent(change.high)})"
    drift = f", drifting by {percent(change.per_night)} a night" if change.shape == "drift" else ""
    return f"{percent(change.log_ratio)} {interval} since {one.since}{drift}"


def moved_figures(morning: Morning) -> tuple[Figure, ...]:
    """Return the series that moved as the verdict says; () where it says nothing of the kind."""
    if morning.verdict == "regressed":
        return tuple(one for one in morning.figures if one.fell)
    return tuple(one for one in morning.figures if one.rose) if morning.verdict == "improved" else ()


def belief(morning: Morning) -> str:
    """Return why the verdict is to be believed, or what speaks for and against; "" where nothing is claimed."""
    moved = moved_figures(morning)
    if moved:
        first = moved[0]
        return "; ".join(part for part in (_change_words(first), _gate_words(first, morning)) if part)
    return launches_words(morning) if morning.verdict == "doubtful" else ""


def launches_words(morning: Morning) -> str:
    """Return each launch of a night against the baseline; "" where it was launched once, or nothing is accepted."""
    said = []
    for one in morning.figures:
        launches = morning.night.figures.get(one.name, ())
        if len(launches) > 1 and one.baseline is not None:
            each = " and ".join(percent(value - one.baseline.center) for value in launches)
            said.append(f"{WORDS.get(one.name, one.name)} {each}")
    return f"the launches of this night: {', '.join(said)}" if said else ""


def p_words(p: float) -> str:
    """Return how likely chance alone would show as much."""
    return f"p = {p:.1g}" if p >= _LEAST_P else "p < 1e-9"


def limit_words(one: Figure) -> str:
    """Return where the gate of a series is, against the baseline."""
    return MISSING if one.baseline is None else percent(-one.baseline.limit_log)


def night_line(
    sweep: str,
    mornings: tuple[tuple[str, Morning], ...],
    exit_code: int,
    *,
    date: str | None = None,
    report: str | None = None,
    reason: str | None = None,
) -> str:
    """Return the night in one line, as a log or a chat shows it.

    Args:
        sweep: its name.
        mornings: configurations with what is said of them; the first decides, none where the night could not run.
        exit_code: of the command.
        date: of the night, where there is no morning.
        report: where the report lies.
        reason: why there is nothing to judge, or what failed beside what was judged.
    """
    gate = mornings[0][1] if mornings else None
    day = gate.night.at[:10] if gate else date
    parts = [f"{sweep}{f' {day}' if day else ''}: {_verdict_words(gate) if gate else COULD_NOT_RUN}"]
    parts += [reason] if reason else []
    parts += [gate.cause, belief(gate)] if gate else []
    parts += [f"watched, does not gate: {label} {one.sentence}" for label, one in mornings[1:] if is_news(one)]
    parts += [counted(gate.history, "earlier night")] if gate else []
    parts += [f"exit {exit_code}"] if exit_code else []
    parts += [f"report {report}"] if report else []
    parts += [SIMULATED_MARK] if gate and gate.night.simulated else []
    return one_line(" · ".join(part for part in parts if part))


def is_news(morning: Morning) -> bool:
    """Return whether a watched configuration has something to tell."""
    return morning.verdict not in ("fine", "no baseline")


def _verdict_words(morning: Morning) -> str:
    """The sentence says it all, but for a night of which there is nothing to tell but figures."""
    if morning.verdict == "fine":
        each = (f"{WORDS.get(one.name, one.name)} {percent(one.log_ratio)}" for one in morning.figures)
        return " · ".join(["fine", *(each if any(one.baseline for one in morning.figures) else ())])
    return f"no baseline · {morning.sentence}" if morning.verdict == "no baseline" else morning.sentence


def _change_words(one: Figure) -> str:
    return f"a change point of the nights, {p_words(one.change.p)}" if one.change is not None else ""


def _gate_words(one: Figure, morning: Morning) -> str:
    """What the accepted baseline says of this night alone."""
    if one.baseline is None:
        return ""
    limit = one.baseline.limit_log if one.rose else -one.baseline.limit_log
    where = f"{'above' if one.rose else 'below'} the limit ({percent(limit)})"
    launches = len(morning.night.figures.get(one.name, ()))
    if one.regressed or one.improved:
        return f"{_WHO.get(launches, f'all {launches} launches of this night are')} {where}"
    if one.tripped or one.risen:
        return f"not every launch is {where}"
    return f"this night alone is within the limit ({percent(limit)})"
