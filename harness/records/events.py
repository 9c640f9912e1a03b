"""What a run tells whoever watches it. Facts without layout: report.terminal draws them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.records.cell import Cell, Configuration
from harness.records.launch import LaunchRecord
from harness.records.trial import TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The plan is fixed and the journal is open."""

    run_id: str
    launches: int
    trials: int
    done_trials: int
    predicted_s: float | None
    at_most: bool = False  # a search: launches are chosen one by one, and it may end before


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationProgress:
    """Something is installed or built before the first launch."""

    step: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStarted:
    """The engine is asked to start."""

    ordinal: int
    launches: int
    configuration: Configuration
    expected_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProgress:
    """A line of the boot log worth showing."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReady:
    """The engine answers and is what was asked for."""

    ready_s: float
    proof: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A cell is about to be warmed up and measured."""

    cell: Cell
    ordinal: int
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDone:
    """The trial is in the journal."""

    trial: TrialRecord
    remaining_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnded:
    """The engine is gone and the launch is in the journal."""

    launch: LaunchRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something the user should read now."""

    text: str


Event = (
    RunStarted
    | PreparationProgress
    | LaunchStarted
    | LaunchProgress
    | LaunchReady
    | TrialStarted
    | TrialDone
    | LaunchEnded
    | Note
)
OnEvent = Callable[[Event], None]
