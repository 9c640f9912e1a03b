"""Two stored runs -> one merged run with two arms, their verdict, and its report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli.comparing import book_for, verdict_code
from harness.cli.loading import root_of, stored_run, summaries_of
from harness.cli.streams import shown_if_possible
from harness.engine.clock import SystemClock
from harness.errors import InputError
from harness.recipe.find import find_recipe
from harness.recipe.load import load_recipe
from harness.records.cell import Configuration, LoadPoint
from harness.records.journal import RunData
from harness.records.launch import LaunchRecord
from harness.records.plan import Plan
from harness.records.summary import CellSummary
from harness.records.verdict import Comparison
from harness.report.facts import run_facts
from harness.report.terminal import print_result, stderr_console
from harness.report.view import report_view
from harness.report.write import write_report
from harness.run.outcome import CANNOT_TELL
from harness.stats.arms import (
    Stored,
    Wanted,
    common_loads,
    comparison_doubts,
    doubts_by_load,
    failed_checks,
    gaps,
    incomplete,
    missing_loads,
    sameness_of,
    side_of,
    weights_over,
)
from harness.stats.compare import PARTS, Beside, Question, compare
from harness.stats.fingerprint import Difference, differences, tagged, unlike_doubts, with_own_launches
from harness.stats.live import is_whole_factor, live_differences
from harness.store.layout import RunFolder, report_directory
from harness.sweep.arms import factors_between
from harness.units import parse_ratio

_WITHOUT_ACCEPTANCE = ("decode_tokens_per_s", "ttft_s", "worst_stream_tokens_per_s", "prefill_tokens_per_s")
_MOST_LISTED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What the command line says."""

    base_run: str
    candidate_run: str
    base: tuple[str, ...]
    candidate: tuple[str, ...]
    across: tuple[str, ...]
    allow_factors: bool
    margin: str | None
    root: Path | None
    site: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arm:
    folder: RunFolder
    run: RunData
    configuration: Configuration


def compare_runs(options: CompareOptions, *, shown: bool) -> tuple[Comparison, int]:
    """Write and show the verdict on two stored runs, and return it with the exit code.

    Raises:
        InputError: a run or configuration is unknown, or the two are not alike.
    """
    root = root_of(options.root, options.site)
    base = _arm(options.base_run, options.base, root, option="--base")
    candidate = _arm(options.candidate_run, options.candidate, root, option="--candidate")
    if base.folder.path == candidate.folder.path and base.configuration == candidate.configuration:
        hint = "Name two of its configurations with --base and --candidate."
        raise InputError("a run cannot be compared with itself", where=base.folder.run_id, hint=hint)
    if base.folder.path != candidate.folder.path:
        base, candidate = (replace(arm, run=with_own_launches(arm.run)) for arm in (base, candidate))
    unlike = differences(base.run, candidate.run, base.configuration, candidate.configuration)
    _require_alike(unlike, options.across)
    base, candidate = _told_apart(base, candidate)
    factors = _factors(base, candidate, options, unlike)
    merged = _merged(base, candidate)
    cells = summaries_of(merged)
    comparison = _comparison(base, candidate, Stored(run=merged, cells=cells), options, (factors, unlike))
    _write(merged, cells, comparison, root, shown=shown)
    return comparison, verdict_code(comparison, CANNOT_TELL)


def _arm(reference: str, words: tuple[str, ...], root: Path, *, option: str) -> _Arm:
    folder, run = stored_run(reference, root)
    known = {trial.cell.configuration.configuration_id: trial.cell.configuration for trial in run.trials}
    if not known:
        raise InputError("the run has measured nothing", where=folder.run_id)
    fits = [one for one in known.values() if _matches(one, words)]
    if len(fits) == 1:
        return _Arm(folder=folder, run=run, configuration=fits[0])
    labels = "; ".join(one.label for one in list(known.values())[:_MOST_LISTED])
    what = f"{len(fits)} configurations fit" if fits else "no configuration fits"
    if not words:
        what = f"the run has {len(known)} configurations"
    raise InputError(f"{what}: say which one with {option}", where=folder.run_id, hint=f"They are: {labels}.")


def _matches(configuration: Configuration, words: Iterable[str]) -> bool:
    """By name, or by every KNOB=VALUE that is said, as the value is written."""
    parts = [part for word in words for part in word.split()]
    for part in parts:
        knob, equals, value = part.partition("=")
        if not equals:
            if part not in (configuration.name, configuration.label):
                return False
        elif str(configuration.knobs.get(knob)).lower() != value.lower():
            return False
    return True


def _require_alike(unlike: tuple[Difference, ...], across: tuple[str, ...]) -> None:
    forbidden = [one for one in unlike if one.kind not in across]
    if not forbidden:
        return
    said = "; ".join(one.words for one in forbidden)
    flags = " ".join(f"--across {kind}" for kind in dict.fromkeys(one.kind for one in forbidden))
    raise InputError(f"the runs are not alike: {said}", hint=f"To compare them all the same, with a doubt: {flags}")


def _told_apart(base: _Arm, candidate: _Arm) -> tuple[_Arm, _Arm]:
    """The same configuration in two runs is told apart by its run."""
    if base.configuration.configuration_id != candidate.configuration.configuration_id:
        return base, candidate
    return _of_run(base), _of_run(candidate)


def _of_run(arm: _Arm) -> _Arm:
    run = tagged(arm.run, arm.configuration)
    configuration = next(
        trial.cell.configuration
        for trial in run.trials
        if trial.cell.configuration.knobs.get("run") == arm.run.manifest.run_id
    )
    return replace(arm, run=run, configuration=configuration)


def _factors(base: _Arm, candidate: _Arm, options: CompareOptions, unlike: tuple[Difference, ...]) -> tuple[str, ...]:
    if base.configuration.recipe != candidate.configuration.recipe:
        return ("engine",)
    if "run" in base.configuration.knobs:
        return ("run",)
    recipe = load_recipe(find_recipe(base.configuration.recipe)).recipe
    factors = factors_between(recipe, base.configuration, candidate.configuration)
    allowed = options.allow_factors or any(one.kind == "engine" for one in unlike)
    if len(factors) > 1 and not allowed:
        what = f"the configurations differ in {len(factors)} factors: {', '.join(factors)}"
        raise InputError(what, hint="Nobody could say which one it was. Add --allow-factors to compare all the same.")
    if not allowed and not is_whole_factor(factors):
        others = live_differences(_launches(base), _launches(candidate), factors)
        if others:
            what = f"the servers differ in more than {', '.join(factors)}: {'; '.join(others)}"
            raise InputError(what, hint="Add --allow-factors to compare all the same.")
    return factors


def _launches(arm: _Arm) -> list[LaunchRecord]:
    wanted = arm.configuration.configuration_id
    return [launch for launch in arm.run.launches if launch.configuration.configuration_id == wanted]


def _merged(base: _Arm, candidate: _Arm) -> RunData:
    """One run that holds the launches of both arms; the plan is the candidate's, without launches."""
    arms = (base, candidate)
    launches = [launch for arm in arms for launch in _launches(arm)]
    trials = [
        trial
        for arm in arms
        for trial in arm.run.trials
        if trial.cell.configuration.configuration_id == arm.configuration.configuration_id
    ]
    plan = candidate.run.plan
    notes = [f"base: run {base.run.manifest.run_id}", f"candidate: run {candidate.run.manifest.run_id}"]
    return replace(
        candidate.run,
        launches=tuple(sorted(launches, key=lambda launch: launch.started_at)),
        trials=tuple(trials),
        plan=None
        if plan is None
        else replace(
            plan,
            launches=(),
            refusals=(),
            collapsed=(),
            notes=tuple(notes),
            comparison=None,
            incumbent_id=base.configuration.configuration_id,
        ),
    )


def _comparison(
    base: _Arm,
    candidate: _Arm,
    stored: Stored,
    options: CompareOptions,
    found: tuple[tuple[str, ...], tuple[Difference, ...]],
) -> Comparison:
    factors, unlike = found
    sides = [
        side_of(stored, Wanted(name=arm.configuration.label, configuration_id=arm.configuration.configuration_id))
        for arm in (base, candidate)
    ]
    loads = common_loads(sides[0], sides[1])
    if not loads:
        raise InputError("the runs have no load in common", hint="They must share class, context, concurrency, output.")
    plan = candidate.run.plan
    across_engines = any(one.kind == "engine" for one in unlike)
    question = Question(
        loads=loads,
        weights={} if plan is None else weights_over(plan.weights, loads),
        margin_ratio=_margin_ratio(options.margin, plan),
        metrics=_WITHOUT_ACCEPTANCE if across_engines else PARTS,
    )
    book = book_for(candidate.folder, candidate.run)
    order = tuple(launch.launch_id for launch in (*_launches(base), *_launches(candidate)))
    if not stored.run.manifest.simulated or base.folder.path == candidate.folder.path:
        # Two rehearsals begin at the same virtual second, and did not alternate for all that.
        order = tuple(launch.launch_id for launch in stored.run.launches)
    missing = missing_loads(sides[0], sides[1], _asked_loads(stored.run, base.configuration, candidate.configuration))
    doubts = (
        *unlike_doubts(unlike),
        *incomplete(missing, {} if plan is None else plan.weights),
        *comparison_doubts(sides[0], sides[1], question, book, order=order),
    )
    ids = (base.configuration.configuration_id, candidate.configuration.configuration_id)
    beside = Beside(
        factors=factors,
        vetoes=failed_checks(candidate.run, _untagged(candidate)),
        gaps=gaps(sides[0], sides[1], missing),
        doubts=doubts,
        sameness=() if across_engines else sameness_of(stored.run, sides[0], sides[1]),
        cell_doubts=doubts_by_load(stored.cells, ids),
        simulated=stored.run.manifest.simulated,
    )
    found_out = compare(sides[0], sides[1], question, book, beside)
    return replace(
        found_out,
        base=replace(found_out.base, run_id=base.run.manifest.run_id),
        candidate=replace(found_out.candidate, run_id=candidate.run.manifest.run_id),
    )


def _margin_ratio(said: str | None, plan: Plan | None) -> float:
    if said is None:
        return plan.margin_ratio if plan else Question(loads=()).margin_ratio
    try:
        return parse_ratio(said)
    except ValueError as error:
        raise InputError(str(error), where="--margin", hint="As in 3%.") from error


def _asked_loads(run: RunData, base: Configuration, candidate: Configuration) -> list[LoadPoint]:
    """What was tried on both arms, whatever came of it."""
    tried = [
        {
            trial.cell.load.load_id: trial.cell.load
            for trial in run.trials
            if trial.cell.configuration.configuration_id == one.configuration_id
        }
        for one in (base, candidate)
    ]
    return [load for load_id, load in tried[0].items() if load_id in tried[1]]


def _untagged(arm: _Arm) -> str:
    """The id under which the run's own records know its configuration."""
    knobs = {name: value for name, value in arm.configuration.knobs.items() if name != "run"}
    return replace(arm.configuration, knobs=knobs).configuration_id


def _write(merged: RunData, cells: tuple[CellSummary, ...], comparison: Comparison, root: Path, *, shown: bool) -> None:
    view = report_view(run_facts(merged, cells, comparison))
    ids = "-".join(dict.fromkeys((comparison.base.run_id, comparison.candidate.run_id)))
    today = SystemClock().stamp()[:10]
    directory = report_directory(root, date=today, sweep=f"compare_{merged.manifest.sweep}", run_id=ids)
    written: Path | None = None
    try:
        written = write_report(view, directory).html
    finally:
        if shown:
            with shown_if_possible():
                print_result(view, stderr_console(), report=written)
