"""What stands beside the headline of a night: every cell, the boot, the cache. For information; it never gates. Pure.

Each figure of a cell is held against the baseline's nights by the prediction interval of one more night (Student's t on
logarithms), and all of them together by their false-discovery rate (Benjamini and Hochberg 1995). Twenty cells with
five figures each would raise four false alarms a quarter if each could alarm alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev
from typing import Literal

import numpy as np
from scipy import stats

from harness.records.metrics import METRICS
from harness.records.nightly import Baseline, Load, Night
from harness.stats.baseline import BOOT_S, FAILED_LAUNCHES, KV_CACHE_TOKENS, cells_of, launch_figures
from harness.stats.gate import BASELINE_NIGHTS, LEAST_NIGHTS

Against = Literal["baseline", "history"]
FALSE_DISCOVERY_RATE = 0.05
LEAST_RATIO = 0.05  # a single cell that moved less is no news
_KV_RATIO = 0.02  # it hardly varies from boot to boot
_LEAST_SD = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideFigure:
    """One figure of a night beside what it usually is."""

    name: str  # of records.metrics, or boot_s, kv_cache_tokens, failed_launches
    load_id: str | None  # None: of the launch
    load: Load | None  # the columns of the load, where they are known
    value: float | None
    usual: float | None  # the median of the nights that it is held against
    nights: int
    against: Against
    moved: bool = False
    p: float | None = None  # after Benjamini and Hochberg; None where there is no test
    null_reason: str | None = None  # why value, usual or p is None

    @property
    def ratio(self) -> float | None:
        """Tonight against what is usual."""
        return self.value / self.usual if self.value is not None and self.usual else None

    @property
    def is_worse(self) -> bool | None:
        """None where it did not move, or no direction is the good one."""
        ratio = self.ratio
        if not self.moved or ratio is None or self.name not in METRICS:
            return None
        higher = METRICS[self.name].higher_is_better
        return None if higher is None else (ratio < 1) is higher


def beside(night: Night, nights: Sequence[Night], baseline: Baseline | None) -> tuple[BesideFigure, ...]:
    """Return every figure of a night that has a word beside the headline.

    Args:
        night: tonight.
        nights: earlier ones of the series that count; the last of them stand in where no baseline is accepted.
        baseline: accepted for this series; None: none is.
    """
    recent = nights[-BASELINE_NIGHTS:]
    against: Against = "baseline" if baseline is not None and baseline.cells else "history"
    cells = baseline.cells if baseline is not None and baseline.cells else cells_of(recent)
    launch = baseline.launch if baseline is not None and baseline.launch else launch_figures(recent)
    loads = {load_id: load for one in (*recent, night) for load_id, load in one.loads.items()}
    keys = dict.fromkeys(
        (load_id, name) for of in (night.cells, cells) for load_id, names in of.items() for name in names
    )
    found = [
        replace(
            _tested(name, night.cells.get(load_id, {}).get(name), cells.get(load_id, {}).get(name, ()), against),
            load_id=load_id,
            load=loads.get(load_id),
        )
        for load_id, name in keys
    ]
    found.append(_tested(BOOT_S, night.boot_s, launch.get(BOOT_S, ()), against))
    return (
        *_controlled(found),
        *_of_the_launch(night, launch.get(KV_CACHE_TOKENS, ()), against),
        *_failed(night, launch, against),
    )


def _tested(name: str, value: float | None, usual: Sequence[float], against: Against) -> BesideFigure:
    """The p is not yet controlled."""
    figure = _figure(name, value, usual, against, because=_why_untested(value, usual))
    if figure.null_reason is not None or value is None:
        return figure
    logs = [math.log(one) for one in usual]
    sd = max(stdev(logs), _LEAST_SD)
    t = (math.log(value) - fmean(logs)) / (sd * math.sqrt(1 + 1 / len(logs)))
    return replace(figure, p=float(2 * stats.t.sf(abs(t), len(logs) - 1)))


def _figure(
    name: str, value: float | None, usual: Sequence[float], against: Against, *, because: str | None
) -> BesideFigure:
    """Of the whole launch; a cell puts its load in."""
    return BesideFigure(
        name=name,
        load_id=None,
        load=None,
        value=value,
        usual=median(usual) if usual else None,
        nights=len(usual),
        against=against,
        null_reason=because,
    )


def _why_untested(value: float | None, usual: Sequence[float]) -> str | None:
    if value is None:
        return "not measured tonight"
    if len(usual) < LEAST_NIGHTS:
        return f"{len(usual)} earlier nights measured it, {LEAST_NIGHTS} are needed"
    return "not above 0 in every night" if min(value, *usual) <= 0 else None


def _controlled(found: Sequence[BesideFigure]) -> Iterable[BesideFigure]:
    tested = {at: one.p for at, one in enumerate(found) if one.p is not None}
    rates = np.atleast_1d(stats.false_discovery_control(list(tested.values()))) if tested else ()
    controlled = dict(zip(tested, map(float, rates), strict=True))
    for at, one in enumerate(found):
        size = abs(math.log(one.ratio)) if one.ratio else 0.0
        p = controlled.get(at)
        moved = p is not None and p < FALSE_DISCOVERY_RATE and size >= math.log1p(LEAST_RATIO)
        yield replace(one, p=p, moved=moved)


def _of_the_launch(night: Night, usual: Sequence[float], against: Against) -> Iterable[BesideFigure]:
    """The cache: memory that something else took, or another way to count it."""
    value = None if night.kv_cache_tokens is None else float(night.kv_cache_tokens)
    if value is None and not usual:
        return
    because = "not measured tonight" if value is None else None if usual else "no earlier night measured it"
    figure = _figure(KV_CACHE_TOKENS, value, usual, against, because=because)
    ratio = figure.ratio
    yield replace(figure, moved=ratio is not None and abs(ratio - 1) > _KV_RATIO)


def _failed(night: Night, launch: dict[str, tuple[float, ...]], against: Against) -> Iterable[BesideFigure]:
    usual = launch.get(FAILED_LAUNCHES, ())
    because = None if usual else "no earlier night"
    figure = _figure(FAILED_LAUNCHES, float(night.failed_launches), usual, against, because=because)
    yield replace(figure, moved=night.failed_launches > max(usual, default=0.0))
