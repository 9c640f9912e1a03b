"""Did a night fall out of the accepted baseline? Pure.

The baseline is pinned: a rolling one follows a regression until it is normal. Its nights give a median and how far
nights lie apart; a launch falls out where it is worse by more than three standard deviations, and by more than a floor
of each figure's own. One launch is not believed: a second one in the same night must fall out too, or, where none could
be made, the night before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy import special

from harness.stats.paired import SECONDS

BASELINE_NIGHTS = 14
LEAST_NIGHTS = 5
DEVIATIONS = 3.0
_WINSORIZED_OF = 7  # one night of so many, at each end
# A rig whose launches hardly differ would alarm at nothing that matters. Step time has the tightest floor whose false
# alarms stay below 2 in 100 series at 2 % noise; tokens per step move with harmless changes of a text, and what that
# costs is in the seconds too. docs/nightly.md has the false alarms of other floors.
FLOOR_RATIO = {SECONDS: 0.05, "delivered_per_step": 0.08, "step_s": 0.045}
_OTHER_FLOOR_RATIO = 0.05
_FOURTEEN_NIGHTS = float(special.stdtr(BASELINE_NIGHTS - 2 * (BASELINE_NIGHTS // _WINSORIZED_OF) - 1, DEVIATIONS))


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
        return max(deviations(self.nights) * self.sd, -math.log1p(-self.floor_ratio))


def pinned(values: Sequence[float], figure: str = SECONDS) -> Pinned | None:
    """Return the baseline of a figure, signed so that higher is better; None with too few nights to know its scatter.

    Args:
        values: logarithms, a night each.
        figure: whose floor is used.
    """
    if len(values) < LEAST_NIGHTS:
        return None
    floor = FLOOR_RATIO.get(figure, _OTHER_FLOOR_RATIO)
    return Pinned(center=median(values), sd=scatter(values), nights=len(values), floor_ratio=floor)


def deviations(nights: int) -> float:
    """Return how many standard deviations are allowed: three, and more where fewer than fourteen nights tell them."""
    return max(DEVIATIONS, float(special.stdtrit(_inner(nights) - 1, _FOURTEEN_NIGHTS)))


def scatter(values: Sequence[float]) -> float:
    """Return the standard deviation of a night, of which some slow or fast ones do not count for what they are.

    The lowest and the highest nights are pulled in to their neighbours, and the deviation that is left is divided by
    the share of nights that were not (Tukey & McLaughlin, Sankhya A 25(3), 1963). The median absolute deviation of
    fourteen nights lies so far off, so often, that a rig of 3.5 % alarms more than twice as much as it does with this
    one (docs/decisions/0010).
    """
    ordered = sorted(values)
    ends = (len(ordered) - _inner(len(ordered))) // 2
    inner = ordered[ends:-ends]
    pulled_in = [*[inner[0]] * ends, *inner, *[inner[-1]] * ends]
    return float(np.std(pulled_in, ddof=1)) * len(ordered) / len(inner)


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


def _inner(nights: int) -> int:
    """How many nights are neither the lowest nor the highest."""
    return nights - 2 * max(1, nights // _WINSORIZED_OF)
