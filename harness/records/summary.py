"""Figures worked out from facts: per trial, and per cell. stats makes them; store, report and cli show them."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.records.cell import Cell
from harness.records.doubt import Doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialMetrics:
    """Every name of records.metrics, in its order. A None in ``values`` has its reason in ``null_reasons``."""

    values: dict[str, float | None]
    by_position: tuple[float, ...] | None  # acceptance_by_position
    null_reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """A trial's figures and what speaks against them."""

    trial_id: str
    launch_id: str
    round: int
    repeat: int
    metrics: TrialMetrics
    doubts: tuple[Doubt, ...]
    simulated: bool = False

    @property
    def void(self) -> bool:
        """Not used at all."""
        return any(doubt.void for doubt in self.doubts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """A cell over its trials that are not void: median, and the range beside it."""

    cell: Cell
    values: dict[str, float | None]  # median over trials
    spread: dict[str, tuple[float, float]]  # least and most over trials; absent where the value is None
    by_position: tuple[float, ...] | None
    null_reasons: dict[str, str]
    doubts: tuple[Doubt, ...]  # of its trials, each once, and its own
    trials: tuple[TrialSummary, ...]  # void ones too
    launches: int  # that gave a trial which is not void
    drafts_in_all: int | None  # over trials that are not void: the precision of acceptance comes from these

    @property
    def valid_trials(self) -> tuple[TrialSummary, ...]:
        """Those that count."""
        return tuple(trial for trial in self.trials if not trial.void)

    @property
    def void(self) -> bool:
        """Nothing usable was measured."""
        return not self.valid_trials
