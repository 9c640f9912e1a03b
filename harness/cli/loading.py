"""A sweep file and the command line -> a planned sweep; a RUN -> its folder and figures. Shared by the commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from pathlib import Path

from harness.cli.generation import generation_of_site
from harness.cli.serving import facts_for
from harness.engine.host import host_facts
from harness.errors import InputError
from harness.recipe.find import find_recipe, find_sweep
from harness.recipe.load import LoadedRecipe, load_recipe
from harness.recipe.pair import GENERATION
from harness.records.journal import RunData
from harness.records.manifest import UNKNOWN_RIG, HostFacts
from harness.records.plan import Plan
from harness.records.summary import CellSummary
from harness.records.trial import MEASURING_VERSION
from harness.run.arms import ComparisonWish
from harness.run.design import design_of
from harness.run.nightly import NightlyWish
from harness.run.setup import PlannedSweep, Wishes, plan_sweep
from harness.run.tuning import TuneWish, with_no_speculation
from harness.simulator.scenario import Scenario, load_scenario
from harness.stats.case import Limits
from harness.stats.cells import summarise_run, valid_trial_ids
from harness.stats.noise import NoiseBook, usable_noise
from harness.store.layout import RESULTS, RunFolder, resolve_run
from harness.store.reader import read_run
from harness.store.rig import read_noise
from harness.sweep.arms import ArmWords, with_arms
from harness.sweep.load import Sweep, load_recipe_of, load_sweep
from harness.sweep.site import load_site

SIMULATED = "simulated"
DEFAULT_SCENARIO = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What the command line says about a sweep."""

    file: str
    root: Path | None
    engine: str | None
    scenario: str | None
    overrides: Sequence[str]
    seed: int
    launches: int | None
    site: Path | None = None
    finish_by: str | None = None  # HH:MM; None: as the sweep says
    keep_s: float = 0.0  # of the time, for giving the machines back
    arms: ArmWords | None = None  # of ab
    comparison: ComparisonWish | None = None
    tune: TuneWish | None = None
    nightly: NightlyWish | None = None
    as_of: str | None = None  # ISO 8601 with zone: the night that a rehearsal stands for; None: now


def root_of(option: Path | None, site: Path | None = None) -> Path:
    """Return where results/ and reports/ lie: --root, else the site file's place, else here."""
    if option is not None:
        return option
    return load_site(site).results_folder or Path.cwd()


def plan_from(options: PlanOptions, *, earlier: RunData | None = None, host: HostFacts | None = None) -> PlannedSweep:
    """Return the plan of a sweep file.

    Args:
        options: of the command line.
        earlier: the run to carry on with.
        host: of the machines that serve, where they have been looked at already.

    Raises:
        InputError: the sweep cannot be planned.
        EngineError: the machines of ``earlier`` do not answer.
    """
    sweep = load_sweep(find_sweep(options.file), set_overrides=options.overrides)
    engine = engine_of(sweep, options)
    recipe = _recipe(sweep, engine)
    if engine is None:
        generation = generation_of_site(sweep, recipe.recipe, load_site(options.site))
        if generation is not None:
            overrides = (*options.overrides, f"{GENERATION}={generation}")
            sweep = load_sweep(find_sweep(options.file), set_overrides=overrides)
    if options.tune is not None:
        sweep = with_no_speculation(sweep, recipe.recipe)
    if options.arms is not None:
        sweep = with_arms(sweep, options.arms)
    wishes = Wishes(
        seed=options.seed,
        launches=options.launches,
        comparison=options.comparison,
        tune=options.tune,
        nightly=options.nightly,
        time_limit_s=_time_limit_s(sweep, options),
        scenario=_scenario(options),
    )
    planned = plan_sweep(
        sweep,
        recipe,
        _host(sweep, recipe, replace(options, engine=engine), host, must_answer=earlier is not None),
        wishes,
        earlier=earlier.manifest if earlier else None,
        done_trials=valid_trial_ids(summaries_of(earlier)) if earlier else frozenset(),
    )
    return with_design(planned, root_of(options.root, options.site))


def _host(
    sweep: Sweep, recipe: LoadedRecipe, options: PlanOptions, known: HostFacts | None, *, must_answer: bool
) -> HostFacts:
    if known is not None and not (must_answer and known.rig_id == UNKNOWN_RIG):
        return known
    if options.engine is not None:
        return host_facts(recipe.recipe.recipe)  # of this machine: the others are simulated, or not ours to look at
    return facts_for(sweep, recipe, options.site, must_answer=must_answer)


def with_design(planned: PlannedSweep, root: Path) -> PlannedSweep:
    """Return the sweep with what its plan can show, by what is stored of its rig."""
    stored = read_noise(root / RESULTS, planned.host.rig_id)
    usable = usable_noise(stored, engine_version=None, measuring_version=MEASURING_VERSION)
    return replace(planned, plan=replace(planned.plan, design=design_of(planned.plan, NoiseBook(entries=usable))))


def stored_run(reference: str, root: Path, *, sweep: str | None = None) -> tuple[RunFolder, RunData]:
    """Return a stored run. Raises InputError for an unknown RUN, StoreError for a damaged one."""
    folder = resolve_run(reference, root=root, sweep=sweep)
    return folder, read_run(folder)


def summaries_of(run: RunData) -> tuple[CellSummary, ...]:
    """Return the cells of a run with the limits of its recipe, as far as this machine still has it."""
    return summarise_run(run.trials, run.launches, limits_of(run.plan))


def limits_of(plan: Plan | None) -> Limits:
    """Return where doubt begins under a plan."""
    if plan is None:
        return Limits()
    return Limits(least_drafts=plan.drafts_per_cell, canary_ratio=plan.canary_limit_ratio)


def _recipe(sweep: Sweep, engine: str | None) -> LoadedRecipe:
    if engine in (None, SIMULATED):
        return load_recipe_of(sweep)
    if engine == "attach":
        return load_recipe(find_recipe("attach"))
    raise InputError(f"unknown engine: {engine}", hint="Leave --engine out, or name attach or simulated.")


def engine_of(sweep: Sweep, options: PlanOptions) -> str | None:
    """Return what stands in for the recipe's launch: of the command line, else what the sweep says of its nights."""
    settings = sweep.file.nightly
    attached = options.nightly is not None and settings is not None and settings.engine == "attach"
    return "attach" if options.engine is None and attached else options.engine


def _scenario(options: PlanOptions) -> Scenario | None:
    if options.engine == SIMULATED:
        scenario = load_scenario(options.scenario or DEFAULT_SCENARIO, seed=options.seed)
        return scenario if options.as_of is None else replace(scenario, night=options.as_of)
    if options.as_of is not None:
        raise InputError("--as-of is for --engine simulated", hint="A real night is of the day on which it is.")
    if options.scenario is not None:
        raise InputError("--scenario is for --engine simulated", hint="Add --engine simulated, or leave it out.")
    return None


def _time_limit_s(sweep: Sweep, options: PlanOptions) -> float | None:
    """The budget's time, or what is left until finish_by without what giving back takes, whichever ends first."""
    budget = sweep.file.budget
    finish_by = _clock_time(options.finish_by) if options.finish_by is not None else budget.finish_by
    if finish_by is None:
        return budget.time
    now = datetime.now()
    end = datetime.combine(now.date(), time.fromisoformat(finish_by))
    if end <= now:
        end += timedelta(days=1)
    until_s = (end - now).total_seconds() - options.keep_s
    if until_s <= 0:
        what = f"nothing can be measured before {finish_by}: giving the server back takes the time that is left"
        raise InputError(what, hint="Name a later time with --finish-by.")
    return until_s if budget.time is None else min(until_s, budget.time)


def _clock_time(text: str) -> str:
    try:
        return time.fromisoformat(text).strftime("%H:%M")
    except ValueError as error:
        raise InputError(f"not a time of day: {text!r}", where="--finish-by", hint="As in 06:30.") from error
