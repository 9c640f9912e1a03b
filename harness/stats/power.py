"""What a design can see before it is paid for. Pure."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from harness.records.verdict import NoiseFloor

POWER = 0.8
MOST_LAUNCHES = 60  # of an arm: beyond this nobody waits
_POINTS = 400


def smallest_visible_ratio(
    launches: int, floor: NoiseFloor, *, margin_ratio: float, level: float = 0.05, power: float = POWER
) -> float:
    """Return the least true gain, as a ratio minus 1, that is called better in ``power`` of all comparisons.

    The interval must lie off zero, its width estimated with the degrees of the floor and of both arms, and the estimate
    must reach the margin.
    """
    se = floor.sigma_ratio * math.sqrt(2 / launches)
    if se == 0:
        return margin_ratio  # launches that never differ show everything that matters
    degrees = floor.degrees + 2 * (launches - 1)
    halves = float(stats.t.isf(level / 2, degrees)) * se * _estimated_shares(degrees)
    bars = np.maximum(halves, math.log1p(margin_ratio))

    def lack(effect: float) -> float:
        return float(stats.norm.sf((bars - effect) / se).mean()) - power

    return math.expm1(brentq(lack, 0.0, float(bars.max()) + 4 * se))


def equivalence_power(launches: int, floor: NoiseFloor, *, margin_ratio: float, level: float = 0.10) -> float:
    """Return how often two arms that are the same are called so."""
    se = floor.sigma_ratio * math.sqrt(2 / launches)
    if se == 0:
        return 1.0
    degrees = floor.degrees + 2 * (launches - 1)
    halves = float(stats.t.isf(level / 2, degrees)) * se * _estimated_shares(degrees)
    rooms = np.maximum(0.0, math.log1p(margin_ratio) - halves)
    return float((2 * stats.norm.cdf(rooms / se) - 1).mean())


@lru_cache(maxsize=128)
def _estimated_shares(degrees: float) -> NDArray[np.float64]:
    """What an estimated standard deviation may be of the true one: equally likely values, from chi-square."""
    middles = (np.arange(_POINTS) + 0.5) / _POINTS
    return np.asarray(np.sqrt(stats.chi2.ppf(middles, degrees) / degrees), dtype=np.float64)


def launches_to_see(effect_ratio: float, floor: NoiseFloor, *, margin_ratio: float) -> int | None:
    """Return how many launches of each arm find a gain of ``effect_ratio``; None: more than ``MOST_LAUNCHES``.

    A gain of no more than the margin is found where the margin is set below it: here half of it.
    """
    margin = min(margin_ratio, effect_ratio / 2)
    for launches in range(2, MOST_LAUNCHES + 1):
        if smallest_visible_ratio(launches, floor, margin_ratio=margin) <= effect_ratio:
            return launches
    return None


def launches_for_no_difference(floor: NoiseFloor, *, margin_ratio: float, power: float = POWER) -> int | None:
    """Return how many launches of each arm call two equal arms equal; None: more than ``MOST_LAUNCHES``."""
    for launches in range(2, MOST_LAUNCHES + 1):
        if equivalence_power(launches, floor, margin_ratio=margin_ratio) >= power:
            return launches
    return None
