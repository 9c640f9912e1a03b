"""What an A/A says of its rig: how far launches of one configuration lie apart, cell by cell and in all. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from harness.records.noise import CellNoise, StoredNoise
from harness.records.trial import MEASURING_VERSION
from harness.stats.arms import Stored, Wanted, question_of, side_of
from harness.stats.compare import PARTS, Question, Side, complete
from harness.stats.effect import Table, combined_logs, within_sigma_ratio
from harness.stats.noise import of_shape
from harness.stats.paired import SECONDS, paired

LEAST_LAUNCHES = 2


def measured_noise(stored: Stored) -> StoredNoise | None:
    """Return the noise floor that a run of ``ab --same`` measured; None where it is none, or has too few launches."""
    plan = stored.run.plan
    if plan is None or plan.comparison is None or not plan.comparison.same:
        return None
    asked = plan.comparison
    side = side_of(stored, Wanted(name=asked.base_name, configuration_id=asked.base_id))
    loads = {one.trial.cell.load.load_id: one.trial.cell.load for one in side.trials.values()}
    question = question_of(plan, asked, tuple(loads.values()))
    total = _total_sigma(side, question)
    if total is None:
        return None
    records = [launch for launch in stored.run.launches if launch.launch_id in side.arm.launch_ids]
    versions = [launch.live.engine_version for launch in records if launch.live and launch.live.engine_version]
    return StoredNoise(
        at=records[-1].started_at,
        run_id=stored.run.manifest.run_id,
        engine_version=versions[0] if versions else None,
        measuring_version=MEASURING_VERSION,
        configuration_id=asked.base_id,
        configuration=asked.base_name,
        launches=len(side.arm.launch_ids),
        objective=asked.objective,
        total_sigma_ratio=total[0],
        total_degrees=total[1],
        cells=_cells(side, question),
        weights={load.load_id: question.weight(load) for load in question.loads},
    )


def _total_sigma(side: Side, question: Question) -> tuple[float, float] | None:
    whole = complete(side, question)
    count = len(whole.arm.launch_ids)
    if count < LEAST_LAUNCHES:
        return None
    loads = [load for load in question.loads if question.weight(load)]
    tables = [_table(question.objective, whole, question, at) for at in range(len(loads))]
    known = [table for table in tables if table is not None]
    if len(known) < len(loads):
        return None
    logs = combined_logs(known, np.array([question.weight(load) for load in loads]), question.combine)
    return float(logs.std(ddof=1)), float(count - 1)


def _table(metric: str, side: Side, question: Question, at: int) -> Table | None:
    load = [one for one in question.loads if question.weight(one)][at]
    found = paired(metric, load, side.rows(load), side.rows(load))
    return None if isinstance(found, str) else found.base


def _cells(side: Side, question: Question) -> tuple[CellNoise, ...]:
    found = []
    for load in question.loads:
        rows = side.rows(load)
        for metric in dict.fromkeys((question.objective, SECONDS, *PARTS)):
            tables = paired(metric, load, rows, rows)
            if isinstance(tables, str) or len(tables.base) < LEAST_LAUNCHES:
                continue
            sigma = _between(tables.base)
            found.append(
                CellNoise(
                    metric=metric,
                    context_tokens=load.context_tokens,
                    concurrency=load.concurrency,
                    between_sigma_ratio=sigma,
                    within_sigma_ratio=within_sigma_ratio([tables.base]),
                    degrees=float(len(tables.base) - 1),
                )
            )
    return tuple(found)


def _between(table: Table) -> float:
    return math.sqrt(float(table.mean(axis=1).var(ddof=1)))


def noise_rows(noise: StoredNoise, metric: str) -> Sequence[CellNoise]:
    """Return the readings of one figure, one of each kind of load, by concurrency and context."""
    kinds = dict.fromkeys((cell.context_tokens, cell.concurrency) for cell in noise.cells if cell.metric == metric)
    rows = [row for kind in kinds if (row := of_shape(noise, metric, *kind)) is not None]
    return sorted(rows, key=lambda cell: (cell.concurrency, cell.context_tokens))


def sigma_interval(noise: StoredNoise) -> tuple[float, float]:
    """Return the 95 % interval of the standard deviation between launches, over the whole workload (chi-square)."""
    squares = noise.total_sigma_ratio**2 * noise.total_degrees
    low, high = (squares / float(stats.chi2.ppf(share, noise.total_degrees)) for share in (0.975, 0.025))
    return math.sqrt(low), math.sqrt(high)
