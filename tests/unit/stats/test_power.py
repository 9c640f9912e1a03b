"""What a design can see: against simulated comparisons, and where there is no noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from harness.records.verdict import NoiseFloor
from harness.stats.power import (
    equivalence_power,
    launches_for_no_difference,
    launches_to_see,
    smallest_visible_ratio,
)

TWO_PERCENT = NoiseFloor(sigma_ratio=0.02, degrees=5.0, source="stored")
SILENT = NoiseFloor(sigma_ratio=0.0, degrees=5.0, source="stored")


@pytest.mark.parametrize("launches", [2, 4])
def test_the_smallest_visible_gain_is_found_in_80_of_100(launches: int) -> None:
    gain = math.log1p(smallest_visible_ratio(launches, TWO_PERCENT, margin_ratio=0.03))
    rng, repeats = np.random.default_rng(5), 40_000
    degrees = 5 + 2 * (launches - 1)
    se = 0.02 * math.sqrt(2 / launches)
    estimates = gain + se * rng.standard_normal(repeats)
    sigmas = se * np.sqrt(rng.chisquare(degrees, repeats) / degrees)
    found = (estimates / sigmas > stats.t.isf(0.025, degrees)) & (estimates >= math.log1p(0.03))
    assert found.mean() == pytest.approx(0.8, abs=0.008)


@pytest.mark.parametrize("launches", [6, 12])
def test_equal_arms_are_called_equal_as_often_as_is_said(launches: int) -> None:
    rng, repeats = np.random.default_rng(6), 40_000
    degrees = 5 + 2 * (launches - 1)
    se = 0.02 * math.sqrt(2 / launches)
    halves = stats.t.isf(0.05, degrees) * se * np.sqrt(rng.chisquare(degrees, repeats) / degrees)
    found = np.abs(se * rng.standard_normal(repeats)) + halves < math.log1p(0.03)
    assert found.mean() == pytest.approx(equivalence_power(launches, TWO_PERCENT, margin_ratio=0.03), abs=0.008)


def test_more_launches_and_less_noise_see_more() -> None:
    seen = [smallest_visible_ratio(launches, TWO_PERCENT, margin_ratio=0.03) for launches in (2, 3, 4, 6, 12)]
    assert seen == sorted(seen, reverse=True) and all(one > 0.03 for one in seen)
    noisy = NoiseFloor(sigma_ratio=0.04, degrees=5.0, source="stored")
    assert smallest_visible_ratio(2, noisy, margin_ratio=0.03) > seen[0]


def test_an_early_look_sees_less() -> None:
    plain = smallest_visible_ratio(2, TWO_PERCENT, margin_ratio=0.03)
    assert smallest_visible_ratio(2, TWO_PERCENT, margin_ratio=0.03, level=0.005) > plain


def test_launches_that_never_differ_show_all_that_matters() -> None:
    assert smallest_visible_ratio(2, SILENT, margin_ratio=0.03) == 0.03
    assert equivalence_power(2, SILENT, margin_ratio=0.03) == 1.0
    assert launches_for_no_difference(SILENT, margin_ratio=0.03) == 2


def test_launches_that_are_needed() -> None:
    five, three = (launches_to_see(effect, TWO_PERCENT, margin_ratio=0.03) for effect in (0.05, 0.03))
    assert five is not None and three is not None and five < three
    assert smallest_visible_ratio(five, TWO_PERCENT, margin_ratio=0.025) <= 0.05
    assert smallest_visible_ratio(five - 1, TWO_PERCENT, margin_ratio=0.025) > 0.05
    equal = launches_for_no_difference(TWO_PERCENT, margin_ratio=0.03)
    assert equal is not None and equivalence_power(equal, TWO_PERCENT, margin_ratio=0.03) >= 0.8
    assert equal <= 12


def test_what_nobody_would_wait_for_is_none() -> None:
    loud = NoiseFloor(sigma_ratio=0.3, degrees=5.0, source="stored")
    assert launches_to_see(0.03, loud, margin_ratio=0.03) is None
    assert launches_for_no_difference(loud, margin_ratio=0.03) is None
