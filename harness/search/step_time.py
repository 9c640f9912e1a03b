"""What a step costs at a depth that was never launched: a straight line in the tokens of the step. Pure.

Bayesian linear regression with weak priors. A step of c streams at depth k costs

    T / T_reference = A(cell) + (B0 + B1 log2 c) (n - n_reference) / c - [k = 0] O + u(launch) + rest

with n = c (k + 1) tokens, or that number rounded up to the next captured CUDA graph: both are fitted, and the one that
explains the launches better is used. ``u`` is how slow a launch happened to be as a whole: a curve through several
launches is less noisy than any of them. O is what a drafter costs at any depth.
Where only some steps had a draft, the mean of such steps and of those at k = 0 is meant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.records.observation import Candidate, SearchCell
from harness.search.graphs import Graphs

LAUNCH_SD = 0.03
_REST_SD = 0.03  # of one cell in one launch
_CELL_SD = 0.05
_SLOPE, _SLOPE_SD = 0.045, 0.03  # for each further token of a stream, of the step at the reference depth
_SLOPE_BY_DOUBLING_SD = 0.015
_DRAFTER, _DRAFTER_SD = 0.08, 0.08
_VERIFYING_SHARE = 0.5  # of what a further drafted token costs; the rest is drafting it

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSample:
    """The step time of one cell in one launch."""

    launch: int
    candidate: Candidate
    cell: SearchCell
    step_s: float
    drafting_ratio: float = 1.0


class StepModel:
    """Step times of every depth in every cell that was measured at least once."""

    def __init__(self, samples: Sequence[StepSample], *, reference: Candidate, graphs: Graphs | None = None) -> None:
        """Fit the samples.

        Args:
            samples: of all launches.
            reference: a candidate that speculates, and that was launched.
            graphs: what their boot logs say of them.
        """
        self._reference, self._graphs = reference, graphs or Graphs({})
        self._cells = list(dict.fromkeys(sample.cell.load_id for sample in samples))
        self._at = {load_id: at for at, load_id in enumerate(self._cells)}
        self._launches = max((sample.launch for sample in samples), default=-1) + 1
        self._scales = _scales(samples, reference)
        usable = [sample for sample in samples if sample.cell.load_id in self._scales]
        plain = self._fit(usable, padded=False)
        # Without the widths of its graphs a step can only be told by its tokens.
        known = all(self._graphs.knows(one.candidate) for one in usable if one.candidate.num_speculative_tokens)
        padded = self._fit(usable, padded=True) if known else plain
        self._padded = padded.evidence > plain.evidence
        self._mean = padded.mean if self._padded else plain.mean

    @property
    def padded(self) -> bool:
        """Whether steps cost what their CUDA graph costs, rather than what their tokens do."""
        return self._padded

    def step_s(
        self, candidate: Candidate, cell: SearchCell, *, verified: float | None = None, drafting_ratio: float = 1.0
    ) -> float | None:
        """Return the expected step time; None where the cell was never measured.

        Args:
            candidate: the configuration.
            cell: the load.
            verified: drafted tokens that are verified, where a threshold cuts some; those are drafted all the same.
            drafting_ratio: share of the steps that have a draft; the others cost what they do without speculation.
        """
        if cell.load_id not in self._scales:
            return None
        row = self._row(candidate, cell, drafting_ratio, padded=self._padded)
        if verified is not None and verified < candidate.num_speculative_tokens:
            spared = drafting_ratio * _VERIFYING_SHARE * (candidate.num_speculative_tokens - verified)
            row[len(self._cells)] -= spared
            row[len(self._cells) + 1] -= spared * math.log2(cell.concurrency)
        return self._scales[cell.load_id] * max(0.05, float(row @ self._mean))

    def _fit(self, samples: Sequence[StepSample], *, padded: bool) -> _Fit:
        rows = np.array([self._row(one.candidate, one.cell, one.drafting_ratio, padded=padded) for one in samples])
        rows[np.arange(len(rows)), [len(self._cells) + 3 + one.launch for one in samples]] = 1.0
        targets = np.array([one.step_s / self._scales[one.cell.load_id] for one in samples])
        return _posterior(rows, targets, self._prior())

    def _prior(self) -> tuple[Vector, Vector]:
        cells = len(self._cells)
        mean = np.array([1.0] * cells + [_SLOPE, 0.0, _DRAFTER] + [0.0] * self._launches)
        sd = [_CELL_SD] * cells + [_SLOPE_SD, _SLOPE_BY_DOUBLING_SD, _DRAFTER_SD] + [LAUNCH_SD] * self._launches
        return mean, np.array(sd)

    def _row(self, candidate: Candidate, cell: SearchCell, drafting_ratio: float, *, padded: bool) -> Vector:
        """What the terms count in the mean of steps with a draft and steps without one."""
        ratio = drafting_ratio if candidate.num_speculative_tokens else 0.0
        tokens = ratio * self._tokens(candidate, cell, padded) + (1.0 - ratio) * cell.concurrency
        more = (tokens - self._tokens(self._reference, cell, padded)) / cell.concurrency
        row = np.zeros(len(self._cells) + 3 + self._launches)
        row[self._at[cell.load_id]] = 1.0
        row[len(self._cells)] = more
        row[len(self._cells) + 1] = more * math.log2(cell.concurrency)
        row[len(self._cells) + 2] = ratio - 1.0
        return row

    def _tokens(self, candidate: Candidate, cell: SearchCell, padded: bool) -> int:
        tokens = cell.concurrency * (candidate.num_speculative_tokens + 1)
        return self._graphs.width(candidate, tokens) if padded and candidate.num_speculative_tokens else tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    mean: Vector
    evidence: float  # logarithm of the marginal likelihood


def _posterior(rows: Vector, targets: Vector, prior: tuple[Vector, Vector]) -> _Fit:
    mean, sd = prior
    spread = rows * sd**2
    covariance = spread @ rows.T + _REST_SD**2 * np.eye(len(rows))
    lack = targets - rows @ mean
    factor = np.linalg.cholesky(covariance)
    solved = np.linalg.solve(factor.T, np.linalg.solve(factor, lack))
    evidence = -0.5 * float(lack @ solved) - float(np.log(np.diag(factor)).sum())
    return _Fit(mean=mean + spread.T @ solved, evidence=evidence)


def _scales(samples: Sequence[StepSample], reference: Candidate) -> Mapping[str, float]:
    """The step of each cell at the reference depth, else at any: only the order of magnitude matters."""
    scales: dict[str, float] = {}
    for sample in samples:
        scales.setdefault(sample.cell.load_id, sample.step_s)
    for sample in samples:
        if sample.candidate.configuration_id == reference.configuration_id:
            scales[sample.cell.load_id] = sample.step_s
    return scales
