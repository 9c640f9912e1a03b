"""What a report is built from: a stored run with the statistics of its cells. Nothing is rounded here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.records.cell import Cell, Configuration
from harness.records.check import CheckRecord
from harness.records.imported import IMPORTED_MARK
from harness.records.journal import RunData
from harness.records.launch import FAILED, LaunchRecord
from harness.records.manifest import Manifest
from harness.records.nightly import Baseline
from harness.records.noise import StoredNoise
from harness.records.plan import Plan
from harness.records.summary import CellSummary
from harness.records.trial import TrialRecord
from harness.records.tune import TuneStep
from harness.records.verdict import Comparison
from harness.stats.confirm import Confirmed
from harness.stats.morning import Morning
from harness.stats.overview import (
    ASSUMED_LAUNCH_SIGMA_RATIO,
    Overview,
    Standing,
    best_by_workload,
    launch_sigma_ratio,
    smallest_visible_difference,
)

TODAY = "today"  # the operator's own configuration, where a sweep measures it


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The smallest difference between two configurations that this run could see, 0.03 being three percent."""

    ratio: float
    launch_sigma_ratio: float
    assumed: bool  # no configuration was launched twice, so the scatter between boots is not measured
    launches: int  # of each configuration that matters


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpan:
    """When a trial was measured, and whether it can be used."""

    launch_id: str
    started_at: str
    took_s: float
    void: bool
    doubtful: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NightFacts:
    """What a run of ``nightly`` is told by."""

    mornings: tuple[tuple[str, Morning], ...]  # by configuration; the first decides, the others are watched
    baseline: Baseline | None = None  # that the first was held against


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run as a report needs it."""

    manifest: Manifest
    plan: Plan
    launches: tuple[LaunchRecord, ...]
    cells: tuple[CellSummary, ...]
    overview: Overview | None  # None: no cell has a decode rate
    visibility: Visibility
    missing_trials: int  # planned, and in no record
    notes: tuple[str, ...] = ()  # written while the run was going on
    trial_spans: tuple[TrialSpan, ...] = ()  # in the order in which they were measured
    checks: tuple[CheckRecord, ...] = ()
    comparison: Comparison | None = None  # of two arms, where the run is one of ab or compare
    noise: StoredNoise | None = None  # what an A/A found
    tuned: Confirmed | None = None  # what a search confirmed
    tune_steps: tuple[TuneStep, ...] = ()
    night: NightFacts | None = None

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Configurations, best first; those that lack a cell last, since theirs is a mean over other cells."""
        standings = self.overview.standings if self.overview else ()
        return tuple(sorted(standings, key=lambda one: not is_complete(one)))

    @property
    def ranked(self) -> tuple[Standing, ...]:
        """Those that have every cell of the reference, best first, and that may be recommended."""
        return tuple(one for one in self.standings if is_complete(one) and not self.is_control(one))

    @property
    def controls(self) -> tuple[Standing, ...]:
        """Those that are measured to understand the others."""
        return tuple(one for one in self.standings if is_complete(one) and self.is_control(one))

    @property
    def imported(self) -> bool:
        """Another program measured it."""
        return self.manifest.mark == IMPORTED_MARK

    def is_control(self, one: Standing) -> bool:
        """Whether the recipe calls it a control. What gains are measured against always counts."""
        return not one.is_reference and one.configuration.configuration_id in self.plan.control_ids


def run_facts(
    run: RunData,
    cells: tuple[CellSummary, ...],
    comparison: Comparison | None = None,
    noise: StoredNoise | None = None,
    tuned: Confirmed | None = None,
    night: NightFacts | None = None,
) -> RunFacts:
    """Return what a report needs of a stored run.

    Args:
        run: as read from its folder.
        cells: what stats.cells makes of its trials.
        comparison: of its arms, where it has two.
        noise: what it found of its rig, where it is an A/A.
        tuned: what it confirmed, where it is a search.
        night: what is said of it, where it is a night.
    """
    plan = run.plan or _nothing_planned(run.manifest)
    overview = best_by_workload(cells, incumbent_id=_incumbent_id(plan, cells), weights=plan.weights or None)
    return RunFacts(
        manifest=run.manifest,
        plan=plan,
        launches=run.launches,
        cells=cells,
        overview=overview,
        visibility=_visibility(overview, cells),
        missing_trials=_missing_trials(plan, run),
        notes=tuple(note.text for note in run.notes),
        trial_spans=_trial_spans(run, cells),
        checks=run.checks,
        comparison=comparison,
        noise=noise,
        tuned=tuned,
        tune_steps=run.tune_steps,
        night=night,
    )


def _incumbent_id(plan: Plan, cells: tuple[CellSummary, ...]) -> str | None:
    """What the sweep measures gains against, else the operator's own configuration, where they were measured."""
    measured = {summary.cell.configuration.configuration_id: summary.cell.configuration.name for summary in cells}
    if plan.incumbent_id in measured:
        return plan.incumbent_id
    return next((configuration for configuration, name in measured.items() if name == TODAY), None)


def is_complete(standing: Standing) -> bool:
    """Whether it can be ranked: it has every cell that the reference has."""
    return standing.ratio is not None and not standing.cells_missing


def trial_values(summary: CellSummary, metric: str) -> tuple[float, ...]:
    """Return the figure of each usable trial that has it."""
    values = (trial.metrics.values.get(metric) for trial in summary.valid_trials)
    return tuple(value for value in values if value is not None)


def _visibility(overview: Overview | None, cells: tuple[CellSummary, ...]) -> Visibility:
    """The two best configurations decide: they are what a reader wants to tell apart."""
    contenders = [one for one in overview.standings if is_complete(one)][:2] if overview else []
    launches = max(1, min((one.launches for one in contenders), default=1))
    measured = launch_sigma_ratio(cells)
    sigma = ASSUMED_LAUNCH_SIGMA_RATIO if measured is None else measured
    return Visibility(
        ratio=smallest_visible_difference(launches, sigma_ratio=sigma),
        launch_sigma_ratio=sigma,
        assumed=measured is None,
        launches=launches,
    )


def _trial_spans(run: RunData, cells: tuple[CellSummary, ...]) -> tuple[TrialSpan, ...]:
    summaries = {(trial.trial_id, trial.launch_id): trial for cell in cells for trial in cell.trials}
    spans = []
    for trial in run.trials:
        summary = summaries.get((trial.trial_id, trial.launch_id))
        if summary is not None:
            spans.append(
                TrialSpan(
                    launch_id=trial.launch_id,
                    started_at=trial.started_at,
                    took_s=_took_s(trial),
                    void=summary.void,
                    doubtful=bool(summary.doubts),
                )
            )
    return tuple(spans)


def _took_s(trial: TrialRecord) -> float:
    """Older records do not say: there it is the window alone."""
    ends = (request.closed_s for request in trial.requests if request.closed_s is not None)
    return max(ends, default=0.0) if trial.took_s is None else trial.took_s


def _missing_trials(plan: Plan, run: RunData) -> int:
    """Planned trials that are in no record. Those of a launch that failed are not missing: they are an outcome."""
    failed = {launch.configuration.configuration_id for launch in run.launches if launch.outcome in FAILED}
    measured = Counter(trial.cell.cell_id for trial in run.trials)
    planned = Counter(
        Cell(configuration=launch.configuration, load=wanted.load).cell_id
        for launch in plan.launches
        if launch.fits_budget
        and launch.configuration.configuration_id not in failed
        and not (plan.nightly and launch.round > 1)  # made on suspicion only
        for wanted in launch.trials
    )
    return sum(max(0, count - measured[cell_id]) for cell_id, count in planned.items())


def _nothing_planned(manifest: Manifest) -> Plan:
    """A run that was killed before its plan was written has planned nothing."""
    return Plan(
        sweep=manifest.sweep, recipe=manifest.recipe, seed=manifest.seed, launches=(), simulated=manifest.simulated
    )


def configurations_of(facts: RunFacts) -> tuple[Configuration, ...]:
    """Return every configuration once: planned, then measured, then those that are only ranked."""
    found = (*facts.plan.configurations, *(summary.cell.configuration for summary in facts.cells))
    return tuple({one.configuration_id: one for one in found}.values())
