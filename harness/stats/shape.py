"""Did the nights jump or drift? Asked again every morning, as evidence grows. Pure.

The nights around a change are explained in two ways that cost the same: two levels, or one level and a line that leaves
it at some night. The one that leaves the smaller squares is what is said, and of nearly equal ones the drift. A drift
that goes on is found as several steps; these are one drift where a single line explains them better than the steps do,
each of which costs two parameters more (Schwarz's criterion).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from harness.stats.changepoint import LEAST_BEFORE, LEAST_RATIO, WINDOW_NIGHTS, Change, Vector, contrast, half_width

_LEAST_DRIFT_NIGHTS = 10  # a line through fewer is a step as well
_FAVOUR = 3.0  # to a drift, in twice the logarithm of a likelihood: on night 20 either is as often called the other
_LEAST_SQUARES = 1e-18
_LEAST_LOG = math.log1p(LEAST_RATIO) / 2


def described(
    found: Sequence[Change], values: Sequence[float], weights: Sequence[float] | None = None, *, start: int = 0
) -> tuple[Change, ...]:
    """Return changes with their size and shape by all nights that there are now.

    Steps of one drift become one change. A change that the nights since then shrank to less than half of what matters
    is withdrawn: it was chance, or is over.

    Args:
        found: by ``changepoint.change_points``.
        values: of the same nights.
        weights: of the same nights.
        start: nights before this one are of another level.
    """
    x = np.asarray(values, dtype=np.float64)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    kept = list(found)
    while kept:
        said = _described(kept, x, w, start)
        gone = [change for change in said if abs(change.log_ratio) < _LEAST_LOG]
        if not gone:
            return said
        kept = [change for change in kept if not any(change.found == one.found for one in gone)]
    return ()


def _described(found: Sequence[Change], x: Vector, w: Vector, start: int) -> tuple[Change, ...]:
    runs = _runs(found)
    ends = [run[0].index for run in runs[1:]] + [len(x)]
    said: list[Change] = []
    for run, end in zip(runs, ends, strict=True):
        said += _run_described(run, x, w, (max(start, run[0].index - WINDOW_NIGHTS), end))
        start = run[-1].index
    return tuple(said)


def _runs(found: Sequence[Change]) -> list[list[Change]]:
    """Changes in the same direction, one after the other."""
    runs: list[list[Change]] = []
    for change in found:
        if runs and runs[-1][-1].log_ratio * change.log_ratio > 0:
            runs[-1].append(change)
        else:
            runs.append([change])
    return runs


def _run_described(run: Sequence[Change], x: Vector, w: Vector, span: tuple[int, int]) -> list[Change]:
    start, end = span
    part, weight = x[start:end], w[start:end]
    bounds = [0, *(change.index - start for change in run), end - start]
    line = _best_hinge(part, weight)
    if line is not None and line.slope * run[0].log_ratio > 0 and _line_is_better(line, part, weight, bounds):
        return [_drift(run[0], line, part, weight, start)]
    return [
        _step(change, x, w, (start + one, start + three))
        for change, (one, _), (_, three) in zip(run, pairwise(bounds[:-1]), pairwise(bounds[1:]), strict=True)
    ]


def _line_is_better(line: _Hinge, x: Vector, w: Vector, bounds: Sequence[int]) -> bool:
    n, steps = len(x), len(bounds) - 2
    squares = _squares_of_levels(x, w, bounds) if steps > 1 else _squares_of_best_step(x, w)
    cost = _FAVOUR + 2 * (steps - 1) * math.log(n)
    ratio = max(line.squares, _LEAST_SQUARES) / max(squares, _LEAST_SQUARES)
    return n * math.log(ratio) < cost


def _squares_of_levels(x: Vector, w: Vector, bounds: Sequence[int]) -> float:
    total = 0.0
    for one, two in pairwise(bounds):
        level = float(w[one:two] @ x[one:two] / w[one:two].sum())
        total += float(w[one:two] @ (x[one:two] - level) ** 2)
    return total


def _squares_of_best_step(x: Vector, w: Vector) -> float:
    return min(_squares_of_levels(x, w, (0, at, len(x))) for at in range(min(LEAST_BEFORE, len(x) - 1), len(x)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hinge:
    """A level up to a night, and a line from there on."""

    at: int
    slope: float
    squares: float
    spread: float  # weighted squares of the ramp about its mean


def _best_hinge(x: Vector, w: Vector) -> _Hinge | None:
    """All nights at which a line could begin at once, by weighted least squares."""
    starts = np.arange(len(x) - _LEAST_DRIFT_NIGHTS)
    if not len(starts):
        return None
    ramp = np.maximum(np.arange(len(x), dtype=np.float64)[None, :] - starts[:, None], 0.0)
    ramp -= (ramp @ w / w.sum())[:, None]
    rest = x - w @ x / w.sum()
    spread = ramp**2 @ w
    slope = ramp @ (w * rest) / spread
    squares = float(w @ rest**2) - slope**2 * spread
    best = int(np.argmin(squares))
    return _Hinge(at=best, slope=float(slope[best]), squares=float(squares[best]), spread=float(spread[best]))


def _drift(first: Change, line: _Hinge, x: Vector, w: Vector, start: int) -> Change:
    nights = len(x) - 1 - line.at
    se = math.sqrt(max(line.squares, _LEAST_SQUARES) / (len(x) - 2) / line.spread)
    size, half = line.slope * nights, half_width(se, len(x) - 2) * nights
    return replace(
        first,
        index=start + line.at + 1,
        log_ratio=size,
        low=size - half,
        high=size + half,
        shape="drift",
        per_night=line.slope,
    )


def _step(change: Change, x: Vector, w: Vector, span: tuple[int, int]) -> Change:
    """Its size by all nights up to the next change; its night as it was found."""
    start, end = span
    part, weight = x[start:end], w[start:end]
    difference, se = contrast(part, weight, change.index - start)
    half = half_width(se, len(part) - 2)
    return replace(change, log_ratio=difference, low=difference - half, high=difference + half)
