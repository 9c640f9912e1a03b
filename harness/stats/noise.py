"""The rig's noise floor: out of an A/A, and into a verdict. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.records.cell import LoadPoint
from harness.records.noise import CellNoise, StoredNoise
from harness.records.verdict import NoiseFloor
from harness.stats.effect import ASSUMED_DEGREES, ASSUMED_SIGMA_RATIO

_LARGEST_SIGMA = 9.0


def assumed_floor() -> NoiseFloor:
    """Return what is assumed where nobody measured: 3 % between launches."""
    return NoiseFloor(sigma_ratio=ASSUMED_SIGMA_RATIO, degrees=ASSUMED_DEGREES, source="assumed")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseBook:
    """Stored noise that holds for what is compared: this rig, this engine, this way of measuring."""

    entries: tuple[StoredNoise, ...] = ()

    def of_total(self, objective: str, weights: Mapping[LoadPoint, float]) -> NoiseFloor | None:
        """Return the floor of a weighted workload; None: nothing is stored that covers it.

        Args:
            objective: what the workload is judged by.
            weights: of its loads, 1 in all.
        """
        known = [_of_workload(entry, objective, weights) for entry in self.entries]
        return _pooled([one for one in known if one is not None])

    def of_cell(self, load: LoadPoint, metric: str) -> NoiseFloor | None:
        """Return the floor of a load: of its context length and concurrency, whatever the text; None: not stored."""
        shape = (load.context_tokens, load.concurrency)
        found = [(of_shape(entry, metric, *shape), entry.at) for entry in self.entries]
        return _pooled([(cell.between_sigma_ratio, cell.degrees, at) for cell, at in found if cell is not None])


def usable_noise(
    stored: Iterable[StoredNoise], *, engine_version: str | None, measuring_version: int
) -> tuple[StoredNoise, ...]:
    """Return what holds for this engine; with an unknown version (before a launch) what was measured last."""
    fits = [entry for entry in stored if entry.measuring_version == measuring_version and _is_sound(entry)]
    version = engine_version if engine_version is not None else (fits[-1].engine_version if fits else None)
    return tuple(entry for entry in fits if entry.engine_version == version)


def _is_sound(entry: StoredNoise) -> bool:
    """Whether nobody has edited nonsense into it: a noise of 9 is a rig whose launches differ by a factor of 8,000."""
    readings = [(entry.total_sigma_ratio, entry.total_degrees)]
    readings += [(cell.between_sigma_ratio, cell.degrees) for cell in entry.cells]
    return all(0 <= sigma < _LARGEST_SIGMA and degrees > 0 for sigma, degrees in readings)


def _of_workload(
    entry: StoredNoise, objective: str, weights: Mapping[LoadPoint, float]
) -> tuple[float, float, str] | None:
    """Sigma, degrees and date of a workload, as one entry tells them.

    Of the very workload that was measured, its total. Of another one a bound: the standard deviation of a weighted mean
    is at most the weighted mean of the standard deviations, which is what launches that are slow throughout make it.
    """
    if entry.objective == objective and _is_same_workload(entry, weights):
        return entry.total_sigma_ratio, entry.total_degrees, entry.at
    counted = {load: weight for load, weight in weights.items() if weight}
    shapes = {load: of_shape(entry, objective, load.context_tokens, load.concurrency) for load in counted}
    known = {load: shape for load, shape in shapes.items() if shape is not None}
    if not counted or len(known) < len(counted):
        return None
    sigma = sum(counted[load] * shape.between_sigma_ratio for load, shape in known.items()) / sum(counted.values())
    return sigma, min(shape.degrees for shape in known.values()), entry.at


def _is_same_workload(entry: StoredNoise, weights: Mapping[LoadPoint, float]) -> bool:
    asked = {load.load_id: weight for load, weight in weights.items() if weight}
    stored = {load_id: weight for load_id, weight in entry.weights.items() if weight}
    return asked.keys() == stored.keys() and all(math.isclose(asked[one], stored[one]) for one in asked)


def of_shape(entry: StoredNoise, metric: str, context_tokens: int, concurrency: int) -> CellNoise | None:
    """Return one reading of a kind of load: several texts of it share its launches, so they add no degrees of freedom.

    None: it has not been measured.
    """
    asked = (metric, context_tokens, concurrency)
    same = [cell for cell in entry.cells if (cell.metric, cell.context_tokens, cell.concurrency) == asked]
    if not same:
        return None
    variance = sum(cell.between_sigma_ratio**2 for cell in same) / len(same)
    within = [cell.within_sigma_ratio for cell in same if cell.within_sigma_ratio is not None]
    return CellNoise(
        metric=metric,
        context_tokens=context_tokens,
        concurrency=concurrency,
        between_sigma_ratio=math.sqrt(variance),
        within_sigma_ratio=math.sqrt(sum(one**2 for one in within) / len(within)) if within else None,
        degrees=min(cell.degrees for cell in same),
    )


def _pooled(known: Sequence[tuple[float, float, str]]) -> NoiseFloor | None:
    degrees = sum(each for _, each, _ in known)
    if degrees <= 0:
        return None
    variance = sum(sigma**2 * each for sigma, each, _ in known) / degrees
    newest = max(at for _, _, at in known)
    return NoiseFloor(sigma_ratio=math.sqrt(variance), degrees=degrees, source="stored", measured_at=newest)
