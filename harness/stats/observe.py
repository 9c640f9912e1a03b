"""A launch as a search sees it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from harness.records.cell import LoadPoint
from harness.records.launch import LaunchRecord
from harness.records.observation import CellObservation, Observation, SearchCell
from harness.records.summary import CellSummary, TrialMetrics
from harness.records.verdict import AskedLimit
from harness.stats.limits import statistic_of
from harness.stats.paired import Measured
from harness.stats.summary import NOTHING_DRAFTED

_MEASURED = ("measured",)


def observation_of(
    launches: Sequence[LaunchRecord],
    cells: Iterable[CellSummary],
    *,
    limits: Sequence[AskedLimit] = (),
    measured: Mapping[tuple[str, str], Measured] | None = None,
) -> Observation:
    """Return what the boots of one planned launch showed: all but those that were slow and given back.

    One that was interrupted kept the cells that it had measured, and the boot after it measured the others.

    Args:
        launches: its boots, at least one.
        cells: of the run.
        limits: bounds of the sweep.
        measured: trials by launch and load, to judge the limits by; None: they are not judged.
    """
    last = launches[-1]
    counting = {launch.launch_id for launch in launches if launch.outcome != "slow_canary"}
    seen: dict[str, CellObservation] = {}
    places: dict[str, str] = {}  # launch id by load id
    for cell in cells:
        if cell.cell.configuration.configuration_id != last.configuration.configuration_id:
            continue
        for trial in cell.valid_trials:
            k = last.configuration.num_speculative_tokens or 0
            found = cell_of(trial.metrics, k) if trial.launch_id in counting else None
            if found is not None:
                seen[cell.cell.load.load_id], places[cell.cell.load.load_id] = found, trial.launch_id
    booted = last.outcome in _MEASURED or bool(seen)
    return Observation(
        configuration_id=last.configuration.configuration_id,
        booted=booted,
        cells=seen,
        reason=None if booted else last.reason or last.outcome.replace("_", " "),
        slo_excess=_excess(limits, places, measured or {}),
        capture_sizes=(last.boot.capture_sizes if last.boot else None) or (),
    )


def search_cells(
    loads: Iterable[LoadPoint], weights: Mapping[str, float], *, output_tokens: Mapping[str, float] | None = None
) -> tuple[SearchCell, ...]:
    """Return the loads as a search weighs them; without weights every one counts the same."""
    every = list(loads)
    return tuple(
        SearchCell(
            load_id=load.load_id,
            weight=weights.get(load.load_id, 0.0) if weights else 1 / len(every),
            context_tokens=load.context_tokens,
            concurrency=load.concurrency,
            output_tokens=(output_tokens or {}).get(load.load_id, float(load.output.tokens)),
        )
        for load in every
    )


def cell_of(metrics: TrialMetrics, num_speculative_tokens: int = 0) -> CellObservation | None:
    """Return a trial's figures as a search uses them; None where it has no rate or no time to first token.

    Counters of acceptance are per draft. A step brings one token and those that were accepted, so that there were
    ``delivered - accepted`` steps for each draft: all figures here are of steps.
    """
    values = metrics.values
    ttft_s, rate = values.get("ttft_s"), values.get("decode_tokens_per_s")
    if ttft_s is None or not rate or not math.isfinite(rate):
        return None
    survival = metrics.by_position or ()
    if metrics.null_reasons.get("delivered_per_step") == NOTHING_DRAFTED:
        cell = CellObservation(ttft_s=ttft_s, tpot_s=1 / rate, tokens_per_step=1.0)
        return replace(cell, survival=(0.0,) * num_speculative_tokens, drafting_ratio=0.0)
    delivered, accepted = values.get("delivered_per_step"), values.get("acceptance_length")
    tokens = delivered or accepted or 1.0 + sum(survival)
    steps = max(1.0, delivered - (accepted - 1)) if delivered and accepted else 1.0  # for each draft
    return CellObservation(
        ttft_s=ttft_s,
        tpot_s=1 / rate,
        tokens_per_step=tokens / steps,
        survival=tuple(share / steps for share in survival),
        drafting_ratio=1 / steps,
    )


def _excess(
    limits: Sequence[AskedLimit], places: Mapping[str, str], measured: Mapping[tuple[str, str], Measured]
) -> dict[str, float]:
    """By limit, the worst over cells: how far the bound is broken, 0.1 being ten percent; below 0 it is kept."""
    found: dict[str, float] = {}
    for limit in limits:
        for load_id, launch_id in places.items():
            rows = [measured[launch_id, load_id]] if (launch_id, load_id) in measured else []
            value = statistic_of(limit, rows)
            if value is None:
                continue
            over = [value / limit.at_most - 1] if limit.at_most else []
            over += [1 - value / limit.at_least] if limit.at_least else []
            for each in over:
                found[limit.name] = max(each, found.get(limit.name, -1.0))
    return found
