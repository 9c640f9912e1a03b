"""What one launch of a search showed, cell by cell: enough to choose the next one from, in any process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from harness.records.cell import KnobValue

Phase = Literal["reference", "search", "confirm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A configuration that may be launched: every knob that varies, with its value as it takes effect."""

    configuration_id: str
    knobs: dict[str, KnobValue]
    num_speculative_tokens: int  # 0: no speculation
    confidence_threshold: float = 0.0  # in effect: drafts that are less likely to survive are not verified


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCell:
    """A load of the workload, and what it counts."""

    load_id: str
    weight: float  # 1 over all
    context_tokens: int
    concurrency: int
    output_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CellObservation:
    """One load in one launch."""

    ttft_s: float
    tpot_s: float
    tokens_per_step: float  # 1 without speculation
    survival: tuple[float, ...] = ()  # share of the steps in which each position was accepted; () without speculation
    drafting_ratio: float = 1.0  # share of the steps that had a draft, under speculation: ngram often finds none

    @property
    def step_s(self) -> float:
        """One step of one stream."""
        return self.tpot_s * self.tokens_per_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One launch. ``cells`` is by load id; a launch that failed has none."""

    configuration_id: str
    booted: bool
    cells: dict[str, CellObservation] = field(default_factory=dict)
    reason: str | None = None  # why it did not boot, or was cut short
    slo_excess: dict[str, float] = field(default_factory=dict)  # by limit: how far it is broken, 0.1 is ten percent
    capture_sizes: tuple[int, ...] = ()  # of its CUDA graphs in tokens, as its boot log says; () where it does not
