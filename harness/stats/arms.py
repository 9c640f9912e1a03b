"""A stored run -> the two arms of its comparison, and the verdict on them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.records.cell import Configuration, LoadPoint
from harness.records.check import vetoes
from harness.records.doubt import Doubt
from harness.records.journal import RunData
from harness.records.launch import LaunchRecord
from harness.records.plan import Plan, PlannedComparison
from harness.records.sanity import Sameness
from harness.records.summary import CellSummary
from harness.records.verdict import Arm, Comparison, Look
from harness.stats.compare import BLOCK_LAUNCHES, Beside, Question, Side, compare, complete, decided
from harness.stats.kinds import doubt
from harness.stats.noise import NoiseBook
from harness.stats.paired import Measured
from harness.stats.sameness import sameness_of_launches, sameness_of_trials
from harness.units import format_tokens

_A_OF_BLOCK = (0, 3)  # A B B A
_MOST_LISTED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A run with the figures of its cells."""

    run: RunData
    cells: tuple[CellSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An arm to be taken out of a run."""

    name: str
    configuration_id: str
    every: str = "all"  # all: its launches; a, b: half of them, as A B B A says, for one server against itself


def side_of(stored: Stored, wanted: Wanted) -> Side:
    """Return an arm: the launches of one configuration that measured something, in their order, and their trials."""
    records = {(trial.launch_id, trial.trial_id): trial for trial in stored.run.trials}
    trials: dict[tuple[str, str], Measured] = {}
    configuration = None
    for cell in stored.cells:
        if cell.cell.configuration.configuration_id != wanted.configuration_id:
            continue
        configuration = cell.cell.configuration
        for summary in cell.valid_trials:
            record = records[summary.launch_id, summary.trial_id]
            kinds = frozenset(each.kind for each in summary.doubts)
            trials[summary.launch_id, cell.cell.load.load_id] = Measured(
                trial=record, metrics=summary.metrics, doubt_kinds=kinds
            )
    launches = _launches(stored.run, wanted.configuration_id)
    used = [launch.launch_id for launch in launches if any(launch.launch_id == key[0] for key in trials)]
    if configuration is None:
        configuration = launches[0].configuration if launches else _planned(stored.run, wanted.configuration_id)
    arm = Arm(
        name=wanted.name,
        configuration=configuration,
        launch_ids=tuple(_half(used, wanted.every)),
        void_launches=len(launches) - len(used),
        run_id=stored.run.manifest.run_id,
    )
    return Side(arm=arm, trials=trials)


def arms_of(stored: Stored, asked: PlannedComparison) -> tuple[Side, Side]:
    """Return base and candidate of a run of ``ab``."""
    halves = ("a", "b") if asked.same else ("all", "all")
    names = (
        (f"{asked.base_name} (A)", f"{asked.base_name} (B)") if asked.same else (asked.base_name, asked.candidate_name)
    )
    base = Wanted(name=names[0], configuration_id=asked.base_id, every=halves[0])
    candidate = Wanted(name=names[1], configuration_id=asked.candidate_id, every=halves[1])
    return side_of(stored, base), side_of(stored, candidate)


def question_of(plan: Plan, asked: PlannedComparison, loads: Sequence[LoadPoint]) -> Question:
    """Return what a run of ``ab`` asks."""
    return Question(
        loads=loads,
        weights=weights_over(plan.weights, loads),
        objective=asked.objective,
        margin_ratio=plan.margin_ratio,
        limits=asked.limits,
        max_launches=asked.max_launches if asked.sequential else None,
    )


def comparison_of(stored: Stored, book: NoiseBook) -> Comparison | None:
    """Return the verdict on a run of ``ab``, as its journal stands; None for another run.

    Args:
        stored: the run.
        book: the noise floor of its rig.
    """
    plan = stored.run.plan
    if plan is None or plan.comparison is None:
        return None
    asked = plan.comparison
    base, candidate = arms_of(stored, asked)
    question = question_of(plan, asked, common_loads(base, candidate))
    looks = _looks(base, candidate, question, book) if asked.sequential else ()
    doubts = comparison_doubts(base, candidate, question, book, order=launch_order(stored.run.launches))
    missing = missing_loads(base, candidate, asked_loads(plan, asked))
    beside = Beside(
        factors=asked.factors,
        vetoes=failed_checks(stored.run, asked.candidate_id),
        gaps=gaps(base, candidate, missing),
        doubts=(*incomplete(missing, plan.weights), *doubts),
        cell_doubts=doubts_by_load(stored.cells, (asked.base_id, asked.candidate_id)),
        same=asked.same,
        sameness=sameness_of(stored.run, base, candidate),
        simulated=stored.run.manifest.simulated,
    )
    return replace(compare(base, candidate, question, book, beside), looks=looks)


def failed_checks(run: RunData, configuration_id: str) -> tuple[str, ...]:
    """Return what the checks of the site have against a configuration, in words."""
    return tuple(f"the check {name} failed" for name in vetoes(run.checks, configuration_id))


def sameness_of(run: RunData, base: Side, candidate: Side) -> tuple[Sameness, ...]:
    """Return whether greedy text is the same in both arms, where there are answers to compare."""
    launches = {launch.launch_id: launch for launch in run.launches}
    arms = [[launches[one] for one in side.arm.launch_ids if one in launches] for side in (base, candidate)]
    trials = [
        [one.trial for one in side.trials.values() if one.trial.launch_id in side.arm.launch_ids]
        for side in (base, candidate)
    ]
    found = (sameness_of_launches(*arms), sameness_of_trials(*trials))
    return tuple(one for one in found if one.compared)


def common_loads(base: Side, candidate: Side) -> tuple[LoadPoint, ...]:
    """Return the loads that both arms have a valid trial of, in the order in which they were measured."""
    loads = {one.trial.cell.load.load_id: one.trial.cell.load for one in base.trials.values()}
    there = {load_id for _, load_id in candidate.trials}
    return tuple(load for load_id, load in loads.items() if load_id in there)


def asked_loads(plan: Plan, asked: PlannedComparison) -> tuple[LoadPoint, ...]:
    """Return the loads that a plan has for both arms; () where they are known only once a launch replays them."""
    planned = [
        {
            trial.load.load_id: trial.load
            for launch in plan.launches
            if launch.configuration.configuration_id == wanted
            for trial in launch.trials
        }
        for wanted in (asked.base_id, asked.candidate_id)
    ]
    return tuple(load for load_id, load in planned[0].items() if load_id in planned[1])


def weights_over(weights: Mapping[str, float], loads: Iterable[LoadPoint]) -> dict[str, float]:
    """Return the weights of some loads, 1 in all; all 0 where none of them has any."""
    kept = {load.load_id: weights.get(load.load_id, 0.0) for load in loads} if weights else {}
    total = sum(kept.values())
    return {load_id: weight / total for load_id, weight in kept.items()} if total else kept


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingLoad:
    """A load that is asked of both arms, and of which not both have a trial that counts."""

    load: LoadPoint
    base: bool  # has one
    candidate: bool


def missing_loads(base: Side, candidate: Side, asked: Iterable[LoadPoint]) -> tuple[MissingLoad, ...]:
    """Return the loads that cannot be compared."""
    there = [{load_id for _, load_id in side.trials} for side in (base, candidate)]
    found = [
        MissingLoad(load=load, base=load.load_id in there[0], candidate=load.load_id in there[1]) for load in asked
    ]
    return tuple(one for one in found if not (one.base and one.candidate))


def gaps(base: Side, candidate: Side, missing: Sequence[MissingLoad]) -> tuple[str, ...]:
    """Return why a candidate that was measured at all is not better: it lacks what the base can do."""
    lacking = [one for one in missing if one.base and not one.candidate]
    if not lacking or not candidate.trials:
        return ()
    words = "1 load" if len(lacking) == 1 else f"{len(lacking)} loads"
    return (f"it has no valid trial of {words} that {base.arm.name} has",)


def incomplete(missing: Sequence[MissingLoad], weights: Mapping[str, float]) -> tuple[Doubt, ...]:
    """Return the doubt that the verdict is about a part of the workload only."""
    if not missing:
        return ()
    share = sum(weights.get(one.load.load_id, 0.0) for one in missing)
    part = f", {share:.0%} of the workload," if weights else ","
    listed = "; ".join(_load_words(one.load) for one in missing[:_MOST_LISTED])
    more = f" and {len(missing) - _MOST_LISTED} more" if len(missing) > _MOST_LISTED else ""
    evidence = f"not both arms have a valid trial of {listed}{more}{part} and a verdict could be about the rest only"
    remedy = "Carry on with the run once what failed is dealt with, or take it out of the sweep."
    return (doubt("workload_incomplete", evidence, remedy),)


def _load_words(load: LoadPoint) -> str:
    streams = "1 stream" if load.concurrency == 1 else f"{load.concurrency} streams"
    return f"{load.workload_class} · {load.cache} · {format_tokens(load.context_tokens)} tokens · {streams}"


def doubts_by_load(cells: Iterable[CellSummary], configuration_ids: Sequence[str]) -> Mapping[str, tuple[Doubt, ...]]:
    """Return what speaks against the cells of either arm, each doubt once."""
    found: dict[str, dict[Doubt, None]] = {}
    for cell in cells:
        if cell.cell.configuration.configuration_id in configuration_ids:
            found.setdefault(cell.cell.load.load_id, {}).update(dict.fromkeys(cell.doubts))
    return {load_id: tuple(doubts) for load_id, doubts in found.items()}


def launch_order(launches: Sequence[LaunchRecord]) -> tuple[str, ...]:
    """Return launch ids in the order in which they ran."""
    return tuple(dict.fromkeys(launch.launch_id for launch in launches))


def comparison_doubts(
    base: Side, candidate: Side, question: Question, book: NoiseBook, *, order: Sequence[str]
) -> tuple[Doubt, ...]:
    """Return what speaks against a comparison as a whole."""
    if base.arm.configuration == candidate.arm.configuration:
        return ()  # an A/A: it measures what these doubts are about
    found = (
        _assumed_noise(question, book),
        _not_alternating(base, candidate, order),
        _one_launch(complete(base, question), complete(candidate, question)),
    )
    return tuple(one for one in found if one is not None)


def _assumed_noise(question: Question, book: NoiseBook) -> Doubt | None:
    if book.of_total(question.objective, question.shares) is not None:
        return None
    return doubt(
        "noise_assumed",
        "no A/A of this rig is stored for this engine: launches are taken to differ by 3 % (standard deviation)",
        "Measure it once: the same command with --same, in a night.",
    )


def _not_alternating(base: Side, candidate: Side, order: Sequence[str]) -> Doubt | None:
    arms = {launch: "A" for launch in base.arm.launch_ids} | {launch: "B" for launch in candidate.arm.launch_ids}
    sequence = "".join(arms[launch] for launch in order if launch in arms)
    changes = sum(one != two for one, two in pairwise(sequence))
    if len(sequence) <= 2 or changes >= len(sequence) // 2:
        return None
    evidence = f"the launches ran as {' '.join(sequence)}, so that a drift of the rig looks like an effect"
    return doubt("not_alternating", evidence, "harness ab alternates them: A B B A.")


def _one_launch(base: Side, candidate: Side) -> Doubt | None:
    if min(len(base.arm.launch_ids), len(candidate.arm.launch_ids)) != 1:
        return None
    return doubt(
        "one_launch_an_arm",
        "of one arm only one launch is complete, and a boot can be 1.5 times as slow as the next: the interval allows "
        "for that",
        "Launch each arm at least twice.",
    )


def _looks(base: Side, candidate: Side, question: Question, book: NoiseBook) -> tuple[Look, ...]:
    """The verdict after each block, from the first on. Only complete launches count."""
    whole_base, whole_candidate = complete(base, question), complete(candidate, question)
    most = min(len(whole_base.arm.launch_ids), len(whole_candidate.arm.launch_ids))
    looks = []
    for count in range(BLOCK_LAUNCHES, most + 1, BLOCK_LAUNCHES):
        found = decided(whole_base.with_launches(count), whole_candidate.with_launches(count), question, book)
        if found is not None:
            looks.append(Look(launches=count, verdict=found[0], effect=found[1]))
    return tuple(looks)


def _launches(run: RunData, configuration_id: str) -> list[LaunchRecord]:
    by_id = {launch.launch_id: launch for launch in run.launches}  # the last record of a launch counts
    return [launch for launch in by_id.values() if launch.configuration.configuration_id == configuration_id]


def _half(launch_ids: list[str], every: str) -> list[str]:
    if every == "all":
        return launch_ids
    return [one for at, one in enumerate(launch_ids) if (at % 4 in _A_OF_BLOCK) == (every == "a")]


def _planned(run: RunData, configuration_id: str) -> Configuration:
    assert run.plan is not None
    return next(one for one in run.plan.configurations if one.configuration_id == configuration_id)
