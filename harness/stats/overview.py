"""What a sweep shows as a whole: which configuration does best over its cells, and what it could not have seen. Pure.

A map, no verdict: verdicts need repeated launches (stats.compare).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median
from typing import TypeVar

from harness.records.cell import Configuration
from harness.records.metrics import METRICS
from harness.records.summary import CellSummary

Key = TypeVar("Key")
ASSUMED_LAUNCH_SIGMA_RATIO = 0.03  # between launches of one configuration, where nothing was repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A configuration against the reference: the geometric mean over cells that both have."""

    configuration: Configuration
    ratio: float | None  # to the reference, above 1 is better for every metric; None: no cell in common
    spread: tuple[float, float] | None  # the same ratio by launch, least and most; None with one launch
    cells: int  # that went in
    cells_missing: int  # that the reference has and this one has not
    launches: int
    is_reference: bool
    by_load: dict[str, float]  # ratio for each load_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Standings, best first; those without a common cell last."""

    metric: str
    reference: Configuration
    standings: tuple[Standing, ...]

    @property
    def best(self) -> Standing | None:
        """The best configuration that has every cell of the reference; None where there is none."""
        return next((s for s in self.standings if s.ratio is not None and not s.cells_missing), None)


def best_by_workload(
    cells: Sequence[CellSummary],
    *,
    incumbent_id: str | None = None,
    metric: str = "decode_tokens_per_s",
    weights: Mapping[str, float] | None = None,
) -> Overview | None:
    """Compare configurations by the mean over cells of the logarithm of one figure.

    Args:
        cells: of one run.
        incumbent_id: configuration_id that ratios are to; else the one without speculation, else the first one.
        metric: a name that has a direction.
        weights: by load_id; loads not named count 1.

    Returns:
        None where no cell has the figure.

    Raises:
        ValueError: the metric has no direction, so nothing is best by it.
    """
    higher = METRICS[metric].higher_is_better
    if higher is None:
        raise ValueError(f"{metric} explains, it does not judge")
    table = _table(cells, metric, sign=1.0 if higher else -1.0)
    if not table:
        return None
    reference = _reference([column.configuration for column in table.values()], incumbent_id)
    base = table[reference.configuration_id]
    standings = [_standing(column, base, weights or {}) for column in table.values()]
    ranked = sorted(standings, key=lambda standing: -math.inf if standing.ratio is None else standing.ratio)
    return Overview(metric=metric, reference=reference, standings=tuple(reversed(ranked)))


def smallest_visible_difference(
    launches: int, *, sigma_ratio: float = ASSUMED_LAUNCH_SIGMA_RATIO, power: float = 0.8
) -> float:
    """Return the least true difference, as a ratio minus 1, that two configurations of this many launches can show.

    Launches vary by ``sigma_ratio`` (standard deviation of the logarithm); with one launch each the trials inside it
    do not help, since all of them share its luck. The difference is seen (95 % interval off zero) with ``power``.
    """
    z = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(power)
    return math.expm1(z * sigma_ratio * math.sqrt(2 / launches))


def launch_sigma_ratio(cells: Sequence[CellSummary], *, metric: str = "decode_tokens_per_s") -> float | None:
    """Return the standard deviation between launches of one configuration, pooled over cells, as a ratio.

    None where no cell has a second launch.
    """
    squares, degrees = 0.0, 0
    for cell in cells:
        logs = list(_log_by_launch(cell, metric).values())
        if len(logs) > 1:
            mean = fmean(logs)
            squares += sum((log - mean) ** 2 for log in logs)
            degrees += len(logs) - 1
    return math.sqrt(squares / degrees) if degrees else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    configuration: Configuration
    cells: dict[str, CellSummary]  # by load_id
    logs: dict[str, float]  # by load_id, oriented: higher is better
    by_launch: dict[str, dict[str, float]]  # by launch_id, then by load_id


def _table(cells: Sequence[CellSummary], metric: str, *, sign: float) -> dict[str, _Column]:
    table: dict[str, _Column] = {}
    for cell in cells:
        value = cell.values[metric]
        if value is None or value <= 0:
            continue
        configuration = cell.cell.configuration
        empty = _Column(configuration=configuration, cells={}, logs={}, by_launch={})
        column = table.setdefault(configuration.configuration_id, empty)
        load_id = cell.cell.load.load_id
        column.cells[load_id] = cell
        column.logs[load_id] = sign * math.log(value)
        for launch_id, log in _log_by_launch(cell, metric).items():
            column.by_launch.setdefault(launch_id, {})[load_id] = sign * log
    return table


def _reference(configurations: Sequence[Configuration], incumbent_id: str | None) -> Configuration:
    named = [one for one in configurations if one.configuration_id == incumbent_id]
    plain = [one for one in configurations if one.num_speculative_tokens == 0]
    return (named or plain or list(configurations))[0]


def _standing(column: _Column, base: _Column, weights: Mapping[str, float]) -> Standing:
    differences = {load: log - base.logs[load] for load, log in column.logs.items() if load in base.logs}
    launches = {trial.launch_id for cell in column.cells.values() for trial in cell.valid_trials}
    is_reference = column is base
    ratio = _weighted_ratio(differences, weights)
    return Standing(
        configuration=column.configuration,
        ratio=ratio,
        spread=_spread(column, base, weights),
        cells=len(differences),
        cells_missing=len(base.logs.keys() - column.logs.keys()),
        launches=len(launches),
        is_reference=is_reference,
        by_load={load: math.exp(difference) for load, difference in differences.items()},
    )


def _spread(column: _Column, base: _Column, weights: Mapping[str, float]) -> tuple[float, float] | None:
    """Each launch of a configuration against the reference's median: what one launch alone would have claimed."""
    ratios = [
        _weighted_ratio({load: log - base.logs[load] for load, log in logs.items() if load in base.logs}, weights)
        for logs in column.by_launch.values()
    ]
    known = [ratio for ratio in ratios if ratio is not None]
    return (min(known), max(known)) if len(known) > 1 else None


def _weighted_ratio(differences: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    total = sum(weights.get(load, 1.0) for load in differences)
    if not total:
        return None
    return math.exp(sum(weights.get(load, 1.0) * log for load, log in differences.items()) / total)


def _log_by_launch(cell: CellSummary, metric: str) -> dict[str, float]:
    return _logs((trial.launch_id, trial.metrics.values[metric]) for trial in cell.valid_trials)


def _logs(pairs: Iterable[tuple[Key, float | None]]) -> dict[Key, float]:
    values: dict[Key, list[float]] = {}
    for key, value in pairs:
        if value is not None and value > 0:
            values.setdefault(key, []).append(value)
    return {key: math.log(median(of)) for key, of in values.items()}
