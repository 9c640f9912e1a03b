"""The remaining time follows how the finished part really went."""

from __future__ import annotations

import pytest

from harness.run.pace import Pace
from harness.run.plan import make_plan
from tests.unit.run.test_plan import request


def test_the_first_estimate_is_the_plans() -> None:
    plan = make_plan(request())
    started = Pace(plan).started("run", launches=len(plan.launches))
    assert started.predicted_s == pytest.approx(plan.predicted_s)
    assert (started.trials, started.done_trials) == (24, 0)


def test_a_run_twice_as_slow_as_predicted_is_predicted_to_stay_so() -> None:
    plan = make_plan(request(rounds=1))
    pace = Pace(plan)
    now_s = 100.0
    first = plan.launches[0]
    pace.launch_begins(now_s, first)
    remaining_s = 0.0
    for number, trial in enumerate(first.trials):
        now_s += 2 * (trial.predicted_s + (first.predicted_launch_s if number == 0 else 0))
        remaining_s = pace.trial_done(now_s, trial.trial_id)
    assert remaining_s == pytest.approx(2 * sum(launch.predicted_s for launch in plan.launches[1:]))
    assert pace.done_trials == len(first.trials)


def test_nothing_remains_after_the_last_trial() -> None:
    plan = make_plan(request(rounds=1))
    pace = Pace(plan)
    remaining_s = None
    for launch in plan.launches:
        pace.launch_begins(0.0, launch)
        for trial in launch.trials:
            remaining_s = pace.trial_done(1.0, trial.trial_id)
    assert remaining_s == 0
