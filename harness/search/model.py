"""Every candidate's expected value, with how sure that is: a physical model, corrected by what was measured. Pure.

The mean of a candidate is what acceptance curves and step times promise (acceptance, step_time). What launches show
beyond that is a Gaussian process over knobs: a part for each knob, a part for depths beyond the drafter's block, and a
part for nothing in particular. A value is the logarithm of a gain: 0.05 is about five percent better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.records.cell import KnobValue
from harness.records.observation import Candidate, CellObservation, Observation, SearchCell
from harness.search.acceptance import Curve, nearest_curve
from harness.search.correction import UNKNOWN_SD, Evidence, corrected, prior_mean
from harness.search.graphs import Graphs
from harness.search.space import Space
from harness.search.step_time import LAUNCH_SD, StepModel, StepSample

_DEPTH = "num_speculative_tokens"
_MODEL_SD = 0.02  # of what curves and step times say of a candidate that was launched, before any was
_MODEL_SD_LAUNCHES = 4.0  # that this expectation weighs as much as


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What is expected of a candidate."""

    mean: float  # logarithm of the gain over the reference
    sd: float
    launches: int


def beliefs(space: Space, observations: Sequence[Observation]) -> dict[str, Belief]:
    """Return what is expected of every candidate, by configuration id, from the launches so far.

    Values are relative to the reference, and less certain where nothing like a candidate was launched.
    """
    booted = [one for one in observations if one.booted and one.cells]
    if not booted:
        return {one.configuration_id: Belief(mean=0.0, sd=UNKNOWN_SD, launches=0) for one in space.candidates}
    model = _Physics(space, booted)
    means = {one.configuration_id: model.prior_value(one) for one in space.candidates}
    rows, variance = _evidence(space, booted, model)
    posterior = corrected(space, rows, means, unexplained=variance - _MODEL_SD**2)
    base = posterior[space.reference_id][0]
    counts = {name: sum(one.configuration_id == name for one in booted) for name in means}
    return {name: Belief(mean=mean - base, sd=sd, launches=counts[name]) for name, (mean, sd) in posterior.items()}


def value_of(
    cells: Sequence[SearchCell], observed: Mapping[str, CellObservation], objective: str = "seconds"
) -> float | None:
    """Return the logarithm of what is to be maximised; None where a cell that counts is missing.

    Args:
        cells: of the workload.
        observed: by load id.
        objective: ``seconds``: minus the weighted total of the user's seconds; ``decode_tokens_per_s`` and ``ttft_s``:
            the weighted mean of the logarithms, signed so that higher is better.
    """
    total, logs = 0.0, 0.0
    for cell in cells:
        if not cell.weight:
            continue
        seen = observed.get(cell.load_id)
        if seen is None:
            return None
        total += cell.weight * (seen.ttft_s + max(0.0, cell.output_tokens - 1) * seen.tpot_s)
        logs -= cell.weight * math.log(seen.ttft_s if objective == "ttft_s" else seen.tpot_s)
    if total <= 0:
        return None
    return -math.log(total) if objective == "seconds" else logs


def _evidence(space: Space, booted: Sequence[Observation], model: _Physics) -> tuple[list[Evidence], float]:
    """Launches of one configuration together: their mean, and what its own curves with smoothed step times say.

    The two are weighed by how sure they are. The model is the less so, the more launches were unlike it: its variance
    is the second of what is returned.
    """
    found = []
    for name in dict.fromkeys(one.configuration_id for one in booted):
        own = [one for one in booted if one.configuration_id == name]
        values = [value for one in own if (value := model.completed_value(one)) is not None]
        if values:
            smooth = model.value(space.candidate(name), own_curves=True)
            found.append((name, float(np.mean(values)), smooth, LAUNCH_SD**2 / len(values)))
    modelled = _model_variance([(measured - smooth, noise) for _, measured, smooth, noise in found])
    rows = [
        Evidence(
            candidate=space.candidate(name),
            value=(modelled * measured + noise * smooth) / (modelled + noise),
            variance=modelled * noise / (modelled + noise),
        )
        for name, measured, smooth, noise in found
    ]
    return rows, modelled


def _model_variance(lacks: Sequence[tuple[float, float]]) -> float:
    """How far the model is off, from what it does not explain of launches, each with the variance of its luck."""
    unexplained = max(0.0, sum(lack**2 - noise for lack, noise in lacks))
    return (_MODEL_SD_LAUNCHES * _MODEL_SD**2 + unexplained) / (_MODEL_SD_LAUNCHES + len(lacks))


class _Physics:
    """Curves and step times of what was launched, and what they promise of any candidate."""

    def __init__(self, space: Space, booted: Sequence[Observation]) -> None:
        self._space = space
        self._booted = booted
        self._cells = {cell.load_id: cell for cell in space.cells}
        self._reference = self._speculating_reference()
        self._known_curves: dict[tuple[str, frozenset[tuple[str, KnobValue]]], list[Curve]] = {}
        self._ttft_s = {cell.load_id: self._mean_ttft_s(cell.load_id) for cell in space.cells}
        graphs = Graphs({one.configuration_id: one.capture_sizes for one in booted})
        self._steps = StepModel(self._samples(), reference=self._reference or space.candidates[0], graphs=graphs)

    def prior_value(self, candidate: Candidate) -> float:
        """What the model says before the correction; nothing while no launch speculated."""
        return self.value(candidate) + prior_mean(candidate, self._space) if self._reference is not None else 0.0

    def value(self, candidate: Candidate, *, own_curves: bool = False) -> float:
        """Minus the logarithm of the weighted seconds that the model expects."""
        known = self._modelled(candidate, own_curves=own_curves)
        value = value_of([cell for cell in self._space.cells if cell.load_id in known], known, self._space.objective)
        return 0.0 if value is None else value

    def completed_value(self, one: Observation) -> float | None:
        """The value of a launch; cells that it left out are those of the model, as slow or fast as the launch was."""
        candidate = self._space.candidate(one.configuration_id)
        modelled = self._modelled(candidate, own_curves=True)
        both = [(one.cells[name], seen) for name, seen in modelled.items() if name in one.cells]
        shifts = [math.log(measured.tpot_s / seen.tpot_s) for measured, seen in both]
        shift = math.exp(float(np.mean(shifts))) if shifts else 1.0
        filled = {name: replace(seen, tpot_s=seen.tpot_s * shift) for name, seen in modelled.items()}
        return value_of(self._space.cells, filled | one.cells, self._space.objective)

    def _modelled(self, candidate: Candidate, *, own_curves: bool) -> dict[str, CellObservation]:
        counting = [cell for cell in self._space.cells if cell.weight]
        cells = ((cell.load_id, self._cell(candidate, cell, own_curves=own_curves)) for cell in counting)
        return {name: seen for name, seen in cells if seen is not None}

    def _cell(self, candidate: Candidate, cell: SearchCell, *, own_curves: bool) -> CellObservation | None:
        ttft_s = self._ttft_s[cell.load_id]
        expected = self._expected(candidate, cell)
        own = self._own(candidate, cell) if own_curves else []
        ratio = float(np.mean([one.drafting_ratio for one in own])) if own else expected.drafting_ratio
        step_s = self._steps.step_s(
            candidate,
            cell,
            verified=len(expected.survival) if candidate.confidence_threshold else None,
            drafting_ratio=ratio,
        )
        if step_s is None or ttft_s is None:
            return None
        tokens = float(np.mean([one.tokens_per_step for one in own])) if own else 1.0 + sum(expected.survival)
        return CellObservation(ttft_s=ttft_s, tpot_s=step_s / tokens, tokens_per_step=tokens)

    def _own(self, candidate: Candidate, cell: SearchCell) -> list[CellObservation]:
        own = [one for one in self._booted if one.configuration_id == candidate.configuration_id]
        return [one.cells[cell.load_id] for one in own if cell.load_id in one.cells]

    def _expected(self, candidate: Candidate, cell: SearchCell) -> Curve:
        """What other launches promise at the depth of the candidate."""
        k = candidate.num_speculative_tokens
        found = nearest_curve(self._curves(cell.load_id, candidate), k, block_tokens=self._space.block_tokens)
        if not k or found is None:
            return Curve(k=k, survival=())
        return replace(found, k=k, survival=found.at(k, threshold=candidate.confidence_threshold))

    def _curves(self, load_id: str, candidate: Candidate) -> list[Curve]:
        """Of every launch: those of the candidate's own kind first, then those of the reference's, then the others."""
        key = (load_id, frozenset(pair for pair in candidate.knobs.items() if pair[0] != _DEPTH))
        if key not in self._known_curves:
            self._known_curves[key] = self._read_curves(load_id, candidate)
        return self._known_curves[key]

    def _read_curves(self, load_id: str, candidate: Candidate) -> list[Curve]:
        kinds = [candidate, *([self._reference] if self._reference else [])]
        return [
            Curve(
                k=self._k(one),
                survival=one.cells[load_id].survival,
                drafting_ratio=one.cells[load_id].drafting_ratio,
                kinship=self._kinship(one, kinds),
            )
            for one in self._booted
            if load_id in one.cells and one.cells[load_id].survival
        ]

    def _kinship(self, one: Observation, kinds: Sequence[Candidate]) -> int:
        launched = self._space.candidate(one.configuration_id)
        alike = (at for at, kind in enumerate(kinds) if _differs_in_depth_alone(launched, kind))
        return next(alike, len(kinds))

    def _k(self, one: Observation) -> int:
        return self._space.candidate(one.configuration_id).num_speculative_tokens

    def _speculating_reference(self) -> Candidate | None:
        launched = [self._space.candidate(one.configuration_id) for one in self._booted]
        speculating = [one for one in launched if one.num_speculative_tokens]
        named = [one for one in speculating if one.configuration_id == self._space.reference_id]
        return next(iter(named or speculating), None)

    def _mean_ttft_s(self, load_id: str) -> float | None:
        seen = [math.log(one.cells[load_id].ttft_s) for one in self._booted if load_id in one.cells]
        return math.exp(float(np.mean(seen))) if seen else None

    def _samples(self) -> list[StepSample]:
        return [
            StepSample(
                launch=number,
                candidate=self._space.candidate(one.configuration_id),
                cell=self._cells[load_id],
                step_s=seen.step_s,
                drafting_ratio=seen.drafting_ratio,
            )
            for number, one in enumerate(self._booted)
            for load_id, seen in one.cells.items()
            if load_id in self._cells
        ]


def _differs_in_depth_alone(one: Candidate, other: Candidate) -> bool:
    left = {name: value for name, value in one.knobs.items() if name != _DEPTH}
    return left == {name: value for name, value in other.knobs.items() if name != _DEPTH}
