"""What a plan can show, before it is paid for."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.verdict import NoiseFloor


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignRow:
    """The weighted workload, or all loads of one shape. None: more launches than anybody would wait for."""

    context_tokens: int | None  # None: the workload
    concurrency: int | None
    floor: NoiseFloor
    launches: int  # of each configuration
    smallest_visible_ratio: float | None  # None with one launch: a slow boot cannot be told from an effect
    launches_for_3_percent: int | None
    launches_for_5_percent: int | None
    launches_for_no_difference: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What a plan can show: the workload first, then each shape whose noise is known."""

    rows: tuple[DesignRow, ...]
    round_s: float  # predicted, of one launch of each of two configurations
    objective: str
    margin_ratio: float
