"""From a loaded sweep to a run that can start, or start again: plan, launch specs, shapes, manifest."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.errors import InputError
from harness.recipe.build import Places, build_launch
from harness.recipe.load import LoadedRecipe
from harness.recipe.matcher import all_match
from harness.recipe.rules import check
from harness.recipe.simulated import build_simulated, require_simulation, unsimulated, unsimulated_hint
from harness.recipe.spec import LaunchSpec
from harness.records.cell import NUM_SPECULATIVE_TOKENS, CellGroup, Configuration, LoadPoint
from harness.records.manifest import SIMULATED_MARK, HostFacts, Manifest
from harness.records.plan import Plan, PlannedComparison
from harness.records.trial import MEASURING_VERSION
from harness.records.tune import PlannedTune
from harness.run.arms import ComparisonWish, planned_comparison, rounds_of
from harness.run.cost import EngineCost, ModelledCost, PredictRound
from harness.run.mix import cell_weights
from harness.run.nightly import NightlyWish, as_nightly
from harness.run.plan import Budget, Identity, PlanRequest, make_plan
from harness.run.replaying import ReplayedLoads, read_replay, replayed_loads
from harness.run.tuning import TuneWish, planned_tune
from harness.simulator.scenario import Scenario, load_scenario
from harness.simulator.settings import scenario_for, settings_for
from harness.sweep.cells import Expansion, expand
from harness.sweep.load import Sweep
from harness.workload.spec import StreamShape, require_buildable, streams_for

DISTRIBUTION = "harness-spec"
NIGHTLY = "nightly"  # the command, as the sweep file's keys name it
_ANY_SCENARIO = "quiet"  # its truth is replaced by the configuration's, and predictions know no noise
_REPORTED_LIBRARIES = ("httpx", "h11", "numpy", "scipy", "pandas", "matplotlib", "pydantic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line adds to the sweep file."""

    seed: int = 1
    launches: int | None = None  # of each configuration in all; None: as the sweep says
    time_limit_s: float | None = None  # None: as the sweep says
    scenario: Scenario | None = None  # rehearse it on a simulated engine
    comparison: ComparisonWish | None = None  # only the two arms of `compare`, alternating
    tune: TuneWish | None = None  # search the configurations instead of launching them all
    nightly: NightlyWish | None = None  # a small part that fits the time, a second launch on suspicion


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSweep:
    """A plan with what is needed to carry it out."""

    sweep: Sweep
    recipe: LoadedRecipe
    host: HostFacts
    plan: Plan
    expansion: Expansion
    budget: Budget
    shapes: Mapping[str, StreamShape] = field(default_factory=dict)  # by load id
    scenario: Scenario | None = None
    replayed: ReplayedLoads | None = None  # where the sweep replays a trace


def plan_sweep(
    sweep: Sweep,
    recipe: LoadedRecipe,
    host: HostFacts,
    wishes: Wishes,
    *,
    earlier: Manifest | None = None,
    done_trials: frozenset[str] = frozenset(),
) -> PlannedSweep:
    """Return the plan of a sweep. Nothing is launched.

    Args:
        sweep: as loaded.
        recipe: the one that it names.
        host: of this machine.
        wishes: of the command line.
        earlier: of the run to carry on with.
        done_trials: what that run need not measure again.

    Raises:
        InputError: nothing is left to measure, a prompt cannot be made, or ``earlier`` is of another engine or host.
    """
    expansion = expand(sweep, recipe.recipe, arms_only=wishes.comparison is not None)
    if wishes.scenario is not None:
        host = replace(host, rig_id=wishes.scenario.rig_id)
        _require_simulated(sweep, recipe, expansion)
    if earlier is not None:
        _require_same(earlier, sweep, recipe, host)
    file = sweep.file
    replay = read_replay(sweep)
    replayed = replayed_loads(sweep, expansion.groups, replay, recipe=recipe.recipe) if replay is not None else None
    groups = replayed.groups if replayed is not None else expansion.groups
    time_s = file.budget.time if wishes.time_limit_s is None else wishes.time_limit_s
    budget = Budget(time_s=time_s, cell_s=file.budget.cell)
    most_k = max(_planned_k(recipe, group.configuration) for group in groups)
    loads = _buildable_loads(sweep, groups)
    comparison = planned_comparison(sweep, recipe.recipe, expansion.groups, wishes.comparison)
    identity = Identity(recipe_sha256=recipe.sha256, rig_id=host.rig_id)
    tune = planned_tune(sweep, recipe.recipe, expansion, groups, wishes.tune, identity=identity)
    tune = replace(tune, time_s=budget.time_s) if tune else None
    request = PlanRequest(
        base=replace(
            _base(sweep, recipe, expansion, replayed, command=_command(wishes)),
            seed=earlier.seed if earlier else wishes.seed,
            simulated=wishes.scenario is not None,
            mark=_mark(wishes.scenario),
            weights=_weights(sweep, expansion, loads.values(), replayed),
            comparison=comparison,
            tune=tune,
        ),
        groups=groups,
        rounds=_rounds(sweep, wishes, comparison, tune),
        cost=_cost(recipe),
        identity=identity,
        budget=Budget(cell_s=budget.cell_s) if tune else budget,  # a search ends with the budget, and marks nothing
        most_speculative_tokens=most_k,
        predictions=_predictions(recipe, expansion),
        done_trials=done_trials,
    )
    plan = make_plan(as_nightly(request, sweep, expansion, wishes.nightly) if wishes.nightly else request)
    shapes = {name: streams_for(load, drafts=file.repeat.drafts, k=most_k) for name, load in loads.items()}
    return PlannedSweep(
        sweep=sweep,
        recipe=recipe,
        host=host,
        plan=plan,
        expansion=expansion,
        budget=budget,
        shapes=shapes,
        scenario=wishes.scenario,
        replayed=replayed,
    )


def _buildable_loads(sweep: Sweep, groups: Sequence[CellGroup]) -> dict[str, LoadPoint]:
    loads = {load.load_id: load for group in groups for load in group.loads}
    for load in loads.values():
        require_buildable(load, where=sweep.source.where(("knobs", "context_tokens"), value=True))
    return loads


def _rounds(sweep: Sweep, wishes: Wishes, comparison: PlannedComparison | None, tune: PlannedTune | None) -> int:
    if tune is not None:
        return 1 + tune.confirm_launches
    return rounds_of(comparison) if comparison else wishes.launches or sweep.file.repeat.launches


def launch_specs(planned: PlannedSweep, places: Places) -> dict[str, LaunchSpec]:
    """Return how each configuration is launched, by configuration id. Raises InputError if the recipe cannot be."""
    simulated = planned.scenario is not None
    return {
        configuration.configuration_id: build_simulated(planned.recipe, configuration)
        if simulated
        else build_launch(planned.recipe, configuration, places)
        for configuration in planned.plan.configurations
    }


def new_manifest(planned: PlannedSweep, *, run_id: str, started_at: str, command: Sequence[str]) -> Manifest:
    """Return the provenance of a run that starts now."""
    return Manifest(
        run_id=run_id,
        sweep=planned.sweep.name,
        sweep_sha256=planned.sweep.sha256,
        sweep_file=Path(planned.sweep.source.name).name,
        recipe=planned.recipe.recipe.recipe,
        recipe_sha256=planned.recipe.sha256,
        harness_version=harness_version(),
        measuring_version=MEASURING_VERSION,
        started_at=started_at,
        seed=planned.plan.seed,
        command=tuple(command),
        host=planned.host,
        versions={name: importlib.metadata.version(name) for name in _REPORTED_LIBRARIES}
        | {"python": platform.python_version()},
        simulated=planned.scenario is not None,
        mark=_mark(planned.scenario),
        scenario=planned.scenario.described() if planned.scenario else None,
    )


def harness_version() -> str:
    """Of this installation."""
    return importlib.metadata.version(DISTRIBUTION)


def _mark(scenario: Scenario | None) -> str | None:
    return None if scenario is None else SIMULATED_MARK


def _require_simulated(sweep: Sweep, recipe: LoadedRecipe, expansion: Expansion) -> None:
    """A knob that the model does not have would be the same engine in every arm."""
    require_simulation(recipe)
    for group in expansion.groups:
        for knob in unsimulated(recipe.recipe, group.configuration.knobs):
            what = f"{knob} cannot be simulated: recipe {recipe.recipe.recipe} does not say what it does"
            raise sweep.source.error(("knobs", knob), what, hint=unsimulated_hint(knob), value=False)


def _command(wishes: Wishes) -> str:
    """Keys of the sweep that it uses need no word."""
    asked = {NIGHTLY: wishes.nightly, "tune": wishes.tune, "ab": wishes.comparison}
    return next((name for name, wish in asked.items() if wish is not None), "sweep")


def _base(
    sweep: Sweep, recipe: LoadedRecipe, expansion: Expansion, replayed: ReplayedLoads | None, *, command: str
) -> Plan:
    later = tuple(
        f"{later.key} is checked now and used by {later.used_by}"
        for later in sweep.later_keys
        if command not in later.used_by
    )
    return Plan(
        sweep=sweep.name,
        recipe=recipe.recipe.recipe,
        seed=0,
        launches=(),
        refusals=(*expansion.refusals, *(replayed.refusals if replayed is not None else ())),
        collapsed=expansion.collapsed,
        excluded_configurations=expansion.excluded_configurations,
        excluded_cells=expansion.excluded_cells,
        notes=(*expansion.notes, *(replayed.notes if replayed is not None else ()), *later),
        drafts_per_cell=sweep.file.repeat.drafts,
        margin_ratio=sweep.file.margin,
        attached=recipe.recipe.launch.style == "attach",
        canary_limit_ratio=recipe.recipe.measuring.canary_limit_ratio,
        incumbent_id=expansion.incumbent.configuration_id if expansion.incumbent else None,
        control_ids=_control_ids(recipe, expansion),
    )


def _control_ids(recipe: LoadedRecipe, expansion: Expansion) -> tuple[str, ...]:
    return tuple(
        group.configuration.configuration_id
        for group in expansion.groups
        for effective in (check(recipe.recipe, group.configuration).effective,)
        if any(all_match(condition, effective) for condition in recipe.recipe.launch.control_when)
    )


def _weights(
    sweep: Sweep, expansion: Expansion, loads: Collection[LoadPoint], replayed: ReplayedLoads | None
) -> dict[str, float]:
    by_trace = replayed.weights if replayed is not None and "by" in (sweep.file.mix or {}) else None
    return cell_weights(loads, expansion.weights, by_trace=by_trace, where=sweep.source.where(("mix",)))


def _cost(recipe: LoadedRecipe) -> EngineCost:
    launch, measuring = recipe.recipe.launch, recipe.recipe.measuring
    return EngineCost(
        launch_s=launch.expected_launch_s,
        prefill_tokens_per_s=measuring.prefill_tokens_per_s,
        decode_tokens_per_s=measuring.decode_tokens_per_s,
    )


def _planned_k(recipe: LoadedRecipe, configuration: Configuration) -> int:
    """Where the operator's own file decides k, what is taken to be in it: how many requests suffice depends on k."""
    k = configuration.num_speculative_tokens
    simulation = recipe.recipe.simulation
    assumed = dict(simulation.assumes) if simulation else {}
    known = k if k is not None else (recipe.recipe.launch_defaults | assumed).get(NUM_SPECULATIVE_TOKENS)
    return known if isinstance(known, int) else 0


def _predictions(recipe: LoadedRecipe, expansion: Expansion) -> dict[str, PredictRound]:
    """From the recipe's own simulation, as far as it has one: better than its declared speeds, for any engine."""
    found: dict[str, PredictRound] = {}
    if recipe.recipe.simulation is None or recipe.recipe.launch.style == "attach":
        return found
    any_scenario = load_scenario(_ANY_SCENARIO)
    for group in expansion.groups:
        with suppress(InputError):  # what cannot be simulated is predicted from the declared speeds
            spec = build_simulated(recipe, group.configuration).simulation
            assert spec is not None  # build_simulated made it
            scenario = scenario_for(spec, any_scenario)
            model = ModelledCost(scenario.truth, settings_for(spec, scenario))
            found[group.configuration.configuration_id] = model.of_round
    return found


def _require_same(manifest: Manifest, sweep: Sweep, recipe: LoadedRecipe, host: HostFacts) -> None:
    """A resumed run goes on with the same engine on the same rig, or its table would mix two."""
    differences = {
        "sweep": (manifest.sweep, sweep.name),
        "recipe": (manifest.recipe_sha256[:12], recipe.sha256[:12]),
        "rig": (manifest.host.rig_id, host.rig_id),
        "measuring version": (str(manifest.measuring_version), str(MEASURING_VERSION)),
    }
    for what, (then, now) in differences.items():
        if then != now:
            raise InputError(
                f"run {manifest.run_id} cannot be resumed here: its {what} was {then} and is {now} now",
                hint="Start a new run without --resume.",
            )
