"""Step or drift: said by all nights that there are now, and unsaid where they speak against it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.changepoint import Change, change_points
from harness.stats.shape import described


def nights(count: int, *, sd: float = 0.01, seed: int = 1) -> list[float]:
    return (sd * np.random.default_rng(seed).standard_normal(count)).tolist()


def said(values: list[float]) -> tuple[Change, ...]:
    return described(change_points(values), values)


def test_a_drift_is_one_change_however_often_it_was_found() -> None:
    values = [value - 0.006 * max(0, at - 20) for at, value in enumerate(nights(60))]

    assert len(change_points(values)) > 1
    (change,) = said(values)
    assert change.shape == "drift"
    assert change.per_night == pytest.approx(-0.006, abs=0.001)
    assert change.log_ratio == pytest.approx(-0.006 * 39, abs=0.03)
    assert change.low < -0.006 * 39 < change.high
    assert abs(change.index - 21) <= 3


def test_a_step_stays_a_step_and_its_interval_narrows() -> None:
    values = [*nights(30), *(value - 0.05 for value in nights(40, seed=2))]

    young, old = said(values[:34]), said(values)

    assert [change.shape for change in (*young, *old)] == ["step", "step"]
    assert old[0].index == young[0].index
    assert old[0].high - old[0].low < young[0].high - young[0].low
    assert old[0].low < -0.05 < old[0].high


def test_two_steps_in_one_direction_stay_two() -> None:
    values = [
        *nights(30),
        *(value - 0.1 for value in nights(30, seed=2)),
        *(value - 0.2 for value in nights(30, seed=3)),
    ]

    assert [(change.shape, round(change.log_ratio, 1)) for change in said(values)] == [("step", -0.1), ("step", -0.1)]


def test_a_drift_and_a_later_step_back_are_two_changes() -> None:
    values = [value - 0.006 * max(0, at - 20) for at, value in enumerate(nights(50))] + nights(15, seed=5)

    first, second = said(values)

    assert (first.shape, second.shape) == ("drift", "step")
    assert first.log_ratio < 0 < second.log_ratio


def test_what_later_nights_do_not_bear_out_is_withdrawn() -> None:
    values = [*nights(20), *(value - 0.05 for value in nights(4, seed=2)), *nights(60, seed=3)]
    early = said(values[:24])

    assert len(early) == 1
    assert [change for change in said(values) if change.log_ratio < 0 and abs(change.log_ratio) < 0.015] == []


def test_a_line_that_begins_on_the_first_night_is_a_drift() -> None:
    values = [value - 0.004 * at for at, value in enumerate(nights(40, sd=0.005))]

    (change,) = said(values)

    assert change.shape == "drift"
    assert change.per_night == pytest.approx(-0.004, abs=0.001)


def test_nothing_found_is_nothing_said() -> None:
    assert described((), nights(30)) == ()


@given(st.integers(min_value=1, max_value=40), st.sampled_from(["step", "drift"]))
def test_better_and_worse_have_the_same_shape(seed: int, kind: str) -> None:
    ramp = [0.004 * max(0, at - 25) if kind == "drift" else 0.07 * (at >= 25) for at in range(50)]
    noise = nights(50, sd=0.015, seed=seed)
    up = said([value + each for value, each in zip(noise, ramp, strict=True)])
    down = said([-value - each for value, each in zip(noise, ramp, strict=True)])

    assert [one.shape for one in up] == [one.shape for one in down]
    assert [one.log_ratio for one in up] == pytest.approx([-one.log_ratio for one in down])


def test_steps_and_drifts_are_mostly_called_what_they_are() -> None:
    right = {"step": 0, "drift": 0}
    for seed in range(40):
        noise = nights(70, sd=0.02, seed=seed)
        step = said([value + math.log(0.93) * (at >= 45) for at, value in enumerate(noise)])
        drift = said([value + math.log(0.997) * max(0, at - 44) for at, value in enumerate(noise)])
        right["step"] += any(one.shape == "step" and one.log_ratio < 0 for one in step)
        right["drift"] += any(one.shape == "drift" and one.log_ratio < 0 for one in drift)

    assert right["step"] >= 36
    assert right["drift"] >= 30
