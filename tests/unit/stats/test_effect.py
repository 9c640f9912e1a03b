"""Effects with their intervals: what must not change them, and figures that can be worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from harness.records.verdict import Effect, NoiseFloor
from harness.stats.effect import (
    Basis,
    Component,
    combined_logs,
    effect_of,
    is_spread_known,
    pooled_noise,
    prompt_component,
    satterthwaite,
    weighted_effect,
    within_sigma_ratio,
)
from harness.stats.sequential import Levels

FLOOR = NoiseFloor(sigma_ratio=0.02, degrees=5.0, source="stored")
Tables = tuple[NDArray[np.float64], NDArray[np.float64]]


@st.composite
def tables(draw: st.DrawFn, *, least_launches: int = 1) -> Tables:
    """Both arms of a load."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = [draw(st.integers(least_launches, 4)) for _ in range(2)]
    prompts = draw(st.integers(1, 6))
    scale = draw(st.sampled_from([0.0, 0.01, 0.3]))
    base, candidate = (scale * rng.standard_normal((count, prompts)) for count in counts)
    return base, candidate


def close(one: Effect, two: Effect) -> None:
    numbers = [value for value in astuple(one) if isinstance(value, float)]
    others = [value for value in astuple(two) if isinstance(value, float)]
    assert numbers == pytest.approx(others, abs=1e-9, rel=1e-6)


@given(tables(), st.sampled_from([None, FLOOR]))
def test_swapping_the_arms_mirrors_the_effect(arms: Tables, floor: NoiseFloor | None) -> None:
    basis = Basis(floor=floor)
    one, two = effect_of(*arms, basis), effect_of(arms[1], arms[0], basis)
    assert two.log_ratio == pytest.approx(-one.log_ratio)
    assert (two.low, two.high) == pytest.approx((-one.high, -one.low))
    assert (two.low90, two.high90) == pytest.approx((-one.high90, -one.low90))
    assert two.p == pytest.approx(one.p)


@given(tables(), st.floats(-5, 5))
def test_what_both_arms_have_in_common_changes_nothing(arms: Tables, shift: float) -> None:
    close(effect_of(*arms), effect_of(arms[0] + shift, arms[1] + shift))


@given(tables(), st.floats(-5, 5), st.sampled_from(["sum", "mean"]))
def test_nor_does_it_over_a_workload(arms: Tables, shift: float, combine: str) -> None:
    both = [[table, table / 2] for table in arms]
    moved = [[one + shift for one in arm] for arm in both]
    found = [weighted_effect(*each, [0.3, 0.7], combine=combine) for each in (both, moved)]  # type: ignore[arg-type]
    close(*found)


@given(tables(), st.randoms())
def test_the_order_of_the_prompts_changes_nothing(arms: Tables, random: object) -> None:
    order = list(range(arms[0].shape[1]))
    random.shuffle(order)  # type: ignore[attr-defined]
    close(effect_of(*arms), effect_of(arms[0][:, order], arms[1][:, order]))


@given(tables())
def test_one_load_is_the_whole_of_its_workload(arms: Tables) -> None:
    for combine in ("sum", "mean"):
        close(effect_of(*arms), weighted_effect([arms[0]], [arms[1]], [1.0], combine=combine))  # type: ignore[arg-type]


@given(tables(), st.floats(-0.5, 0.5))
def test_a_faster_candidate_moves_the_estimate_and_nothing_else(arms: Tables, gain: float) -> None:
    one, two = effect_of(*arms), effect_of(arms[0], arms[1] + gain)
    assert two.log_ratio == pytest.approx(one.log_ratio + gain)
    assert two.se == pytest.approx(one.se, abs=1e-12)


@given(tables())
def test_the_interval_for_equivalence_lies_within_the_other(arms: Tables) -> None:
    effect = effect_of(*arms)
    assert effect.low <= effect.low90 <= effect.log_ratio <= effect.high90 <= effect.high


def test_an_interval_by_hand() -> None:
    base, candidate = np.array([[0.00, 0.10], [0.02, 0.12]]), np.array([[0.11, 0.21], [0.13, 0.23]])
    effect = effect_of(base, candidate, Basis(floor=FLOOR))
    # Launch means 0.05, 0.07 | 0.16, 0.18: sum of squares 2 x 0.0002 with 2 degrees, beside 0.02^2 with 5.
    variance = (2 * 0.0002 + 5 * 0.0004) / 7
    se = math.sqrt(variance * (1 / 2 + 1 / 2))  # no prompt differs in its effect
    assert effect.log_ratio == pytest.approx(0.11)
    assert (effect.se, effect.degrees) == pytest.approx((se, 7.0))
    assert effect.high - effect.log_ratio == pytest.approx(stats.t.isf(0.025, 7) * se)
    assert effect.p == pytest.approx(2 * stats.t.sf(0.11 / se, 7))
    assert (effect.launches, effect.prompts, effect.allowance) == ((2, 2), 2, 0.0)


def test_an_early_look_has_a_wider_interval() -> None:
    base, candidate = np.array([[0.0], [0.02]]), np.array([[0.1], [0.12]])
    strict = Basis(floor=FLOOR, levels=Levels(interval=0.005, equivalence=0.001))
    plain, early = effect_of(base, candidate, Basis(floor=FLOOR)), effect_of(base, candidate, strict)
    assert early.low < plain.low and early.high90 > plain.high90
    assert early.p == plain.p


def test_with_one_launch_an_arm_a_slow_boot_is_allowed_for() -> None:
    slow = np.full((1, 8), math.log(1.45))
    effect = effect_of(np.zeros((1, 8)), slow, Basis(floor=FLOOR))
    assert effect.allowance == pytest.approx(math.log(1.5))
    assert effect.low < 0 < effect.high and effect.p == 1.0
    twice = effect_of(np.zeros((2, 8)), np.vstack([slow, slow]), Basis(floor=FLOOR))
    assert twice.allowance == 0 and twice.low > 0


def test_acceptance_does_not_depend_on_the_boot() -> None:
    base = np.array([[0.0, 0.1, 0.2, 0.3]])
    effect = effect_of(base, base + np.array([[0.05, 0.06, 0.05, 0.06]]), Basis(launch_noise=False))
    assert effect.allowance == 0 and effect.noise.source == "arms" and effect.low > 0.04


def test_nothing_is_known_of_one_figure_that_was_measured_once() -> None:
    one, eight, twice = np.zeros((1, 1)), np.zeros((1, 8)), np.zeros((2, 1))
    free = Basis(launch_noise=False)
    assert not is_spread_known(one, one, free)
    assert all(is_spread_known(each, each, free) for each in (eight, twice))
    assert is_spread_known(one, one, Basis()) and is_spread_known(one, one, Basis(floor=FLOOR, launch_noise=False))


def test_noise_is_pooled_by_degrees() -> None:
    arms = [np.array([0.0, 0.02]), np.array([0.0, 0.04, 0.08])]
    squares = 0.0002 + 0.0032
    assumed = pooled_noise(arms, None)
    assert (assumed.source, assumed.degrees) == ("assumed", 7.0)
    assert assumed.sigma_ratio == pytest.approx(math.sqrt((squares + 4 * 0.03**2) / 7))
    assert pooled_noise(arms, FLOOR).sigma_ratio == pytest.approx(math.sqrt((squares + 5 * 0.0004) / 8))
    alone = pooled_noise(arms, None, assume=False)
    assert (alone.source, alone.degrees) == ("arms", 3.0)
    assert alone.sigma_ratio == pytest.approx(math.sqrt(squares / 3))


def test_what_is_assumed_is_about_boots_so_requests_are_added() -> None:
    rng = np.random.default_rng(4)
    few, many = (rng.standard_normal((2, 2, count)) * 0.2 for count in (4, 400))
    sigmas = [effect_of(one[0], one[1]).noise.sigma_ratio for one in (few, many)]
    assert sigmas[0] > 0.05 > 0.035 > sigmas[1]
    added = pooled_noise([np.zeros(1), np.zeros(1)], None, rest=0.0016)
    assert added.sigma_ratio == pytest.approx(0.05)
    assert pooled_noise([np.zeros(1), np.zeros(1)], FLOOR, rest=0.0016).sigma_ratio == pytest.approx(0.02)


def test_an_effect_that_differs_from_prompt_to_prompt_widens_the_interval() -> None:
    even, uneven = np.full((2, 4), 0.1), np.tile([0.0, 0.05, 0.15, 0.2], (2, 1))
    base = np.zeros((2, 4))
    assert prompt_component(base, even).variance == 0
    found = prompt_component(base, uneven)
    assert found.variance == pytest.approx(uneven[0].var(ddof=1) / 4) and found.degrees == 3
    assert effect_of(base, uneven).se > effect_of(base, even).se


def test_degrees_of_a_sum_of_variances() -> None:
    one, two = Component(variance=1.0, degrees=4.0), Component(variance=3.0, degrees=9.0)
    assert satterthwaite([one, two]) == pytest.approx(16 / (1 / 4 + 1))
    assert satterthwaite([one]) == pytest.approx(4.0)
    assert satterthwaite([Component(variance=0.0, degrees=6.0), Component(variance=0.0, degrees=2.0)]) == 6.0


def test_seconds_add_up_and_rates_are_averaged_by_their_logarithms() -> None:
    arm = [-np.log(np.array([[1.0, 4.0]])), -np.log(np.array([[3.0, 3.0]]))]
    weights = np.array([0.25, 0.75])
    assert math.exp(-combined_logs(arm, weights, "sum")[0]) == pytest.approx(0.25 * 2 + 0.75 * 3)
    assert combined_logs(arm, weights, "mean")[0] == pytest.approx(-0.25 * math.log(2) - 0.75 * math.log(3))


def test_a_load_counts_in_the_sum_by_what_it_contributes() -> None:
    slow, fast = -np.log(np.full((2, 4), 100.0)), -np.log(np.full((2, 4), 1.0))
    gained = fast + math.log(2)
    effect = weighted_effect([slow, fast], [slow, gained], [0.5, 0.5])
    assert math.exp(effect.log_ratio) == pytest.approx(101 / 100.5)


def test_the_rest_within_a_launch() -> None:
    rng = np.random.default_rng(3)
    arm = rng.standard_normal((400, 8)) * 0.05 + rng.standard_normal((400, 1)) + rng.standard_normal((1, 8))
    assert within_sigma_ratio([arm]) == pytest.approx(0.05, rel=0.1)
    assert within_sigma_ratio([arm[:1]]) is None and within_sigma_ratio([arm[:, :1]]) is None


@pytest.mark.parametrize("shapes", [((0, 4), (2, 4)), ((2, 4), (2, 3)), ((2, 0), (2, 0))])
def test_arms_without_launches_or_common_prompts_are_a_bug(shapes: Sequence[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="same prompts"):
        effect_of(*(np.zeros(shape) for shape in shapes))
