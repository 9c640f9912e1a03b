"""Did a night fall out of the accepted baseline? Pure.

The baseline is pinned: a rolling one follows a regression until it is normal. Its nights give a median and how far
nights lie apart (the median absolute deviation, times 1.4826 for a standard deviation under the normal law); a launch
falls out where it is worse by more than three of those, and by more than a floor of each figure's own. One launch is
not believed: a second one in the same night must fall out too, or, where none could be made, the night before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scipy.stats import median_abs_deviation

from harness.stats.paired import SECONDS

BASELINE_NIGHTS = 14
LEAST_NIGHTS = 5
DEVIATIONS = 3.0
# A rig whose launches hardly differ would alarm at nothing that matters. Step time is what this harness is there to
# watch; tokens per step move with harmless changes of a text. docs/nightly.md has the false alarms of other floors.
FLOOR_RATIO = {SECONDS: 0.05, "delivered_per_step": 0.08, "step_s": 0.04}
_OTHER_FLOOR_RATIO = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """One figure over the nights of a baseline. Logarithms."""

    center: float
    sd: float  # robust
    nights: int
    floor_ratio: float = _OTHER_FLOOR_RATIO

    @property
    def limit_log(self) -> float:
        """How far from the center a value falls out."""
        return max(DEVIATIONS * self.sd, -math.log1p(-self.floor_ratio))


def pinned(values: Sequence[float], figure: str = SECONDS) -> Pinned | None:
    """Return the baseline of a figure, signed so that higher is better; None with too few nights to know its scatter.

    Args:
        values: logarithms, a night each.
        figure: whose floor is used.
    """
    if len(values) < LEAST_NIGHTS:
        return None
    sd = float(median_abs_deviation(list(values), scale="normal"))
    floor = FLOOR_RATIO.get(figure, _OTHER_FLOOR_RATIO)
    return Pinned(center=median(values), sd=sd, nights=len(values), floor_ratio=floor)


def trips(value: float, baseline: Pinned) -> bool:
    """Return whether a launch is worse than the baseline allows."""
    return value < baseline.center - baseline.limit_log


def exceeds(value: float, baseline: Pinned) -> bool:
    """Return whether a launch is better than the baseline explains."""
    return value > baseline.center + baseline.limit_log


def regressed(launches: Sequence[float], baseline: Pinned, before: Sequence[float] = ()) -> bool:
    """Return whether a night is believed to have fallen out.

    Args:
        launches: of the night.
        baseline: of the figure.
        before: launches of the night before it, which are asked where the night has one launch only.
    """
    return _agreed([trips(value, baseline) for value in _asked(launches, before)])


def improved(launches: Sequence[float], baseline: Pinned, before: Sequence[float] = ()) -> bool:
    """Return whether a night is believed to be better than the baseline. As ``regressed``."""
    return _agreed([exceeds(value, baseline) for value in _asked(launches, before)])


def _asked(launches: Sequence[float], before: Sequence[float]) -> list[float]:
    return [*launches, *before] if len(launches) == 1 else list(launches)


def _agreed(votes: Sequence[bool]) -> bool:
    return len(votes) > 1 and all(votes)
