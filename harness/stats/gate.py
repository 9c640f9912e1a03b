"""Did a night fall out of the accepted baseline? Pure.

The baseline is pinned: a rolling one follows a regression until it is normal. Its nights give a median and how far
nights lie apart (the median absolute deviation, times 1.4826 for a standard deviation under the normal law); a night
trips the gate where it is worse by more than three of those, and by more than 5 %. One night is not believed: a second
launch in the same night must trip it too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scipy.stats import median_abs_deviation

BASELINE_NIGHTS = 14
LEAST_NIGHTS = 5
_DEVIATIONS = 3.0
_LEAST_DROP_RATIO = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """One figure over the nights of a baseline. Logarithms."""

    center: float
    sd: float  # robust
    nights: int

    @property
    def limit_log(self) -> float:
        """How far below the center a value trips the gate."""
        return max(_DEVIATIONS * self.sd, -math.log1p(-_LEAST_DROP_RATIO))


def pinned(values: Sequence[float]) -> Pinned | None:
    """Return the baseline of a figure, signed so that higher is better; None with too few nights to know its scatter.

    Args:
        values: logarithms, a night each.
    """
    if len(values) < LEAST_NIGHTS:
        return None
    sd = float(median_abs_deviation(list(values), scale="normal"))
    return Pinned(center=median(values), sd=sd, nights=len(values))


def trips(value: float, baseline: Pinned) -> bool:
    """Return whether a night is worse than the baseline allows."""
    return value < baseline.center - baseline.limit_log


def regressed(values: Sequence[float], baseline: Pinned) -> bool:
    """Return whether the launches of one night all trip the gate, of which there must be two."""
    return len(values) > 1 and all(trips(value, baseline) for value in values)
