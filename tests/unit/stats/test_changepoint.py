"""Change points: where, how much, and rarely where there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.stats.changepoint import (
    LEAST_BEFORE,
    LEAST_NIGHTS,
    WINDOW_NIGHTS,
    Change,
    change_points,
    contrast,
    likely_change,
)

NIGHT = st.floats(min_value=-0.02, max_value=0.02)
NOISE = st.lists(NIGHT, min_size=LEAST_NIGHTS, max_size=80)
WEIGHED = st.lists(st.tuples(NIGHT, st.sampled_from([1.0, 2.0])), min_size=LEAST_NIGHTS, max_size=80)


def nights(count: int, *, sd: float = 0.01, seed: int = 1) -> list[float]:
    return (sd * np.random.default_rng(seed).standard_normal(count)).tolist()


def one_by_one(values: Sequence[float], weights: Sequence[float]) -> tuple[float, int]:
    """The largest |t| over all splits, and its degrees, without cumulative sums."""
    x, w = np.array(values[-WINDOW_NIGHTS:]), np.array(weights[-WINDOW_NIGHTS:])
    ts = []
    for at in range(LEAST_BEFORE, len(x)):
        difference, se = contrast(x, w, at)
        ts.append(abs(difference) / se)
    return max(ts), len(x) - 2


def test_a_step_is_found_at_its_night_with_its_size() -> None:
    values = [*nights(20), *(value + math.log(0.9) for value in nights(5, seed=2))]

    change = likely_change(values)

    assert change is not None
    assert change.is_certain
    assert change.index == 20
    assert change.found == 24
    assert change.log_ratio == pytest.approx(math.log(0.9), abs=0.02)
    assert change.low < change.log_ratio < change.high < 0


def test_two_steps_are_two_change_points() -> None:
    values = [*nights(20), *(value - 0.1 for value in nights(20, seed=2)), *nights(20, seed=3)]

    found = change_points(values)

    assert [round(change.log_ratio, 1) for change in found] == [-0.1, 0.1]
    assert abs(found[0].index - 20) <= 1
    assert abs(found[1].index - 40) <= 1


def test_a_change_that_does_not_matter_is_no_change_point() -> None:
    values = [*nights(30, sd=0.001), *(value - 0.02 for value in nights(30, sd=0.001, seed=2))]

    assert change_points(values) == ()


def test_one_night_alone_is_no_change_point_but_worth_a_second_launch() -> None:
    values = [*nights(30), -0.3]

    assert change_points(values) == ()
    assert change_points([*values, *nights(20, seed=2)]) == ()
    last = likely_change(values)
    assert last is not None
    assert last.is_suspicious
    assert len(change_points([*values, -0.3])) == 1


def test_nights_without_any_scatter_change_all_the_same() -> None:
    (change,) = change_points([0.1] * 20 + [0.0] * 3)

    assert change.index == 20
    assert change.log_ratio == pytest.approx(-0.1)


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
    assert change_points(values) == ()


@given(WEIGHED)
def test_cumulative_sums_find_what_a_look_at_every_split_finds(given_nights: list[tuple[float, float]]) -> None:
    values, weights = ([night[at] for night in given_nights] for at in range(2))
    change = likely_change(values, weights)
    if change is None:
        assert len(set(values[-WINDOW_NIGHTS:])) == 1
        return
    t, degrees = one_by_one(values, weights)

    assert change.p == pytest.approx(2 * stats.t.sf(t, degrees), rel=1e-3, abs=1e-9)


@given(NOISE, st.floats(min_value=-3, max_value=3))
def test_only_differences_count(values: list[float], level: float) -> None:
    plain, moved = likely_change(values), likely_change([value + level for value in values])

    assert (plain is None) == (moved is None) or len(set(values)) < len(values)
    if plain is not None and moved is not None and plain.p < 0.9 and np.ptp(values) > 1e-4:
        assert moved.p == pytest.approx(plain.p, rel=1e-3, abs=1e-6)


@given(WEIGHED)
def test_better_and_worse_are_treated_alike(given_nights: list[tuple[float, float]]) -> None:
    weights = [weight for _, weight in given_nights]
    up = change_points([value * 3 for value, _ in given_nights], weights)
    down = change_points([-value * 3 for value, _ in given_nights], weights)

    assert [one.index for one in up] == [one.index for one in down]
    assert [one.log_ratio for one in up] == pytest.approx([-one.log_ratio for one in down])


@given(WEIGHED, st.sampled_from([0.5, 2.0, 3.0]))
def test_weights_are_relative(given_nights: list[tuple[float, float]], factor: float) -> None:
    values, weights = ([night[at] for night in given_nights] for at in range(2))
    plain = likely_change(values, weights)
    scaled = likely_change(values, [weight * factor for weight in weights])

    if plain is not None and scaled is not None and np.ptp(values) > 1e-4:
        assert scaled.p == pytest.approx(plain.p, rel=1e-3, abs=1e-6)


@given(NOISE, st.randoms(use_true_random=False))
def test_the_order_of_nights_on_one_side_does_not_matter(values: list[float], random: object) -> None:
    x, w = np.array(values), np.ones(len(values))
    mixed = x.copy()
    np.random.default_rng(len(values)).shuffle(mixed[:LEAST_BEFORE])
    np.random.default_rng(len(values)).shuffle(mixed[LEAST_BEFORE:])

    assert contrast(mixed, w, LEAST_BEFORE) == pytest.approx(contrast(x, w, LEAST_BEFORE))


@given(NOISE)
def test_what_was_found_is_not_unsaid_by_later_nights(values: list[float]) -> None:
    """A morning's change points begin as those of the morning before: what was said stays said."""
    series = [*(value * 2 for value in values), *(value - 0.08 for value in values)]
    found: tuple[Change, ...] = ()
    for end in range(LEAST_NIGHTS, len(series) + 1, 7):
        now = change_points(series[:end])
        assert [one.index for one in now[: len(found)]] == [one.index for one in found]
        found = now


def test_false_alarms_are_rare() -> None:
    rng = np.random.default_rng(11)
    alarms = [len(change_points((0.02 * rng.standard_normal(60)).tolist())) for _ in range(20)]

    assert sum(alarms) <= 3  # 0.04 a series are expected; more than 3 of 20 has a chance below 1 in 1,000
