"""Levels of looks: together they spend the allowance, and no more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from harness.stats.sequential import EFFECT_SPENDING, EQUIVALENCE_SPENDING, Levels, levels_of, nominal_levels


@pytest.mark.parametrize(("looks", "spending"), [(2, EFFECT_SPENDING), (3, EFFECT_SPENDING), (6, EQUIVALENCE_SPENDING)])
def test_all_looks_together_alarm_in_alpha(looks: int, spending: float) -> None:
    rng, repeats = np.random.default_rng(7), 200_000
    scores = rng.standard_normal((repeats, looks)).cumsum(axis=1) / np.sqrt(np.arange(1, looks + 1))
    critical = norm.isf(np.array(nominal_levels(looks, 0.05, spending)) / 2)
    share = float((np.abs(scores) > critical).any(axis=1).mean())
    assert share == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / repeats))


@pytest.mark.parametrize("looks", [2, 3, 12])
def test_each_look_spends_its_part(looks: int) -> None:
    """The first is exact; the sum of nominal levels is at least alpha, as looks are correlated."""
    levels = nominal_levels(looks, 0.05, 2.0)
    assert levels[0] == pytest.approx(0.05 / looks**2)
    assert list(levels) == sorted(levels)
    assert levels[-1] < 0.05 < sum(levels)


@given(st.floats(0.001, 0.2))
def test_one_look_has_all_of_it(alpha: float) -> None:
    assert nominal_levels(1, alpha) == pytest.approx((alpha,))


def test_no_look_is_a_bug() -> None:
    with pytest.raises(ValueError, match="at least one look"):
        nominal_levels(0)


@pytest.mark.parametrize("most", [None, 1, 2])
def test_without_looks_on_the_way_the_levels_are_plain(most: int | None) -> None:
    assert levels_of(2, most, step=2) == Levels(interval=0.05, equivalence=0.10)


def test_the_level_is_that_of_the_look_that_was_reached() -> None:
    effect, equal = nominal_levels(3, 0.05, EFFECT_SPENDING), nominal_levels(3, 0.10, EQUIVALENCE_SPENDING)
    for launches, at in ((1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 2), (9, 2)):
        levels = levels_of(launches, 6, step=2)
        assert levels == Levels(interval=effect[at], equivalence=equal[at]), launches
