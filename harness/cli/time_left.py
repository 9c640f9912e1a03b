"""Whether the time that a sweep has is enough for anything."""

from __future__ import annotations

from harness.cli.loading import PlanOptions
from harness.errors import InputError
from harness.run.setup import PlannedSweep
from harness.units import format_seconds


def require_room(planned: PlannedSweep, options: PlanOptions) -> None:
    """Refuse a sweep of which no launch fits into its time, before there is a run of it. Raises InputError."""
    todo = [launch for launch in planned.plan.launches if not launch.done]
    limit_s = planned.budget.time_s
    if limit_s is None or not todo or any(launch.fits_budget for launch in todo):
        return
    finish_by = options.finish_by or planned.sweep.file.budget.finish_by
    left = f"{format_seconds(limit_s)} are left" + (f" until {finish_by}" if finish_by else "")
    if finish_by and options.keep_s:
        left += f" without the {format_seconds(options.keep_s)} that giving the server back may take"
    needed_s = min(launch.predicted_s for launch in todo)
    raise InputError(
        f"no launch fits: {left}, and the shortest needs about {format_seconds(needed_s)}",
        where="--finish-by" if options.finish_by else f"{planned.sweep.name}: budget",
        hint="Name a later time with --finish-by, a longer budget, or measure fewer cells: harness plan "
        f"{options.file} says how long each launch takes. Nothing was touched.",
    )
