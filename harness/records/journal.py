"""What a journal holds besides launches and trials, and a run as read back from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.records.cell import Configuration
from harness.records.check import CheckRecord
from harness.records.launch import LaunchRecord
from harness.records.manifest import Manifest
from harness.records.plan import Plan
from harness.records.trial import TrialRecord
from harness.records.tune import TuneStep

SessionOutcome = Literal["finished", "interrupted", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """A process began to write this run: its first one, or one that resumed it."""

    at: str  # wall clock, ISO 8601 with zone
    command: tuple[str, ...]
    harness_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """It stopped writing by its own will. A killed one leaves none."""

    at: str
    outcome: SessionOutcome
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStart:
    """Written before the engine is started, so that a killed run shows what it was doing."""

    launch_id: str
    launch_key: str
    ordinal: int
    round: int
    attempt: int
    configuration: Configuration
    started_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """Something the reader of the run should know."""

    at: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """A run as its folder holds it, each kind of record in the order in which it was written."""

    manifest: Manifest
    plan: Plan | None  # None: killed before the plan was written
    launches: tuple[LaunchRecord, ...] = ()
    trials: tuple[TrialRecord, ...] = ()
    notes: tuple[RunNote, ...] = ()
    launch_starts: tuple[LaunchStart, ...] = ()
    sessions: tuple[SessionStart, ...] = ()
    ends: tuple[SessionEnd, ...] = ()
    checks: tuple[CheckRecord, ...] = ()
    tune_steps: tuple[TuneStep, ...] = ()  # one before each launch of a search
    torn: bool = False  # the last line is incomplete: being written now, or cut by a crash

    @property
    def unfinished_launches(self) -> tuple[LaunchStart, ...]:
        """Launches that were started and have no end: the process was killed."""
        ended = {launch.launch_id for launch in self.launches}
        return tuple(start for start in self.launch_starts if start.launch_id not in ended)
