"""What was found, how far it can be trusted, and what to run next. Says less rather than more."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass

from harness.records.cell import Cell
from harness.records.imported import IMPORTED_MARK
from harness.records.launch import FAILED
from harness.report.labels import counted
from harness.report.models import Headline, NextStep
from harness.report.reading import Reading
from harness.report.session import account_words, control_words
from harness.report.tables import SPEED, format_changes
from harness.stats.overview import Standing
from harness.units import format_change, format_number, format_ratio, format_seconds

LAUNCHES_FOR_A_VERDICT = 3
MOST_LAUNCHES = 12  # beyond this a difference is too small to be worth its boots
_RUN_OPTIONS = ("--resume", "--launches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Configurations that have every cell, best first, and those that cannot be told from the best."""

    ranked: tuple[Standing, ...]
    level: tuple[Standing, ...]  # the best and its equals
    threshold: float  # differences up to here count for nothing


def headline(reading: Reading) -> Headline:
    """Return the finding. With one launch each it is called a map, not a verdict."""
    contest = _contest(reading)
    if not contest.ranked:
        return _nothing(reading)
    return Headline(
        standing="map" if _launches(contest) < 2 else "measured",
        result=_result(reading, contest),
        qualifications=tuple(line for line in _qualifications(reading, contest) if line),
        next_step=_next_step(reading, contest),
    )


def next_command(command: tuple[str, ...], run_id: str, *, launches: int | None = None) -> str:
    """Return the run's own command so that it continues that run, with ``launches`` more of each configuration."""
    kept = _without_run_options(command)
    added = ["--launches", str(launches)] if launches else []
    return shlex.join([*kept, "--resume", run_id, *added])


def _contest(reading: Reading) -> Contest:
    ranked = reading.facts.ranked
    threshold = max(reading.facts.plan.margin_ratio, reading.facts.visibility.ratio)
    level = tuple(one for one in ranked if _behind(ranked[0], one) <= threshold)
    return Contest(ranked=ranked, level=level, threshold=threshold)


def _behind(best: Standing, other: Standing) -> float:
    """How much faster the best is: 0.03 is three percent."""
    return best.ratio / other.ratio - 1 if best.ratio and other.ratio else math.inf


def _launches(contest: Contest) -> int:
    """Launches of the least-launched configuration that matters: the best, its equals, and the runner-up."""
    return min(one.launches for one in contest.ranked[: max(2, len(contest.level))])


def _nothing(reading: Reading) -> Headline:
    usable = sum(1 for cell in reading.facts.cells if not cell.void)
    result = "Nothing usable was measured, so there is nothing to compare."
    if usable:
        result = (
            f"No configuration has a usable trial in every cell ({counted(usable, 'usable cell')}), "
            "so there is nothing to compare over the whole workload."
        )
    manifest = reading.facts.manifest
    step = NextStep(
        because="Measure what is missing, once the failures and doubts below are dealt with.",
        command=next_command(manifest.command, manifest.run_id),
        time=format_seconds(_missing_s(reading)),
    )
    trouble = tuple(line for line in (_failed_launches(reading), _doubtful_cells(reading)) if line)
    return Headline(standing="nothing", result=result, qualifications=trouble, next_step=step)


def _result(reading: Reading, contest: Contest) -> str:
    best = contest.ranked[0]
    name = reading.labels.configuration(best.configuration)
    if len(contest.ranked) == 1:
        return f"{name} is the only configuration that has every cell, so there is nothing to compare it with."
    if best.is_reference:
        second = contest.ranked[1]
        return (
            f"Nothing beats {name}. Next is {reading.labels.configuration(second.configuration)} "
            f"with {format_change(second.ratio)} decode speed {_basis(second)}."
        )
    return (
        f"{name} is the fastest of {counted(len(contest.ranked), 'configuration')}: {format_change(best.ratio)} decode "
        f"speed against {reading.reference_label} ({format_number(best.ratio)} times as fast), {_basis(best)}."
    )


def _basis(one: Standing) -> str:
    """Over how many cells and launches, with the spread over launches."""
    launches = counted(one.launches, "launch", "launches")
    spread = f", {format_changes(one.spread)} by launch" if one.spread else ""
    return f"over {counted(one.cells, 'cell')} and {launches}{spread}"


def _qualifications(reading: Reading, contest: Contest) -> tuple[str, ...]:
    return (
        _imported_words(reading) or _map_words(reading, contest),
        _level_words(reading, contest),
        "" if reading.facts.plan.attached else _visible_words(reading),
        _winners_by_load(reading),
        control_words(reading),
        account_words(reading),
        _doubtful_cells(reading),
        _failed_launches(reading),
        _missing_words(reading),
    )


def _imported_words(reading: Reading) -> str:
    if not reading.facts.imported:
        return ""
    return f"{IMPORTED_MARK}: another program measured this, by its own clock and definitions; nothing was checked."


def _map_words(reading: Reading, contest: Contest) -> str:
    if reading.facts.plan.attached:
        return "This is one boot of a server that was running already: another boot of it may be faster or slower."
    if _launches(contest) > 1:
        return ""
    return (
        "This is a map, not a verdict: with one launch each, a difference between two configurations "
        "cannot be told from a difference between two boots."
    )


def _level_words(reading: Reading, contest: Contest) -> str:
    if len(contest.level) < 2:
        return ""
    names = [reading.labels.configuration(one.configuration) for one in contest.level]
    apart = _behind(contest.level[0], contest.level[-1])
    between = "; " if any("," in name for name in names) else ", "
    listed = f"{between.join(names[:-1])} and {names[-1]}"
    return (
        f"{listed} cannot be told apart: {format_ratio(apart)} lies between them, "
        f"and less than {format_ratio(contest.threshold)} counts for nothing here."
    )


def _visible_words(reading: Reading) -> str:
    seen = reading.facts.visibility
    each = counted(seen.launches, "launch", "launches")
    noise = f"boots of one configuration differ by {format_ratio(seen.launch_sigma_ratio)}"
    basis = f"if {noise} (assumed: one launch each cannot measure it)" if seen.assumed else f"as {noise} here"
    least = format_ratio(seen.ratio)
    return f"The smallest difference that {each} of each configuration can show is about {least}, {basis}."


def _winners_by_load(reading: Reading) -> str:
    """Name the loads where another configuration wins clearly; "" where one wins them all."""
    fastest: dict[str, list[tuple[float, str]]] = {}
    controls = {one.configuration.configuration_id for one in reading.facts.controls}
    for facts in reading.cells():
        rate = facts.values.get(SPEED)
        if rate is not None and facts.cell.configuration.configuration_id not in controls:
            name = reading.labels.configuration(facts.cell.configuration)
            fastest.setdefault(reading.labels.load(facts.cell.load), []).append((rate, name))
    winners = {load: max(rates)[1] for load, rates in fastest.items()}
    if len(set(winners.values())) < 2:
        return ""
    by_name: dict[str, list[str]] = {}
    for load, name in winners.items():
        by_name.setdefault(name, []).append(load)
    listed = "; ".join(f"{name} at {', '.join(loads)}" for name, loads in by_name.items())
    return f"Decode alone is fastest with {listed}."


def _doubtful_cells(reading: Reading) -> str:
    doubtful = sum(1 for cell in reading.facts.cells if cell.doubts)
    if not doubtful:
        return ""
    void = sum(1 for cell in reading.facts.cells if cell.void)
    tail = f", and {void} of them have no usable trial" if void else ""
    return f"{doubtful} of {counted(len(reading.facts.cells), 'cell')} carry doubts{tail}."


def _failed_launches(reading: Reading) -> str:
    failed = [launch for launch in reading.facts.launches if launch.outcome in FAILED]
    if not failed:
        return ""
    names = dict.fromkeys(reading.labels.configuration(launch.configuration) for launch in failed)
    return f"{counted(len(failed), 'launch', 'launches')} failed ({', '.join(names)})."


def _missing_words(reading: Reading) -> str:
    missing = reading.facts.missing_trials
    return f"{counted(missing, 'planned trial')} not measured yet." if missing else ""


def _next_step(reading: Reading, contest: Contest) -> NextStep | None:
    manifest = reading.facts.manifest
    if reading.facts.imported:
        return None
    if reading.facts.missing_trials:
        return NextStep(
            because="The run is not complete.",
            command=next_command(manifest.command, manifest.run_id),
            time=format_seconds(_missing_s(reading)),
        )
    plan = reading.facts.plan
    if plan.attached or plan.nightly is not None:  # a night is launched once more only where something looks bad
        return None
    more = _launches_wanted(reading, contest)
    if not more:
        return None
    because = "More launches show how much boots differ, and so which differences are real."
    if _launches(contest) >= LAUNCHES_FOR_A_VERDICT:
        because = "More launches make smaller differences visible."
    return NextStep(
        because=because,
        command=next_command(manifest.command, manifest.run_id, launches=_rounds(reading) + more),
        time=format_seconds(more * _round_s(reading)),
    )


def _launches_wanted(reading: Reading, contest: Contest) -> int:
    """How many launches to add to each configuration; 0 where more would not change the answer."""
    have = _launches(contest)
    if have < LAUNCHES_FOR_A_VERDICT:
        return LAUNCHES_FOR_A_VERDICT - have
    visible, margin = reading.facts.visibility.ratio, reading.facts.plan.margin_ratio
    if len(contest.level) < 2 or visible <= margin:
        return 0
    # The smallest visible difference falls with the square root of the launches.
    wanted = math.ceil(have * (visible / max(margin, _behind(*contest.ranked[:2]))) ** 2)
    return max(0, min(wanted, MOST_LAUNCHES) - have)


def _rounds(reading: Reading) -> int:
    """Launches of each configuration that the plan has: --launches names their number in all."""
    return max((launch.round for launch in reading.facts.plan.launches), default=0)


def _missing_s(reading: Reading) -> float:
    """Predicted seconds of the launches that have measured nothing or not everything."""
    measured = {facts.cell.cell_id for facts in reading.facts.cells if not facts.void}
    left = 0.0
    for launch in reading.facts.plan.launches:
        cells = [(trial, Cell(configuration=launch.configuration, load=trial.load)) for trial in launch.trials]
        wanted = [trial for trial, cell in cells if cell.cell_id not in measured]
        if wanted:
            left += launch.predicted_launch_s + sum(trial.predicted_s for trial in wanted)
    return left


def _round_s(reading: Reading) -> float:
    """Seconds of one more launch of each configuration, as they took in this run, else as planned."""
    planned = {
        launch.configuration.configuration_id: launch.predicted_launch_s
        + sum(trial.predicted_s for trial in launch.trials)
        for launch in reading.facts.plan.launches
    }
    took = {
        launch.configuration.configuration_id: launch.total_s
        for launch in reading.facts.launches
        if launch.total_s is not None
    }
    return sum({**planned, **took}.values())


def _without_run_options(command: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    skip = False
    for argument in command:
        if skip and not argument.startswith("-") and not argument.endswith((".yaml", ".yml")):
            skip = False
            continue
        skip = argument in _RUN_OPTIONS
        if not skip and not argument.startswith(tuple(f"{option}=" for option in _RUN_OPTIONS)):
            kept.append(argument)
    return kept
