"""What a configuration costs its user: seconds of the weighted mix of cells. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.records.cell import Configuration
from harness.records.summary import CellSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSeconds:
    """The objective of one configuration, or why there is none."""

    configuration: Configuration
    seconds: float | None
    null_reason: str | None = None


def cell_seconds(summary: CellSummary) -> float | None:
    """Return what one request of a cell takes: time to first token, then decode at the measured rate."""
    ttft_s, rate, tokens = (summary.values.get(name) for name in ("ttft_s", "decode_tokens_per_s", "output_tokens"))
    if ttft_s is None or not rate or tokens is None:
        return None
    return ttft_s + max(0.0, tokens - 1) / rate


def workload_seconds(cells: Sequence[CellSummary], weights: Mapping[str, float]) -> tuple[WorkloadSeconds, ...]:
    """Return the sum over cells of weight times seconds of a request, for each configuration, the least first.

    A configuration that lacks a cell with a weight has none: its sum would be over less work than that of the others.

    Args:
        cells: of one run.
        weights: by load id, 1 in all; empty: every cell counts the same.
    """
    loads = dict.fromkeys(summary.cell.load.load_id for summary in cells)
    shares = weights or {load_id: 1 / len(loads) for load_id in loads}
    configurations = {one.cell.configuration.configuration_id: one.cell.configuration for one in cells}
    measured: dict[str, dict[str, float]] = {name: {} for name in configurations}
    for summary in cells:
        seconds = cell_seconds(summary)
        if seconds is not None:
            measured[summary.cell.configuration.configuration_id][summary.cell.load.load_id] = seconds
    found = [_total(configuration, measured[name], shares) for name, configuration in configurations.items()]
    return tuple(sorted(found, key=lambda one: (one.seconds is None, one.seconds or 0.0)))


def _total(configuration: Configuration, seconds: Mapping[str, float], shares: Mapping[str, float]) -> WorkloadSeconds:
    missing = [load_id for load_id, share in shares.items() if share and load_id not in seconds]
    if missing:
        reason = f"{len(missing)} of {len(shares)} cells have no time to first token, rate or length"
        return WorkloadSeconds(configuration=configuration, seconds=None, null_reason=reason)
    total = sum(share * seconds[load_id] for load_id, share in shares.items() if share)
    return WorkloadSeconds(configuration=configuration, seconds=total)


def workload_document(cells: Sequence[CellSummary], weights: Mapping[str, float]) -> dict[str, object]:
    """Return weights and objective as one JSON object."""
    loads = {summary.cell.load.load_id: summary.cell.load for summary in cells}
    return {
        "weighted": bool(weights),
        "weights": [
            {"weight": weights.get(load_id, 0.0) if weights else 1 / len(loads), **load.columns}
            for load_id, load in loads.items()
        ],
        "workload_seconds": [
            {
                "configuration": one.configuration.label,
                "configuration_id": one.configuration.configuration_id,
                "workload_seconds": one.seconds,
                "null_reason": one.null_reason,
            }
            for one in workload_seconds(cells, weights)
        ],
    }
