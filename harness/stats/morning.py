"""What there is to say of a night, as data: verdict, figures, series for pictures, and what stands beside. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.records.nightly import Night, NightVerdict
from harness.stats.beside import BesideFigure
from harness.stats.changepoint import Change
from harness.stats.gate import Pinned
from harness.stats.new_series import NewSeries
from harness.stats.paired import SECONDS

WORDS = {SECONDS: "speed", "delivered_per_step": "tokens per step", "step_s": "steps per second"}  # up is better


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint:
    """One night of a series, for a picture. Logarithms."""

    run_id: str
    at: str  # wall clock, ISO 8601 with zone
    value: float
    launches: tuple[float, ...]
    counts: bool  # False: doubtful, it judges nobody

    @property
    def date(self) -> str:
        """The day on which the night began."""
        return self.at[:10]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesChange:
    """A change point of a series: those that somebody accepted, and those that are over, too."""

    figure: str
    at: str  # wall clock of the first night after it
    found_at: str  # of the night that told
    change: Change
    accepted: bool  # the baseline is of nights after it
    differences: tuple[str, ...]  # of facts between the nights on both sides

    @property
    def date(self) -> str:
        """The day of the first night after it."""
        return self.at[:10]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One headline series and how the night stands in it."""

    name: str
    value: float | None
    baseline: Pinned | None
    tripped: bool  # a launch of the night is below the limit
    regressed: bool  # all of them are, and there are two, or the night before was below it too
    change: Change | None  # what moved since the baseline and stands unaccepted
    since: str | None  # the date of the first night after it
    risen: bool = False  # a launch of the night is as far above the baseline as the limit is below
    improved: bool = False  # all of them are
    changes: tuple[SeriesChange, ...] = ()  # of its whole history, oldest first

    @property
    def log_ratio(self) -> float | None:
        """Against the baseline."""
        return None if self.value is None or self.baseline is None else self.value - self.baseline.center

    @property
    def fell(self) -> bool:
        """It is worse, by the gate or by a change point."""
        return self.regressed or (self.change is not None and self.change.log_ratio < 0)

    @property
    def rose(self) -> bool:
        """It is better, by the gate or by a change point."""
        return not self.fell and (self.improved or self.change is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Morning:
    """What to say of a night."""

    verdict: NightVerdict
    night: Night
    figures: tuple[Figure, ...]
    sentence: str
    cause: str  # which of acceptance, step time and the rig moved; "" where nothing did
    differences: tuple[str, ...]  # of the facts, across the change
    history: int  # nights of this series that count, without this one
    notes: tuple[str, ...]
    nights: tuple[Night, ...] = ()  # earlier ones of this series, doubtful ones too, oldest first
    beside: tuple[BesideFigure, ...] = ()  # never judges
    series: dict[str, tuple[SeriesPoint, ...]] = field(default_factory=dict)  # by headline figure, oldest first
    changes: tuple[SeriesChange, ...] = ()  # of all figures, oldest first
    new_series: NewSeries | None = None  # this one has just begun
