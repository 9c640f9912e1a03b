"""What launches show beyond the model: a Gaussian process over knobs, with a part for each of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.records.observation import Candidate
from harness.search.space import Space

Vector = NDArray[np.float64]
UNKNOWN_SD = 0.1  # of a configuration before anything is known
_DEPTH_SD, _DEPTH_LENGTH = 0.015, 2.0
# A block drafter may fall apart beyond its block: much is possible there, and little of it good.
_BEYOND_MEAN, _BEYOND_SD, _BEYOND_HOPE_SD = -0.03, 0.15, 0.05
_UNSEEN_DEPTH_SD = 0.05  # where no block is known, of depths beyond the reference
_KNOB_SD, _KNOB_LENGTH = 0.025, 0.35  # of another knob; the length is of its range, where it is a number
_DRAFTERS = frozenset({"method", "draft_model", "support_model"})  # knobs that say who drafts
_DRAFTER_SD = 0.3  # of another drafter nothing is known before its launch
_OTHER_MEAN = -0.005  # of a knob that is not as in the reference: defaults were chosen by somebody
_OWN_SD = 0.01
_DEPTH = "num_speculative_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the launches of one configuration say of its value."""

    candidate: Candidate
    value: float
    variance: float


def prior_mean(one: Candidate, space: Space) -> float:
    """Return what is added to the model's value before anything like a candidate was launched."""
    reference = space.candidate(space.reference_id)
    changed = sum(value != reference.knobs.get(name) for name, value in one.knobs.items() if name != _DEPTH)
    beyond = _BEYOND_MEAN if space.block_tokens is not None and space.is_beyond(one) else 0.0
    return beyond + _OTHER_MEAN * changed


def corrected(
    space: Space, rows: Sequence[Evidence], means: Mapping[str, float], *, unexplained: float = 0.0
) -> dict[str, tuple[float, float]]:
    """Return posterior mean and standard deviation of every candidate.

    Args:
        space: what is searched.
        rows: of what was launched.
        means: of the model, by configuration id.
        unexplained: variance of what launches show that neither the model nor their luck explains.
    """
    own = max(_OWN_SD**2, unexplained)
    every = _Features(space, space.candidates, own)
    launched = _Features(space, [row.candidate for row in rows], own)
    lack = np.array([row.value - means[row.candidate.configuration_id] for row in rows])
    offset = float(lack.mean())
    covariance = launched.covariance(launched) + np.diag([row.variance + 1e-10 for row in rows])
    across = every.covariance(launched)
    factor = np.linalg.cholesky(covariance)
    solved = np.linalg.solve(factor.T, np.linalg.solve(factor, lack - offset))
    spread = np.linalg.solve(factor, across.T)
    variances = every.variances() - (spread**2).sum(axis=0)
    if space.block_tokens is not None and not launched.beyond.any():
        # Nothing is known of what lies beyond the block: the chance of a collapse is no hope.
        variances -= every.beyond * (_BEYOND_SD**2 - _BEYOND_HOPE_SD**2)
    found = across @ solved + offset
    return {
        one.configuration_id: (means[one.configuration_id] + float(mean), math.sqrt(max(float(variance), 1e-8)))
        for one, mean, variance in zip(space.candidates, found, variances, strict=True)
    }


class _Features:
    """Candidates as columns of numbers."""

    def __init__(self, space: Space, candidates: Sequence[Candidate], own_variance: float) -> None:
        self._own_variance = own_variance  # of nothing in particular
        self._beyond_sd = _UNSEEN_DEPTH_SD if space.block_tokens is None else _BEYOND_SD
        self._ids = np.array([one.configuration_id for one in candidates])
        self._depths = np.array([one.num_speculative_tokens for one in candidates], dtype=float)
        self.beyond = np.array([space.is_beyond(one) for one in candidates], dtype=bool)
        self._knobs = {name: _column(candidates, name, space) for name in _varying(space)}

    def variances(self) -> Vector:
        """Before anything was launched."""
        speculating = self._depths > 0
        knobs = sum(_sd(name) ** 2 for name in self._knobs)
        own = _DEPTH_SD**2 + knobs + self._own_variance + self._beyond_sd**2 * self.beyond
        return np.where(speculating, own, UNKNOWN_SD**2)

    def covariance(self, other: _Features) -> Vector:
        """Of each of these with each of the others."""
        apart = (self._depths[:, None] - other._depths[None, :]) / _DEPTH_LENGTH
        total = _DEPTH_SD**2 * np.exp(-0.5 * apart**2)
        total = total + self._beyond_sd**2 * (self.beyond[:, None] & other.beyond[None, :])
        for name, column in self._knobs.items():
            away = column[:, None] - other._knobs[name][None, :]
            total = total + _sd(name) ** 2 * np.exp(-0.5 * (away / _KNOB_LENGTH) ** 2)
        both = (self._depths[:, None] > 0) & (other._depths[None, :] > 0)
        same = self._ids[:, None] == other._ids[None, :]
        return np.where(same, self.variances()[:, None], np.where(both, total, 0.0))


def _sd(knob: str) -> float:
    return _DRAFTER_SD if knob in _DRAFTERS else _KNOB_SD


_FAR = 100.0  # between two values that are no numbers


def _column(candidates: Sequence[Candidate], name: str, space: Space) -> Vector:
    """A knob in parts of its range; what is no number lies far from every other value."""
    values = _values(space, name)
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == len(values):
        width = float(max(numbers) - min(numbers)) or 1.0
        return np.array([float(one.knobs.get(name, min(numbers))) / width for one in candidates])
    codes = {value: _FAR * at for at, value in enumerate(sorted(map(str, values)))}
    return np.array([codes.get(str(one.knobs.get(name)), -_FAR) for one in candidates])


def _varying(space: Space) -> list[str]:
    """Knobs besides the depth that have more than one value."""
    names = {name for one in space.candidates for name in one.knobs if name != _DEPTH}
    return [name for name in sorted(names) if len(_values(space, name)) > 1]


def _values(space: Space, name: str) -> set[object]:
    return {one.knobs[name] for one in space.candidates if name in one.knobs}
