"""The gate of a night: pinned, robust, and believed only twice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.gate import BASELINE_NIGHTS, LEAST_NIGHTS, pinned, regressed, trips

QUIET = [0.001 * (at % 3 - 1) for at in range(BASELINE_NIGHTS)]


def test_a_quiet_baseline_still_allows_five_percent() -> None:
    baseline = pinned(QUIET)

    assert baseline is not None
    assert not trips(math.log(0.96), baseline)
    assert trips(math.log(0.94), baseline)


def test_a_noisy_baseline_allows_three_deviations() -> None:
    baseline = pinned([0.03 * (-1) ** at for at in range(BASELINE_NIGHTS)])

    assert baseline is not None
    assert baseline.limit_log == pytest.approx(3 * 1.4826 * 0.03, rel=1e-4)
    assert not trips(math.log(0.9), baseline)


def test_one_slow_night_in_the_baseline_does_not_widen_it() -> None:
    calm, shaken = pinned(QUIET), pinned([*QUIET[1:], math.log(1 / 1.5)])

    assert calm is not None
    assert shaken is not None
    assert shaken.limit_log == pytest.approx(calm.limit_log, abs=0.01)


def test_a_night_is_believed_only_if_its_second_launch_agrees() -> None:
    baseline = pinned(QUIET)
    assert baseline is not None

    assert not regressed([math.log(0.8)], baseline)
    assert not regressed([math.log(0.8), 0.0], baseline)
    assert regressed([math.log(0.8), math.log(0.81)], baseline)


@given(st.lists(st.floats(min_value=-1, max_value=1), max_size=LEAST_NIGHTS - 1))
def test_too_few_nights_are_no_baseline(values: list[float]) -> None:
    assert pinned(values) is None
