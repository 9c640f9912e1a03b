"""When did a series of nights change, by how much, and did it jump or drift? Pure.

A change is the split of the nights so far whose two means lie furthest apart by Welch's idea with a common variance
(Student's t), as in the E-divisive means of Hunter (Fleming, Kolaczkowski, Kumar and others, ICPE 2023) with a t-test
in the place of permutations: the same nights always give the same answer. A night that was launched twice counts twice.
Values are logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEAST_NIGHTS = 8
WINDOW_NIGHTS = 60
CHANGE_P = 2e-4  # of a change point; docs/nightly.md shows the false alarms that this leaves
SUSPICION_P = 0.05  # below it a night is worth a second launch
LEAST_RATIO = 0.03  # a smaller change does not matter
_LEAST_BEFORE = 5
_LEAST_DRIFT_NIGHTS = 6  # a line through fewer is a step as well

Vector = NDArray[np.float64]
Shape = Literal["step", "drift"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The most likely change among some nights."""

    index: int  # of the first night after it
    log_ratio: float  # after / before
    low: float  # 95 % interval of it
    high: float
    p: float
    shape: Shape
    per_night: float  # of a drift, logarithm; 0 for a step

    @property
    def is_certain(self) -> bool:
        """It counts as a change point."""
        return self.p < CHANGE_P and abs(self.log_ratio) >= math.log1p(LEAST_RATIO)

    @property
    def is_suspicious(self) -> bool:
        """A second launch in the same night would tell more."""
        return self.p < SUSPICION_P and abs(self.log_ratio) >= math.log1p(LEAST_RATIO)


def likely_change(values: Sequence[float], weights: Sequence[float] | None = None) -> Change | None:
    """Return the most likely change among the last nights; None with too few of them, or without any scatter.

    Args:
        values: logarithms, a night each, oldest first.
        weights: launches of each night; None: one each.
    """
    skipped = max(0, len(values) - WINDOW_NIGHTS)
    x = np.asarray(values[skipped:], dtype=float)
    w = np.ones(len(x)) if weights is None else np.asarray(weights[skipped:], dtype=float)
    if len(x) < LEAST_NIGHTS:
        return None
    split = max(range(_LEAST_BEFORE, len(x)), key=lambda at: abs(_contrast(x, w, at)[0]))
    t, difference, se = _contrast(x, w, split)
    if not math.isfinite(t):
        return None
    degrees = len(x) - 2
    half = float(stats.t.isf(0.025, degrees)) * se
    shape, slope = _shape(x, w, split)
    return Change(
        index=skipped + split,
        log_ratio=difference,
        low=difference - half,
        high=difference + half,
        p=float(2 * stats.t.sf(abs(t), degrees)),
        shape=shape,
        per_night=slope,
    )


def change_points(values: Sequence[float], weights: Sequence[float] | None = None) -> tuple[Change, ...]:
    """Return the changes that would have been found night by night, each from the nights since the one before it."""
    counted = [1.0] * len(values) if weights is None else list(weights)
    found: list[Change] = []
    start = 0
    for end in range(LEAST_NIGHTS, len(values) + 1):
        change = likely_change(values[start:end], counted[start:end])
        if change is not None and change.is_certain:
            found.append(_shifted(change, start))
            start += change.index
    return tuple(found)


def _contrast(x: Vector, w: Vector, at: int) -> tuple[float, float, float]:
    """Student's t between the nights before and from ``at`` on, their difference, and its standard error."""
    before, after = w[:at].sum(), w[at:].sum()
    means = (float(w[:at] @ x[:at] / before), float(w[at:] @ x[at:] / after))
    squares = float(w[:at] @ (x[:at] - means[0]) ** 2 + w[at:] @ (x[at:] - means[1]) ** 2)
    se = math.sqrt(squares / (len(x) - 2) * (1 / before + 1 / after))
    difference = means[1] - means[0]
    return (difference / se if se > 0 else math.inf), difference, se


def _shape(x: Vector, w: Vector, split: int) -> tuple[Shape, float]:
    """A drift is a line that begins to fall at some night and explains the nights better than any step."""
    step = _squares_of_step(x, w, split)
    hinges = [(_squares_of_hinge(x, w, at), at) for at in range(len(x) - _LEAST_DRIFT_NIGHTS)]
    best, at = min(hinges, default=(math.inf, 0))
    if best >= step:
        return "step", 0.0
    return "drift", _hinge(x, w, at)[1]


def _squares_of_step(x: Vector, w: Vector, at: int) -> float:
    t, _, se = _contrast(x, w, at)
    return se**2 * (len(x) - 2) / (1 / w[:at].sum() + 1 / w[at:].sum()) if math.isfinite(t) else 0.0


def _squares_of_hinge(x: Vector, w: Vector, at: int) -> float:
    level, slope = _hinge(x, w, at)
    rest = x - level - slope * _ramp(len(x), at)
    return float(w @ rest**2)


def _hinge(x: Vector, w: Vector, at: int) -> tuple[float, float]:
    """Level before ``at`` and slope from there on, by weighted least squares."""
    ramp = _ramp(len(x), at)
    mean_ramp, mean = float(w @ ramp / w.sum()), float(w @ x / w.sum())
    spread = float(w @ (ramp - mean_ramp) ** 2)
    slope = float(w @ ((ramp - mean_ramp) * (x - mean))) / spread if spread else 0.0
    return mean - slope * mean_ramp, slope


def _ramp(length: int, at: int) -> Vector:
    return np.asarray(np.maximum(np.arange(length, dtype=float) - at, 0.0), dtype=np.float64)


def _shifted(change: Change, by: int) -> Change:
    return Change(
        index=change.index + by,
        log_ratio=change.log_ratio,
        low=change.low,
        high=change.high,
        p=change.p,
        shape=change.shape,
        per_night=change.per_night,
    )
