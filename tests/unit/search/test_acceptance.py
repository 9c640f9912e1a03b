"""Acceptance curves at depths that were never launched."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.search.acceptance import Curve, nearest_curve, same_side

RATES = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=10)


def curve(rates: list[float]) -> Curve:
    """Of conditional acceptances."""
    survival, reached = [], 1.0
    for rate in rates:
        reached *= rate
        survival.append(reached)
    return Curve(k=len(survival), survival=tuple(survival))


@given(RATES, st.integers(0, 16))
def test_a_curve_has_a_position_for_each_drafted_token_and_never_rises(rates: list[float], k: int) -> None:
    found = curve(rates).at(k)
    assert len(found) == k
    assert all(0 <= later <= earlier <= 1 for earlier, later in pairwise(found))


@given(RATES, st.data())
def test_a_smaller_depth_has_the_measured_positions(rates: list[float], data: st.DataObject) -> None:
    whole = curve(rates)
    k = data.draw(st.integers(0, whole.k))
    assert whole.at(k) == whole.survival[:k]


@given(RATES, st.floats(0, 1))
def test_a_threshold_only_cuts(rates: list[float], threshold: float) -> None:
    whole = curve(rates)
    found = whole.at(whole.k, threshold=threshold)
    assert found == whole.survival[: len(found)]
    assert all(share >= threshold for share in found)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(1, 12))
def test_the_nearest_curve_is_of_the_same_side_of_the_block_if_there_is_one(depths: list[int], k: int) -> None:
    curves = [curve([0.8] * depth) for depth in depths]
    found = nearest_curve(curves, k, block_tokens=5)
    assert found is not None
    if any(same_side(one.k, k, 5) for one in curves):
        assert same_side(found.k, k, 5)


def test_of_its_own_kind_comes_before_deep_enough_and_that_before_near() -> None:
    kin, deep, near = (
        Curve(k=3, survival=(), kinship=0),
        Curve(k=9, survival=(), kinship=1),
        Curve(k=5, survival=(), kinship=1),
    )
    assert nearest_curve([deep, near, kin], 6, block_tokens=None) is kin
    assert nearest_curve([deep, near], 6, block_tokens=None) is deep
    assert nearest_curve([], 6, block_tokens=None) is None
