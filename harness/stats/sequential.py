"""How much of the false-alarm allowance each look at a growing comparison may spend. Pure.

Group-sequential boundaries for looks at equal steps of information (Jennison and Turnbull, Group Sequential Methods,
chapters 2 and 7): what has been spent by a share t of the launches is alpha x t^power (power family), and the critical
values follow from the joint distribution of the looks, integrated numerically (Armitage, McPherson and Rowe 1969).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

EFFECT_SPENDING = 2.0  # large effects are worth an early stop (docs/decisions/0008)
EQUIVALENCE_SPENDING = 5.0  # few launches cannot show that two arms are equal, so nothing is spent on looking early
_GRID_STEP = 0.02
_WIDEST = 9.0


@lru_cache(maxsize=64)
def nominal_levels(looks: int, alpha: float = 0.05, spending: float = EFFECT_SPENDING) -> tuple[float, ...]:
    """Return the two-sided significance level of each look, so that all of them together alarm in ``alpha``.

    Args:
        looks: how many there will be at most, equally spaced.
        alpha: two-sided, of the whole procedure.
        spending: the power of the share of the launches by which it is spent.

    Raises:
        ValueError: no look at all.
    """
    if looks < 1:
        raise ValueError("a comparison needs at least one look")
    shares = np.arange(1, looks + 1) / looks
    spent = alpha * shares**spending
    levels: list[float] = []
    density: tuple[np.ndarray, np.ndarray] | None = None
    for number, increment in enumerate(np.diff(spent, prepend=0.0), start=1):
        critical = _critical(density, float(increment), number)
        levels.append(float(2 * norm.sf(critical)))
        density = _survivors(density, critical, number)
    return tuple(levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Two-sided significance levels of a look: of the interval, and of the one for equivalence."""

    interval: float = 0.05
    equivalence: float = 0.10


def levels_of(launches: int, max_launches: int | None, *, step: int) -> Levels:
    """Return the levels of the look after ``launches`` of each arm, of a comparison that looks after every ``step``.

    Args:
        launches: so far.
        max_launches: at most; None, or not above ``step``: this is the only look.
        step: launches of each arm between looks.
    """
    plain = Levels()
    if max_launches is None or max_launches <= step:
        return plain
    looks = -(-max_launches // step)
    at = min(max(1, launches // step), looks) - 1
    return Levels(
        interval=nominal_levels(looks, plain.interval, EFFECT_SPENDING)[at],
        equivalence=nominal_levels(looks, plain.equivalence, EQUIVALENCE_SPENDING)[at],
    )


# Scores are sums of independent unit normals, one a look: at look k they have variance k, and z = score / sqrt(k).


def _critical(density: tuple[np.ndarray, np.ndarray] | None, increment: float, number: int) -> float:
    if density is None:
        return float(norm.isf(increment / 2))
    scores, weights = density

    def excess(critical: float) -> float:
        bound = critical * np.sqrt(number)
        beyond = norm.sf(bound - scores) + norm.cdf(-bound - scores)
        return float(weights @ beyond) - increment

    return float(brentq(excess, 0.1, _WIDEST))


def _survivors(
    density: tuple[np.ndarray, np.ndarray] | None, critical: float, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores that did not stop at this look, with their probabilities."""
    bound = critical * np.sqrt(number)
    count = int(np.ceil(2 * bound / _GRID_STEP)) | 1
    scores = np.linspace(-bound, bound, count)
    width = scores[1] - scores[0]
    trapezoid = np.full(count, width)
    trapezoid[[0, -1]] /= 2
    if density is None:
        return scores, norm.pdf(scores) * trapezoid
    before, weights = density
    passed = norm.pdf(scores[:, None] - before[None, :]) @ weights
    return scores, passed * trapezoid
