"""What a comparison of two arms found: effects with their intervals, the verdict, and what explains it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from harness.records.cell import Configuration, LoadPoint
from harness.records.doubt import Doubt
from harness.records.sanity import Sameness

Verdict = Literal["better", "worse", "no difference", "cannot tell"]
NoiseSource = Literal["arms", "stored", "assumed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """How far launches of one and the same configuration lie apart.

    ``sigma_ratio`` is the standard deviation of the logarithm of a launch's mean over its prompts, ``degrees`` the
    degrees of freedom behind it (launches - 1).
    """

    sigma_ratio: float
    degrees: float
    source: NoiseSource
    measured_at: str | None = None  # wall clock, where it was stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The logarithm of candidate / base, signed so that above 0 is better.

    Intervals hold the false-alarm promise of the look at which they were taken, so an early one is wider than a last
    one. ``low90`` and ``high90`` are those of the equivalence test.
    """

    log_ratio: float
    se: float
    degrees: float
    low: float
    high: float
    low90: float
    high90: float
    p: float  # two-sided, of no effect at all; as if this were the only look
    launches: tuple[int, int]  # base, candidate
    prompts: int  # paired
    noise: NoiseFloor  # what the interval rests on
    allowance: float = 0.0  # of the half width: what one slow boot could fake, with one launch an arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An effect on a figure that explains or accompanies; None where it cannot be known, with the reason."""

    metric: str
    effect: Effect | None
    base: float | None  # geometric mean over launches and prompts
    candidate: float | None
    null_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLimit:
    """A bound of the sweep: a figure, a statistic over what was measured, and how far it may go."""

    metric: str
    statistic: str  # of sweep.load.STATISTICS
    at_most: float | None = None
    at_least: float | None = None

    @property
    def name(self) -> str:
        """As the sweep writes it."""
        return f"{self.metric}.{self.statistic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenLimit:
    """A bound of the sweep that an arm does not keep."""

    limit: str  # as written, for example ttft_s.p95
    bound: str  # "at most 30"
    value: float
    load: LoadPoint
    arm: Literal["base", "candidate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellVerdict:
    """One load under both arms."""

    load: LoadPoint
    weight: float  # 1 over all cells
    verdict: Verdict
    q: float | None  # p after Benjamini and Hochberg; None without an effect
    seconds: Part  # of the user: what the verdict is about, unless the sweep names another objective
    parts: tuple[Part, ...]  # decode rate, acceptance, step time, time to first token, worst stream, prefill
    doubts: tuple[Doubt, ...] = ()
    smallest_visible_ratio: float | None = None  # of this design: found in 80 of 100 comparisons


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One side of a comparison."""

    name: str
    configuration: Configuration
    launch_ids: tuple[str, ...]  # that count, in the order in which they ran
    void_launches: int = 0
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How the verdict stood after a block of launches."""

    launches: int  # of each arm
    verdict: Verdict
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that a comparison says."""

    base: Arm
    candidate: Arm
    factors: tuple[str, ...]  # names of what differs between the arms; () for one configuration against itself
    objective: str
    margin_ratio: float
    verdict: Verdict  # of the weighted workload: it decides the exit code
    effect: Effect | None
    null_reason: str | None  # why there is no effect
    cells: tuple[CellVerdict, ...]
    overall: tuple[Part, ...] = ()  # acceptance and step time of the workload
    vetoes: tuple[str, ...] = ()  # why "better" was not given
    broken_limits: tuple[BrokenLimit, ...] = ()
    doubts: tuple[Doubt, ...] = ()  # of the comparison as a whole
    looks: tuple[Look, ...] = ()
    max_launches: int | None = None  # of each arm
    smallest_visible_ratio: float | None = None
    naive_ratio: float | None = None  # what one launch an arm and a mean over requests would have said
    same: bool = False  # A/A
    simulated: bool = False
    sameness: tuple[Sameness, ...] = ()  # of greedy text
    notes: tuple[str, ...] = field(default=())

    @property
    def speedup(self) -> float | None:
        """The effect as a ratio: 1.1 is ten percent better."""
        return None if self.effect is None else math.exp(self.effect.log_ratio)
