"""A planned search as text: what it may take, and what of its time is kept for the launches that confirm."""

from __future__ import annotations

from harness.records.manifest import SIMULATED_MARK
from harness.records.plan import Plan
from harness.records.tune import PlannedTune
from harness.report.labels import counted
from harness.stats.reserve import kept_s, launch_s, most_confirming, most_searched
from harness.units import format_seconds

_FIRST = 2  # the incumbent and no speculation, whatever time there is


def search_line(plan: Plan, tune: PlannedTune) -> str:
    """Return what is searched, and what that may take."""
    mark = f"{SIMULATED_MARK}: " if plan.simulated else ""
    searched, confirming = most_searched(plan, tune), most_confirming(plan, tune)
    most_s = (searched + confirming) * launch_s(plan)
    return (
        f"{mark}{plan.sweep} on {plan.recipe}: {counted(len(plan.configurations), 'configuration')} to choose from, at "
        f"most {counted(searched, 'launch', 'launches')} of the search and {confirming} that confirm, "
        f"{format_seconds(most_s)} at the most"
    )


def search_lines(plan: Plan, tune: PlannedTune) -> tuple[str, ...]:
    """Return what the time that it has is enough for; nothing where its time has no limit."""
    if tune.time_s is None:
        return ()
    one_s, kept = launch_s(plan), kept_s(plan, tune)
    confirming = counted(most_confirming(plan, tune), "launch that confirms", "launches that confirm")
    budget = format_seconds(tune.time_s)
    room = int((tune.time_s - kept) // one_s)
    if room < _FIRST:
        return (
            f"The budget of {budget} is too short for the first {_FIRST} launches and the {confirming}, which need "
            f"about {format_seconds(_FIRST * one_s + kept)}: raise budget.time, or lower tune.confirm.",
        )
    most = most_searched(plan, tune)
    time = f"all {most} launches of the search" if room >= most else f"{room} of the {most} launches of the search"
    return (f"Of the budget of {budget} about {format_seconds(kept)} are kept for the {confirming}: time for {time}.",)
