"""One night of a regression run, the baseline that nights are held against, and what a night is called."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from harness.records.cell import KnobValue

NightVerdict = Literal["fine", "improved", "regressed", "doubtful", "no baseline"]
Load = dict[str, KnobValue]  # the columns of a load point


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What a night measured. Figures are logarithms over the weighted workload, signed so that higher is better.

    A night that was launched twice has two values of each figure, in the order of its launches. A launch that is unfit
    to be judged is left out where another one of the night is fit; where none is, all are in, and ``doubts`` says why.
    """

    run_id: str
    sweep: str
    at: str  # wall clock, ISO 8601 with zone
    key: str  # fingerprint: engine, image, checkpoint, rig, workload, measuring version; another one is another series
    figures: dict[str, tuple[float, ...]]
    cells: dict[str, dict[str, float]] = field(default_factory=dict)  # by load id: medians, as measured
    loads: dict[str, Load] = field(default_factory=dict)  # by load id: what the cells are
    boot_s: float | None = None
    kv_cache_tokens: int | None = None
    failed_launches: int = 0
    doubts: tuple[str, ...] = ()  # kinds that make it unfit to be judged
    void: tuple[str, ...] = ()  # kinds of doubt that voided trials without which nothing is complete
    left_out: tuple[str, ...] = ()  # kinds of doubt of launches that others of the night stand in for
    canary_step_s: float | None = None  # of the launches that count, the median
    canary_ratio: float | None = None  # against what their canaries were compared with; above 1 is slower
    facts: dict[str, str] = field(default_factory=dict)  # what may explain a change: versions, drivers, temperatures
    identity: dict[str, str] = field(default_factory=dict)  # what the key is made of, in words
    simulated: bool = False

    @property
    def is_complete(self) -> bool:
        """Every figure was measured."""
        return bool(self.figures) and all(self.figures.values())

    @property
    def is_valid(self) -> bool:
        """It may be judged, and may judge others."""
        return not self.doubts and self.is_complete

    def value(self, figure: str) -> float | None:
        """The mean over the night's launches; None where it was not measured."""
        values = self.figures.get(figure, ())
        return sum(values) / len(values) if values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Nights that somebody accepted as what is normal, with a reason. Never moved by itself."""

    name: str
    sweep: str
    key: str
    accepted_at: str
    author: str
    reason: str
    run_ids: tuple[str, ...]
    values: dict[str, tuple[float, ...]]  # by figure, a value for each night
    cells: dict[str, dict[str, tuple[float, ...]]] = field(default_factory=dict)  # by load id and figure, as measured
    launch: dict[str, tuple[float, ...]] = field(default_factory=dict)  # boot_s, kv_cache_tokens, … of its nights
    simulated: bool = False
