"""What a run will do, frozen before it starts. run.plan makes it; the session follows it; reports quote it."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.records.cell import Configuration, LoadPoint, Refusal
from harness.records.design import Design
from harness.records.tune import PlannedTune
from harness.records.verdict import AskedLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """One trial of one launch, in the order in which it is run."""

    trial_id: str
    load: LoadPoint
    predicted_s: float  # at most what budget.cell allows
    done: bool = False
    ttft_s: float | None = None  # predicted, the median over its requests
    uncut_s: float | None = None  # what it would take, where budget.cell will end it


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLaunch:
    """One launch of a round."""

    launch_key: str  # hash of run-independent identity: configuration, round, engine, host
    ordinal: int  # from 1
    round: int  # from 1: every configuration once before any twice
    configuration: Configuration
    trials: tuple[PlannedTrial, ...]
    predicted_launch_s: float
    fits_budget: bool = True

    @property
    def done(self) -> bool:
        """Nothing is left to measure. A launch whose cells are not known yet, as of a trace, is not done."""
        return bool(self.trials) and all(trial.done for trial in self.trials)

    @property
    def predicted_s(self) -> float:
        """Boot and trials that are left."""
        if self.done:
            return 0.0
        return self.predicted_launch_s + sum(trial.predicted_s for trial in self.trials if not trial.done)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapsedConfigurations:
    """Several combinations that are one server, measured once."""

    kept: Configuration
    same_as: tuple[Configuration, ...]
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedComparison:
    """What `ab` asks of the launches of a plan."""

    base_id: str  # configuration ids; the same twice for an A/A
    candidate_id: str
    base_name: str
    candidate_name: str
    factors: tuple[str, ...]  # knobs in which the arms differ
    max_launches: int  # of each arm
    sequential: bool  # stop after a block as soon as the verdict stands
    objective: str
    limits: tuple[AskedLimit, ...] = ()
    checks: tuple[str, ...] = ()  # of the site, whose failure vetoes "better"
    factors_allowed: bool = False

    @property
    def same(self) -> bool:
        """One configuration against itself: the noise floor."""
        return self.base_id == self.candidate_id


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNightly:
    """What `nightly` asks of the launches of a plan: two of the first configuration, the second only on suspicion."""

    gate_id: str  # configuration id whose figures decide
    watched_ids: tuple[str, ...]  # configuration ids that are launched once and shown
    baseline: str  # name of the accepted baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that is decided before the first launch."""

    sweep: str
    recipe: str
    seed: int
    launches: tuple[PlannedLaunch, ...]
    refusals: tuple[Refusal, ...] = ()
    collapsed: tuple[CollapsedConfigurations, ...] = ()
    excluded_configurations: int = 0
    excluded_cells: int = 0
    notes: tuple[str, ...] = ()  # what is parsed now and used by another command, and other advice
    drafts_per_cell: int = 400
    margin_ratio: float = 0.03
    canary_limit_ratio: float = 0.03  # the recipe's: a canary that moved more within a launch is a doubt
    incumbent_id: str | None = None  # configuration id that gains are measured against
    control_ids: tuple[str, ...] = ()  # configuration ids of controls: measured, and never recommended
    weights: dict[str, float] = field(default_factory=dict)  # by load id, 1 in all; empty: every cell counts the same
    comparison: PlannedComparison | None = None  # of `ab`; its rounds alternate A B B A
    tune: PlannedTune | None = None  # of `tune`: launches are chosen from the plan's, one by one
    nightly: PlannedNightly | None = None
    design: Design | None = None  # what it can show; None where nobody asked, or nothing can be said
    attached: bool = False  # a server that runs already: one launch, whatever is repeated
    simulated: bool = False
    mark: str | None = None  # SIMULATED_MARK, for whoever reads the document

    @property
    def predicted_s(self) -> float:
        """Seconds for what is left and fits the budget."""
        return sum(launch.predicted_s for launch in self.launches if launch.fits_budget)

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """Each configuration once, in the order of the plan's first round."""
        seen = {launch.configuration.configuration_id: launch.configuration for launch in self.launches}
        return tuple(seen.values())
