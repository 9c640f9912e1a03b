"""Cells and configurations to launches in rounds: order, cost, what is done, what fits the budget. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.records.cell import CellGroup, Configuration, LoadPoint
from harness.records.identity import content_id
from harness.records.plan import Plan, PlannedLaunch, PlannedTrial
from harness.records.trial import MEASURING_VERSION
from harness.run.cost import EngineCost, Expected, Fills, PredictRound, predict_trial
from harness.workload.growth import CONVERSING_CLASS
from harness.workload.spec import conversation_of, streams_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a trial's identity takes from outside the sweep: another engine or host makes it another trial."""

    recipe_sha256: str
    rig_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a run; None is no limit."""

    time_s: float | None = None
    cell_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Everything that decides a plan."""

    base: Plan  # without launches: names, refusals, notes, seed, margin
    groups: Sequence[CellGroup]
    rounds: int
    cost: EngineCost
    identity: Identity
    budget: Budget
    most_speculative_tokens: int  # of the whole sweep: all arms replay the same prompts
    predictions: Mapping[str, PredictRound] = field(default_factory=dict)  # by configuration id; else by ``cost``
    done_trials: frozenset[str] = frozenset()


def make_plan(request: PlanRequest) -> Plan:
    """Return the plan: every configuration once before any twice, each round in an order of its own."""
    launches: list[PlannedLaunch] = []
    for round_number in range(1, request.rounds + 1):
        for group in _groups_of_round(request, round_number):
            launches.append(_launch(request, group, round_number, ordinal=len(launches) + 1))
    return replace(
        request.base,
        launches=tuple(_within_budget(launches, request.budget.time_s)),
        notes=(*request.base.notes, *_conversation_notes(request)),
    )


def launch_key(configuration: Configuration, round_number: int, identity: Identity) -> str:
    """Return what makes one launch the same launch in a later run of the harness."""
    return content_id(
        {
            "configuration": configuration.configuration_id,
            "round": round_number,
            "recipe": identity.recipe_sha256,
            "rig": identity.rig_id,
            "measuring_version": MEASURING_VERSION,
        }
    )


def trial_id(launch: str, load: LoadPoint) -> str:
    """Return the identity of one trial: its launch and its load."""
    return content_id([launch, load.load_id])


def _launch(request: PlanRequest, group: CellGroup, round_number: int, *, ordinal: int) -> PlannedLaunch:
    configuration = group.configuration
    key = launch_key(configuration, round_number, request.identity)
    predict = request.predictions.get(configuration.configuration_id, request.cost.of_round)
    trials = []
    fills = Fills()
    for load in _ordered_loads(group.loads, request.base.seed, key):
        shape = streams_for(load, drafts=request.base.drafts_per_cell, k=request.most_speculative_tokens)
        expected = predict_trial(load, predict, shape, fills=fills.needed(load))
        trials.append(_trial(request, trial_id(key, load), load, expected))
    return PlannedLaunch(
        launch_key=key,
        ordinal=ordinal,
        round=round_number,
        configuration=configuration,
        trials=tuple(trials),
        predicted_launch_s=request.cost.launch_s,
    )


def _trial(request: PlanRequest, name: str, load: LoadPoint, expected: Expected) -> PlannedTrial:
    limit_s = request.budget.cell_s
    cut = limit_s is not None and expected.wall_s > limit_s
    return PlannedTrial(
        trial_id=name,
        load=load,
        predicted_s=expected.wall_s if limit_s is None else min(expected.wall_s, limit_s),
        done=name in request.done_trials,
        ttft_s=expected.ttft_s,
        uncut_s=expected.wall_s if cut else None,
    )


def _conversation_notes(request: PlanRequest) -> tuple[str, ...]:
    """Say how far prompts grow beyond the length that their cells are called by."""
    longest: dict[int, int] = {}
    for load in {load.load_id: load for group in request.groups for load in group.loads}.values():
        grown = conversation_of(load)
        if grown is not None:
            shape = streams_for(load, drafts=request.base.drafts_per_cell, k=request.most_speculative_tokens)
            tokens = grown.longest_tokens(shape.turns)
            longest[load.context_tokens] = max(tokens, longest.get(load.context_tokens, 0))
    if not longest:
        return ()
    ranges = ", ".join(f"{first} to {longest[first]}" for first in sorted(longest))
    return (f"warm streams of class {CONVERSING_CLASS} are conversations; prompts grow turn by turn: {ranges} tokens",)


def _groups_of_round(request: PlanRequest, round_number: int) -> list[CellGroup]:
    """All of them; of a night's second round only the one that decides."""
    nightly = request.base.nightly
    if nightly is None:
        return _ordered_groups(request, round_number)
    gate = [group for group in request.groups if group.configuration.configuration_id == nightly.gate_id]
    return gate if round_number > 1 else [*gate, *(group for group in request.groups if group not in gate)]


def _ordered_groups(request: PlanRequest, round_number: int) -> list[CellGroup]:
    """Two arms alternate A B B A, then B A A B: a rig that drifts steadily then favours neither."""
    shuffled = _shuffled(request.groups, request.base.seed, 1 if request.base.comparison else round_number)
    if request.base.comparison and round_number % 4 in (2, 3):
        shuffled.reverse()
    return shuffled


def _shuffled(groups: Sequence[CellGroup], seed: int, round_number: int) -> list[CellGroup]:
    # A sort by hash is a shuffle that needs no generator and is the same in every process.
    return sorted(groups, key=lambda group: content_id([seed, round_number, group.configuration.configuration_id]))


def _ordered_loads(loads: Sequence[LoadPoint], seed: int, key: str) -> list[LoadPoint]:
    """Shuffle within a context length, short contexts first: an engine that dies at depth has given its short cells."""
    return sorted(loads, key=lambda load: (load.context_tokens, content_id([seed, key, load.load_id])))


def _within_budget(launches: list[PlannedLaunch], time_s: float | None) -> list[PlannedLaunch]:
    """Mark what does not fit, from the end: the last round is the first to go."""
    if time_s is None:
        return launches
    spent_s = 0.0
    kept = []
    for launch in launches:
        spent_s += launch.predicted_s
        kept.append(replace(launch, fits_budget=spent_s <= time_s))
    return kept
