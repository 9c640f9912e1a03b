"""How many launches a search may come to, and what of its time is kept for those that confirm. Pure."""

from __future__ import annotations

from harness.records.plan import Plan, PlannedLaunch
from harness.records.tune import PlannedTune

_SLACK = 1.1  # launches take longer than predicted now and then, and a slow one is made again


def most_searched(plan: Plan, tune: PlannedTune) -> int:
    """Return how many launches the search makes at the most."""
    return min(tune.max_launches, len(_first_round(plan)))


def most_confirming(plan: Plan, tune: PlannedTune) -> int:
    """Return how many launches confirm at the most: of the incumbent and of each finalist."""
    return (1 + min(tune.confirm_best, len(_first_round(plan)) - 1)) * tune.confirm_launches


def launch_s(plan: Plan) -> float:
    """Return the predicted seconds of a launch with all its cells, on average over the configurations."""
    first = _first_round(plan)
    every = [one.predicted_launch_s + sum(trial.predicted_s for trial in one.trials) for one in first]
    return sum(every) / len(every)


def kept_s(plan: Plan, tune: PlannedTune) -> float:
    """Return the predicted seconds that the search leaves to the launches that confirm."""
    return _SLACK * most_confirming(plan, tune) * launch_s(plan)


def _first_round(plan: Plan) -> list[PlannedLaunch]:
    """Of every configuration one."""
    return [launch for launch in plan.launches if launch.round == 1]
