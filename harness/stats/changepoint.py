"""When did a series of nights change? Pure.

A change is the split of the nights so far whose two means lie furthest apart by Welch's idea with a common variance
(Student's t), as in the E-divisive means of Hunter (Fleming, Kolaczkowski, Kumar and others, ICPE 2023) with a t-test
in the place of permutations: the same nights always give the same answer. A night that was launched twice counts twice.
Values are logarithms. Whether a change is a step or a drift is asked again every morning (``stats.shape``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

LEAST_NIGHTS = 8
WINDOW_NIGHTS = 60
CHANGE_P = 2e-4  # of a change point; docs/nightly.md shows the false alarms that this leaves
SUSPICION_P = 0.05  # below it a night is worth a second launch
LEAST_RATIO = 0.03  # a smaller change does not matter
LEAST_BEFORE = 5
LEAST_AFTER = 2  # and the last one has to agree: a single slow night that no canary saw is no change
_LEAST_SD = 1e-6  # nights that are equal to the last digit still have some

Vector = NDArray[np.float64]
Shape = Literal["step", "drift"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change among some nights."""

    index: int  # of the first night after it
    log_ratio: float  # after / before; of a drift its last night / before
    low: float  # 95 % interval of it
    high: float
    p: float  # when it was found
    found: int = 0  # the index of the night that told
    shape: Shape = "step"
    per_night: float = 0.0  # of a drift, logarithm

    @property
    def is_certain(self) -> bool:
        """It counts as a change point."""
        return self.p < CHANGE_P and self.matters

    @property
    def is_suspicious(self) -> bool:
        """A second launch in the same night would tell more."""
        return self.p < SUSPICION_P and self.matters

    @property
    def matters(self) -> bool:
        """It is not too small to care."""
        return abs(self.log_ratio) >= math.log1p(LEAST_RATIO)


def likely_change(values: Sequence[float], weights: Sequence[float] | None = None) -> Change | None:
    """Return the most likely change among the last nights; None with too few of them, or where all are equal.

    Args:
        values: logarithms, a night each, oldest first.
        weights: launches of each night; None: one each.
    """
    x, w = _arrays(values, weights)
    if len(x) < LEAST_NIGHTS or not np.ptp(x[-WINDOW_NIGHTS:]):
        return None
    return _change(_scanned(x, w, np.array([len(x)])), 0)


def change_points(values: Sequence[float], weights: Sequence[float] | None = None) -> tuple[Change, ...]:
    """Return the changes that would have been found night by night, each from the nights since the one before it."""
    x, w = _arrays(values, weights)
    found: list[Change] = []
    start = 0
    while (change := _first_certain(x[start:], w[start:])) is not None:
        found.append(_shifted(change, start))
        start += change.index
    return tuple(found)


def contrast(x: Vector, w: Vector, at: int) -> tuple[float, float]:
    """Return the difference between the nights from ``at`` on and those before, and its standard error."""
    before, after = w[:at].sum(), w[at:].sum()
    means = (float(w[:at] @ x[:at] / before), float(w[at:] @ x[at:] / after))
    squares = float(w[:at] @ (x[:at] - means[0]) ** 2 + w[at:] @ (x[at:] - means[1]) ** 2)
    variance = max(squares / (len(x) - 2), _LEAST_SD**2)
    return means[1] - means[0], math.sqrt(variance * float(1 / before + 1 / after))


def half_width(se: float, degrees: int) -> float:
    """Return half of the 95 % interval."""
    return float(special.stdtrit(degrees, 0.975)) * se


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scan:
    """The best split of each of many stretches of nights."""

    end: NDArray[np.int64]
    split: NDArray[np.int64]
    difference: Vector
    se: Vector
    degrees: NDArray[np.int64]
    last_agrees: NDArray[np.bool_]  # the last night lies nearer to the nights after the split than to those before

    @property
    def p(self) -> Vector:
        return np.asarray(2 * special.stdtr(self.degrees, -np.abs(self.difference / self.se)), dtype=np.float64)


def _arrays(values: Sequence[float], weights: Sequence[float] | None) -> tuple[Vector, Vector]:
    x = np.asarray(values, dtype=np.float64)
    return x, np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)


def _first_certain(x: Vector, w: Vector) -> Change | None:
    ends = np.arange(LEAST_NIGHTS, len(x) + 1)
    if not len(ends):
        return None
    scan = _scanned(x, w, ends)
    lasts = (ends - scan.split >= LEAST_AFTER) & scan.last_agrees
    certain = np.flatnonzero(lasts & (scan.p < CHANGE_P) & (np.abs(scan.difference) >= math.log1p(LEAST_RATIO)))
    return _change(scan, int(certain[0])) if len(certain) else None


def _scanned(x: Vector, w: Vector, ends: NDArray[np.int64]) -> _Scan:
    """Look at every split of the nights before each end at once, by cumulative sums."""
    x = x - x.mean()  # sums of squares near 0 lose no digits
    weight, first, second = (np.concatenate([[0.0], np.cumsum(w * x**power)]) for power in range(3))
    start = np.maximum(ends - WINDOW_NIGHTS, 0)[:, None]
    end = ends[:, None]
    split = end - np.arange(1, min(WINDOW_NIGHTS, len(x)) - LEAST_BEFORE + 1)[None, :]
    possible = split - start >= LEAST_BEFORE
    at = np.where(possible, split, start + LEAST_BEFORE)
    before, after = weight[at] - weight[start], weight[end] - weight[at]
    sums = first[at] - first[start], first[end] - first[at]
    difference = sums[1] / after - sums[0] / before
    squares = second[end] - second[start] - sums[0] ** 2 / before - sums[1] ** 2 / after
    degrees = end - start - 2
    variance = np.maximum(squares / degrees, _LEAST_SD**2)
    se = np.sqrt(variance * (1 / before + 1 / after))
    best = np.argmax(np.where(possible, np.abs(difference / se), -1.0), axis=1)
    row = np.arange(len(ends))
    size = difference[row, best]
    middle = sums[0][row, best] / before[row, best] + size / 2
    return _Scan(
        end=ends,
        split=at[row, best],
        difference=size,
        se=se[row, best],
        degrees=degrees[:, 0],
        last_agrees=(x[ends - 1] - middle) * size > 0,
    )


def _change(scan: _Scan, row: int) -> Change:
    difference, se = float(scan.difference[row]), float(scan.se[row])
    half = half_width(se, int(scan.degrees[row]))
    return Change(
        index=int(scan.split[row]),
        log_ratio=difference,
        low=difference - half,
        high=difference + half,
        p=float(scan.p[row]),
        found=int(scan.end[row]) - 1,
    )


def _shifted(change: Change, by: int) -> Change:
    return replace(change, index=change.index + by, found=change.found + by)
