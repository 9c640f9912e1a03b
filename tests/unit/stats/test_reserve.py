"""What of a search's time is kept for the launches that confirm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.records.plan import Plan, PlannedLaunch
from harness.records.tune import PlannedTune
from harness.stats.reserve import kept_s, launch_s, most_confirming, most_searched
from tests.unit.stats.tune_build import NAMES, TUNE

HOUR_S = 3600.0


def planned() -> tuple[Plan, PlannedTune]:
    """A plan of three configurations, a launch of each an hour."""
    launches = tuple(
        PlannedLaunch(
            launch_key=f"{round_number}{at}",
            ordinal=1 + at,
            round=round_number,
            configuration=one,
            trials=(),
            predicted_launch_s=HOUR_S,
        )
        for round_number in (1, 2)
        for at, one in enumerate(NAMES.values())
    )
    return Plan(sweep="small", recipe="tiny", seed=1, launches=launches, tune=TUNE), TUNE


def test_launches_are_counted_as_far_as_there_are_configurations() -> None:
    plan, tune = planned()
    assert (most_searched(plan, tune), most_confirming(plan, tune)) == (3, 9)
    alone = replace(plan, launches=tuple(one for one in plan.launches if one.configuration.name != "six"))
    assert most_confirming(alone, tune) == 6
    assert most_searched(plan, replace(tune, max_launches=2)) == 2


def test_a_tenth_more_than_predicted_is_kept() -> None:
    plan, tune = planned()
    assert launch_s(plan) == HOUR_S
    assert kept_s(plan, tune) == pytest.approx(1.1 * 9 * HOUR_S)
