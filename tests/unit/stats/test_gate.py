"""The gate of a night: pinned, robust, and believed only twice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.gate import (
    BASELINE_NIGHTS,
    DEVIATIONS,
    FLOOR_RATIO,
    LEAST_NIGHTS,
    deviations,
    exceeds,
    improved,
    pinned,
    regressed,
    scatter,
    trips,
)

QUIET = [0.001 * (at % 3 - 1) for at in range(BASELINE_NIGHTS)]
VALUES = st.lists(st.floats(min_value=-1, max_value=1), min_size=LEAST_NIGHTS, max_size=40)
LAUNCHES = st.lists(st.floats(min_value=-2, max_value=2), min_size=1, max_size=3)


@pytest.mark.parametrize("figure", FLOOR_RATIO)
def test_a_quiet_baseline_still_allows_the_floor_of_its_figure(figure: str) -> None:
    baseline = pinned(QUIET, figure)

    assert baseline is not None
    assert not trips(math.log(1 - FLOOR_RATIO[figure] + 0.005), baseline)
    assert trips(math.log(1 - FLOOR_RATIO[figure] - 0.005), baseline)


def test_step_time_is_held_tightly_and_tokens_per_step_loosely() -> None:
    assert FLOOR_RATIO["step_s"] < FLOOR_RATIO["seconds"] < FLOOR_RATIO["delivered_per_step"]


def test_a_noisy_baseline_allows_three_deviations() -> None:
    baseline = pinned([0.03 * (-1) ** at for at in range(BASELINE_NIGHTS)])

    assert baseline is not None
    assert baseline.limit_log == pytest.approx(DEVIATIONS * 0.03, rel=0.5)
    assert not trips(math.log(0.92), baseline)


def test_slow_nights_in_the_baseline_do_not_widen_it_much() -> None:
    calm = pinned(QUIET)
    shaken = pinned([*QUIET[2:], math.log(1 / 1.5), math.log(1 / 1.4)])

    assert calm is not None
    assert shaken is not None
    assert shaken.limit_log == pytest.approx(calm.limit_log, abs=0.01)
    assert shaken.center == pytest.approx(calm.center, abs=0.002)


def test_the_scatter_is_that_of_the_normal_law() -> None:
    rng = np.random.default_rng(3)
    found = [scatter((0.02 * rng.standard_normal(BASELINE_NIGHTS)).tolist()) for _ in range(400)]

    assert sum(found) / len(found) == pytest.approx(0.02, rel=0.05)


def test_fewer_nights_allow_more() -> None:
    allowed = [deviations(nights) for nights in range(LEAST_NIGHTS, 30)]

    assert allowed == sorted(allowed, reverse=True)
    assert deviations(BASELINE_NIGHTS) == pytest.approx(DEVIATIONS)
    assert deviations(7) > 4


def test_a_night_is_believed_only_if_its_second_launch_agrees() -> None:
    baseline = pinned(QUIET)
    assert baseline is not None

    assert not regressed([math.log(0.8)], baseline)
    assert not regressed([math.log(0.8), 0.0], baseline)
    assert regressed([math.log(0.8), math.log(0.81)], baseline)


def test_one_launch_is_believed_only_if_the_night_before_agrees() -> None:
    baseline = pinned(QUIET)
    assert baseline is not None

    assert regressed([math.log(0.8)], baseline, before=[math.log(0.8)])
    assert not regressed([math.log(0.8)], baseline, before=[math.log(0.8), 0.0])
    assert not regressed([math.log(0.8), 0.0], baseline, before=[math.log(0.8)])


@given(st.lists(st.floats(min_value=-1, max_value=1), max_size=LEAST_NIGHTS - 1))
def test_too_few_nights_are_no_baseline(values: list[float]) -> None:
    assert pinned(values) is None


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_nights_does_not_matter(values: list[float], random: object) -> None:
    mixed = np.random.default_rng(len(values)).permutation(values).tolist()
    one, two = pinned(values), pinned(mixed)

    assert one is not None
    assert two is not None
    assert (two.center, two.sd) == pytest.approx((one.center, one.sd))


@given(VALUES, LAUNCHES)
def test_better_and_worse_are_treated_alike(values: list[float], launches: list[float]) -> None:
    plain, mirrored = pinned(values), pinned([-value for value in values])
    assert plain is not None
    assert mirrored is not None
    limits = plain.center - plain.limit_log, plain.center + plain.limit_log
    if any(math.isclose(value, limit, abs_tol=1e-9) for value in launches for limit in limits):
        return

    opposite = [-value for value in launches]
    assert regressed(launches, plain) == improved(opposite, mirrored)
    assert [trips(one, plain) for one in launches] == [exceeds(one, mirrored) for one in opposite]
