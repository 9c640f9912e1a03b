"""Change points: where, how much, jump or drift, and rarely where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.changepoint import LEAST_NIGHTS, change_points, likely_change
from harness.stats.shape import described

NOISE = st.lists(st.floats(min_value=-0.02, max_value=0.02), min_size=LEAST_NIGHTS, max_size=40)


def nights(count: int, *, sd: float = 0.01, seed: int = 1) -> list[float]:
    return (sd * np.random.default_rng(seed).standard_normal(count)).tolist()


def test_a_step_is_found_at_its_night_with_its_size() -> None:
    values = [*nights(20), *(value + math.log(0.9) for value in nights(5, seed=2))]

    change = likely_change(values)

    assert change is not None
    assert change.is_certain
    assert change.index == 20
    assert change.log_ratio == pytest.approx(math.log(0.9), abs=0.02)
    assert change.low < change.log_ratio < change.high < 0
    assert change.shape == "step"


def test_a_drift_is_told_from_a_step() -> None:
    values = [value - 0.006 * max(0, at - 20) for at, value in enumerate(nights(45))]

    (change,) = described(change_points(values), values)

    assert change.shape == "drift"
    assert change.per_night == pytest.approx(-0.006, abs=0.002)


def test_two_steps_are_two_change_points() -> None:
    values = [*nights(20), *(value - 0.1 for value in nights(20, seed=2)), *nights(20, seed=3)]

    found = change_points(values)

    assert [round(change.log_ratio, 1) for change in found] == [-0.1, 0.1]
    assert abs(found[0].index - 20) <= 1
    assert abs(found[1].index - 40) <= 1


def test_a_change_that_does_not_matter_is_no_change_point() -> None:
    values = [*nights(30, sd=0.001), *(value - 0.02 for value in nights(30, sd=0.001, seed=2))]

    assert change_points(values) == ()


def test_a_night_that_was_launched_twice_counts_twice() -> None:
    values = [*nights(20), -0.05]

    once = likely_change(values)
    twice = likely_change(values, [*[1.0] * 20, 2.0])

    assert once is not None
    assert twice is not None
    assert twice.p < once.p


@pytest.mark.parametrize("values", [[], [0.1] * (LEAST_NIGHTS - 1), [0.1] * 20])
def test_nothing_is_said_of_few_nights_or_of_equal_ones(values: list[float]) -> None:
    assert likely_change(values) is None


@given(NOISE, st.floats(min_value=-3, max_value=3))
def test_only_differences_count(values: list[float], level: float) -> None:
    plain, moved = likely_change(values), likely_change([value + level for value in values])

    assert (plain is None) == (moved is None) or len(set(values)) < len(values)
    if plain is not None and moved is not None and plain.p < 0.9:
        assert moved.p == pytest.approx(plain.p, rel=1e-3, abs=1e-6)


def test_false_alarms_are_rare() -> None:
    rng = np.random.default_rng(11)
    alarms = [len(change_points((0.02 * rng.standard_normal(60)).tolist())) for _ in range(20)]

    assert sum(alarms) <= 3  # 0.04 a series are expected; more than 3 of 20 has a chance below 1 in 1,000
