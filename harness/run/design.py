"""What a plan can show with its launches, by the rig's stored noise floor or by the assumption. Pure."""

from __future__ import annotations

from collections import Counter

from harness.records.cell import LoadPoint
from harness.records.design import Design, DesignRow
from harness.records.plan import Plan
from harness.records.verdict import NoiseFloor
from harness.stats.compare import BLOCK_LAUNCHES
from harness.stats.noise import NoiseBook, assumed_floor
from harness.stats.paired import SECONDS
from harness.stats.power import launches_for_no_difference, launches_to_see, smallest_visible_ratio
from harness.stats.sequential import levels_of


def design_of(plan: Plan, book: NoiseBook) -> Design | None:
    """Return what a plan can show; None where nothing is launched more than once by its nature, or nothing at all."""
    launches = _launches(plan)
    if plan.attached or plan.nightly or not launches:  # a night is judged by other nights
        return None
    objective = plan.comparison.objective if plan.comparison else SECONDS
    rows = [_row(plan, book.of_total(objective, _shares(plan)) or assumed_floor(), launches, None)]
    for load in _shapes(plan):
        floor = book.of_cell(load, objective)
        if floor is not None:
            rows.append(_row(plan, floor, launches, load))
    return Design(rows=tuple(rows), round_s=_round_s(plan), objective=objective, margin_ratio=plan.margin_ratio)


def _row(plan: Plan, floor: NoiseFloor, launches: int, load: LoadPoint | None) -> DesignRow:
    sequential = plan.comparison is not None and plan.comparison.sequential
    level = levels_of(launches, launches if sequential else None, step=BLOCK_LAUNCHES).interval
    margin = plan.margin_ratio
    seen = smallest_visible_ratio(launches, floor, margin_ratio=margin, level=level) if launches > 1 else None
    return DesignRow(
        context_tokens=load.context_tokens if load else None,
        concurrency=load.concurrency if load else None,
        floor=floor,
        launches=launches,
        smallest_visible_ratio=seen,
        launches_for_3_percent=launches_to_see(0.03, floor, margin_ratio=margin),
        launches_for_5_percent=launches_to_see(0.05, floor, margin_ratio=margin),
        launches_for_no_difference=launches_for_no_difference(floor, margin_ratio=margin),
    )


def _shares(plan: Plan) -> dict[LoadPoint, float]:
    loads = {trial.load.load_id: trial.load for launch in plan.launches for trial in launch.trials}
    every = 1 / len(loads) if loads else 0.0
    return {load: plan.weights.get(load_id, 0.0) if plan.weights else every for load_id, load in loads.items()}


def _launches(plan: Plan) -> int:
    """Of the configuration that is launched least; half of them in an A/A."""
    counts = Counter(launch.configuration.configuration_id for launch in plan.launches if launch.fits_budget)
    least = min(counts.values(), default=0)
    return least // 2 if plan.comparison and plan.comparison.same else least


def _shapes(plan: Plan) -> list[LoadPoint]:
    loads = {
        (trial.load.concurrency, trial.load.context_tokens): trial.load
        for launch in plan.launches
        for trial in launch.trials
    }
    return [loads[shape] for shape in sorted(loads)]


def _round_s(plan: Plan) -> float:
    """Of two configurations, as a comparison has: the mean over those of the plan, twice."""
    seconds = {
        launch.configuration.configuration_id: launch.predicted_launch_s
        + sum(trial.predicted_s for trial in launch.trials)
        for launch in plan.launches
    }
    return 2 * sum(seconds.values()) / len(seconds)
