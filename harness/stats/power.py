"""What a design can see before it is paid for. Pure."""

from __future__ import annotations

import math

from scipy import stats
from scipy.optimize import brentq

from harness.records.verdict import NoiseFloor

POWER = 0.8
MOST_LAUNCHES = 60  # of an arm: beyond this nobody waits
_WIDEST_LOG = 3.0


def smallest_visible_ratio(
    launches: int, floor: NoiseFloor, *, margin_ratio: float, level: float = 0.05, power: float = POWER
) -> float:
    """Return the least true gain, as a ratio minus 1, that is called better in ``power`` of all comparisons.

    The interval must lie off zero (noncentral t with the degrees of the floor and of both arms) and the estimate must
    reach the margin.
    """
    se = floor.sigma_ratio * math.sqrt(2 / launches)
    if se == 0:
        return margin_ratio  # launches that never differ show everything that matters
    degrees = floor.degrees + 2 * (launches - 1)
    critical = max(float(stats.t.isf(level / 2, degrees)), math.log1p(margin_ratio) / se)

    def lack(effect: float) -> float:
        return float(stats.nct.sf(critical, degrees, effect / se)) - power

    return math.expm1(brentq(lack, 0.0, max(_WIDEST_LOG, 4 * critical * se)))


def equivalence_power(launches: int, floor: NoiseFloor, *, margin_ratio: float, level: float = 0.10) -> float:
    """Return how often two arms that are the same are called so."""
    se = floor.sigma_ratio * math.sqrt(2 / launches)
    if se == 0:
        return 1.0
    degrees = floor.degrees + 2 * (launches - 1)
    room = math.log1p(margin_ratio) / se - float(stats.t.isf(level / 2, degrees))
    return max(0.0, 2 * float(stats.norm.cdf(room)) - 1)


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
