"""A search as text and tables: what to run, how it was found, and what it cost."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.records.cell import Configuration
from harness.records.launch import FAILED, LaunchRecord
from harness.records.summary import CellSummary
from harness.records.tune import (
    CUT_SHORT,
    KNOWN_BEFORE,
    LIMIT_BROKEN,
    NOT_LAUNCHED,
    NOTHING_TO_CONFIRM,
    SEARCH_ENDED,
    TuneStep,
)
from harness.records.verdict import Comparison
from harness.report.comparison_words import change, explained, interval, noise_words, price_words
from harness.report.facts import RunFacts
from harness.report.headline import next_command
from harness.report.labels import counted
from harness.report.models import Column, Headline, NextStep, Row, TableView, TunedView
from harness.report.reading import Reading
from harness.report.tuned_maps import best_by_load, depth_by_streams
from harness.stats.confirm import Confirmed
from harness.stats.objective import cell_seconds
from harness.units import MISSING, format_change, format_ratio, format_seconds

_TUNE_OPTIONS = ("--sampler", "--max-launches", "--storage", "--study", "--resume", "--launches")  # each with a value
_AB_LAUNCHES = 12  # that a comparison of two may come to


def tuned_headline(reading: Reading) -> Headline:
    """Return what to run, in one sentence, and how it was found."""
    facts = reading.facts
    found = _named(reading, facts.tuned) if facts.tuned else None
    best = _leading(found)
    lines = [
        *((explained(best), *price_words(best)) if best else ()),
        _other_finalists(found, best),
        _cost_words(reading),
        *_told(facts.notes),
        noise_words(best, measured_by=_ab_command(facts, "--same") or "harness ab FILE --same") if best else "",
        _failed_words(facts.launches),
        _doubt_words(found),
    ]
    return Headline(
        standing="verdict",
        result=_result(reading, found, best),
        qualifications=tuple(line for line in lines if line),
        next_step=_next_step(reading, found),
    )


def tuned_view(reading: Reading) -> TunedView:
    """Return the tables of a search."""
    found = _named(reading, reading.facts.tuned) if reading.facts.tuned else None
    return TunedView(
        finalists=_finalists_table(reading, found) if found else None,
        steps=_steps_table(reading),
        best_by_load=best_by_load(reading, _reference_id(reading)),
        depth_by_streams=depth_by_streams(reading, reading.pick),
    )


def called(comparison: Comparison, reading: Reading) -> Comparison:
    """Return a comparison of a search with its arms called as in the tables beside it."""
    base, candidate = (
        replace(arm, name=_name(reading, arm.configuration)) for arm in (comparison.base, comparison.candidate)
    )
    return replace(comparison, base=base, candidate=candidate)


# -- words -------------------------------------------------------------------------------------------------------------


def _result(reading: Reading, found: Confirmed | None, best: Comparison | None) -> str:
    incumbent = _label(reading, _reference_id(reading))
    searched = _searched(reading)
    if found is None or best is None:
        made = counted(len(searched), "launch", "launches")
        if NOTHING_TO_CONFIRM not in reading.facts.notes:
            return f"The search is not complete: after {made} nothing was confirmed yet."
        known = "" if searched else ", and by what was known already,"
        return f"Keep {incumbent}: after {made}{known} nothing promises to be better."
    launches = min(best.effect.launches) if best.effect else 0
    figures = f"{change(best.effect)} ({interval(best.effect)})"
    each = counted(launches, "launch", "launches")
    if found.pick is not None:
        return f"Run {best.candidate.name}: {figures} over {incumbent}, confirmed by {each} of each of its own."
    if best.effect is None:
        return f"Not confirmed: {best.null_reason}."
    return (
        f"Keep {incumbent}: the best that was found, {best.candidate.name}, is {best.verdict} at {figures}, "
        f"margin {format_ratio(best.margin_ratio)}, confirmed by {each} of each."
        if best.verdict in ("worse", "no difference")
        else f"Keep {incumbent} for now: {best.candidate.name} is at {figures}, and {each} of each cannot tell it from "
        f"nothing (margin {format_ratio(best.margin_ratio)})."
    )


def _other_finalists(found: Confirmed | None, best: Comparison | None) -> str:
    others = [one for one in found.comparisons if one is not best] if found else []
    if not others:
        return ""
    said = "; ".join(f"{one.candidate.name}: {one.verdict}, {change(one.effect)}" for one in others)
    return f"Also confirmed: {said}."


def _cost_words(reading: Reading) -> str:
    """Hours, beside those that launching every configuration once would have taken."""
    facts = reading.facts
    spent_s = sum(launch.total_s or 0.0 for launch in facts.launches)
    first = [launch for launch in facts.plan.launches if launch.round == 1]
    grid_s = sum(launch.predicted_launch_s + sum(trial.predicted_s for trial in launch.trials) for launch in first)
    searched = len(_searched(reading))
    confirmed = sum(step.phase == "confirm" for step in facts.tune_steps)
    return (
        f"{counted(searched, 'launch', 'launches')} of the search and {confirmed or 'none'} to confirm, in "
        f"{format_seconds(spent_s)}; launching each of the {len(first)} configurations once would have taken about "
        f"{format_seconds(grid_s)}."
    )


def _failed_words(launches: Sequence[LaunchRecord]) -> str:
    failed = [launch for launch in launches if launch.outcome in FAILED]
    return f"{counted(len(failed), 'launch', 'launches')} failed." if failed else ""


def _doubt_words(found: Confirmed | None) -> str:
    doubtful = {cell.load.load_id for one in found.comparisons for cell in one.cells if cell.doubts} if found else set()
    carry = "carries a doubt" if len(doubtful) == 1 else "carry doubts"
    return f"{counted(len(doubtful), 'cell')} of the confirmation {carry}." if doubtful else ""


def _next_step(reading: Reading, found: Confirmed | None) -> NextStep | None:
    facts = reading.facts
    tune = facts.plan.tune
    if tune is None:
        return None
    manifest = facts.manifest
    planned = (
        len({step.configuration_id for step in facts.tune_steps if step.phase == "confirm"}) * tune.confirm_launches
    )
    done = sum(step.phase == "confirm" for step in facts.tune_steps)
    if done < planned or (not planned and NOTHING_TO_CONFIRM not in facts.notes):
        return NextStep(
            because="The search is not complete.",
            command=next_command(manifest.command, manifest.run_id),
            time=format_seconds(_launch_s(facts) * max(1, planned - done)),
        )
    best = _leading(found)
    if best is None or best.verdict != "cannot tell":
        return None
    base, candidate = (_arm_words(facts, arm.configuration) for arm in (best.base, best.candidate))
    several = ["--allow-factors"] if len(best.factors) > 1 else []
    command = _ab_command(facts, "--base", base, "--candidate", candidate, *several)
    if command is None:
        return None
    return NextStep(
        because="More launches of these two would tell.",
        command=command,
        time=format_seconds(_launch_s(facts) * _AB_LAUNCHES),
    )


def _told(notes: Sequence[str]) -> list[str]:
    """Notes that belong beside the result: what was known before, why it ended, and what is not among the finalists."""
    beside = (KNOWN_BEFORE, CUT_SHORT, SEARCH_ENDED, NOT_LAUNCHED, LIMIT_BROKEN)
    return [f"{note[0].upper()}{note[1:]}." for note in notes if note.startswith(beside)]


def _ab_command(facts: RunFacts, *added: str) -> str | None:
    """The same sweep on the same machines as a comparison; None where the command is not known."""
    command = facts.manifest.command
    if command[:2] != ("harness", "tune"):
        return None
    kept: list[str] = []
    words = iter(command[2:])
    for word in words:
        if word in _TUNE_OPTIONS:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in _TUNE_OPTIONS)):
            kept.append(word)
    return shlex.join(["harness", "ab", *kept, *added])


def _arm_words(facts: RunFacts, configuration: Configuration) -> str:
    """What is fixed in the sweep is fixed in a comparison, too."""
    every = [one.knobs for one in facts.plan.configurations]
    values = {name: {one[name] for one in every if name in one} for name in configuration.knobs}
    varying = {name: value for name, value in configuration.knobs.items() if len(values[name]) > 1}
    return " ".join(f"{name}={value}" for name, value in sorted(varying.items())) or str(configuration.name)


def _launch_s(facts: RunFacts) -> float:
    took = [launch.total_s for launch in facts.launches if launch.total_s]
    return sum(took) / len(took) if took else 0.0


# -- tables ------------------------------------------------------------------------------------------------------------


def _finalists_table(reading: Reading, found: Confirmed) -> TableView:
    vetoed = any(one.vetoes for one in found.comparisons)
    rows = [
        Row(
            values=(
                one.candidate.name,
                one.verdict,
                change(one.effect),
                interval(one.effect),
                str(one.effect.launches[1]) if one.effect else MISSING,
                *(["; ".join(one.vetoes)] if vetoed else []),
            ),
            emphasis=found.pick is one,
        )
        for one in found.comparisons
    ]
    count = len(found.comparisons)
    shared = f"; the allowance of 5 % is shared by {count} finalists" if count > 1 else ""
    return TableView(
        caption=f"Finalists against {_label(reading, _reference_id(reading))}, in launches of their own",
        columns=(
            Column(label="configuration", numeric=False),
            Column(label="verdict", numeric=False),
            Column(label="gain"),
            Column(label="interval"),
            Column(label="launches"),
            *([Column(label="vetoed by", numeric=False)] if vetoed else []),
        ),
        rows=tuple(rows),
        notes=(f"launches of the search are not in it: the best of many lucky ones would win{shared}",),
        simulated=reading.facts.manifest.simulated,
        badge=reading.badge,
    )


def _steps_table(reading: Reading) -> TableView:
    facts = reading.facts
    seconds = {one: _seconds_by_launch(facts.cells, one) for one in _launch_ids(facts)}
    reference = _reference_seconds(facts, seconds)
    rows = []
    for number, step in enumerate(facts.tune_steps, start=1):
        launch = _launch_of(facts, step)
        gain = _gain(reference, seconds.get(launch.launch_id, {})) if launch else None
        rows.append(
            Row(
                values=(
                    str(number),
                    step.phase,
                    _label(reading, step.configuration_id),
                    MISSING if step.believed_log_gain is None else format_change(math.exp(step.believed_log_gain)),
                    MISSING if gain is None else format_change(gain),
                    launch.outcome.replace("_", " ") if launch else "interrupted",
                    step.because,
                ),
                void=launch is None or launch.outcome != "measured",
            )
        )
    return TableView(
        caption="Launch by launch",
        columns=(
            Column(label="#"),
            Column(label="phase", numeric=False),
            Column(label="configuration", numeric=False),
            Column(label="promised"),
            Column(label="measured"),
            Column(label="outcome", numeric=False, detail=True),
            Column(label="why", numeric=False, detail=True),
        ),
        rows=tuple(rows),
        notes=("measured: over the cells that it has in common with the first launch of the incumbent",),
        simulated=facts.manifest.simulated,
    )


# -- parts -------------------------------------------------------------------------------------------------------------


def _named(reading: Reading, found: Confirmed) -> Confirmed:
    comparisons = tuple(called(one, reading) for one in found.comparisons)
    at = found.comparisons.index(found.pick) if found.pick is not None else None
    return replace(found, comparisons=comparisons, pick=None if at is None else comparisons[at])


def _leading(found: Confirmed | None) -> Comparison | None:
    if found is None or not found.comparisons:
        return None
    return found.pick or found.comparisons[0]


def _searched(reading: Reading) -> list[TuneStep]:
    return [step for step in reading.facts.tune_steps if step.phase != "confirm"]


def _reference_id(reading: Reading) -> str:
    tune = reading.facts.plan.tune
    assert tune is not None  # a view of a search is asked for where there is one
    return tune.reference_id


def _configuration(reading: Reading, configuration_id: str) -> Configuration | None:
    return next((one for one in reading.facts.plan.configurations if one.configuration_id == configuration_id), None)


def _label(reading: Reading, configuration_id: str) -> str:
    configuration = _configuration(reading, configuration_id)
    return _name(reading, configuration) if configuration else configuration_id


def _name(reading: Reading, configuration: Configuration) -> str:
    return configuration.name or reading.labels.configuration(configuration)


def _launch_ids(facts: RunFacts) -> list[str]:
    return [launch.launch_id for launch in facts.launches]


def _launch_of(facts: RunFacts, step: TuneStep) -> LaunchRecord | None:
    """The boot that counts: a slow one is given back and made again under the same key."""
    wanted = next((one for one in facts.plan.launches if one.launch_key == step.launch_key), None)
    if wanted is None:
        return None
    fits = [
        launch
        for launch in facts.launches
        if launch.round == wanted.round
        and launch.configuration.configuration_id == step.configuration_id
        and launch.outcome != "interrupted"
    ]
    return fits[-1] if fits else None


def _seconds_by_launch(cells: Sequence[CellSummary], launch_id: str) -> dict[str, float]:
    found = {}
    for cell in cells:
        for trial in cell.valid_trials:
            if trial.launch_id == launch_id:
                seconds = cell_seconds(replace(cell, values=trial.metrics.values))
                if seconds:
                    found[cell.cell.load.load_id] = seconds
    return found


def _reference_seconds(facts: RunFacts, seconds: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    assert facts.plan.tune is not None
    own = [step for step in facts.tune_steps if step.configuration_id == facts.plan.tune.reference_id]
    launch = next((found for step in own if (found := _launch_of(facts, step))), None)
    return seconds.get(launch.launch_id, {}) if launch else {}


def _gain(reference: Mapping[str, float], seconds: Mapping[str, float]) -> float | None:
    both = [name for name in seconds if name in reference]
    return sum(reference[name] for name in both) / sum(seconds[name] for name in both) if both else None
