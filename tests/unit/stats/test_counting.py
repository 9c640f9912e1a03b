"""Which nights count: fit ones, and slow ones from the third in a row on."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records.nightly import Night
from harness.stats.counting import SLOW_NIGHTS, counted
from tests.unit.stats.night_build import night

Kind = Literal["fit", "slow", "moved", "slow and moved", "empty", "slow and empty"]
CHANGES: dict[Kind, dict[str, object]] = {
    "fit": {},
    "slow": {"doubts": ("slow_boot",)},
    "moved": {"doubts": ("canary_moved",)},
    "slow and moved": {"doubts": ("canary_moved", "slow_boot")},
    "empty": {"figures": {"seconds": ()}},
    "slow and empty": {"figures": {"seconds": ()}, "doubts": ("slow_boot",)},
}


def series(*kinds: Kind) -> list[Night]:
    return [night(number, **CHANGES[kind]) for number, kind in enumerate(kinds)]


def counting(*kinds: Kind) -> list[int]:
    nights = series(*kinds)
    return [nights.index(one) for one in counted(nights)]


@pytest.mark.parametrize(
    ("kinds", "those"),
    [
        (["fit", "moved", "fit"], [0, 2]),
        (["fit", "slow", "slow", "fit"], [0, 3]),
        (["fit", "slow", "slow", "slow"], [0, 1, 2, 3]),
        (["slow", "slow", "slow", "slow", "fit", "slow"], [0, 1, 2, 3, 4]),
        (["slow", "slow", "moved", "slow"], []),
        (["slow", "slow", "fit", "slow", "slow"], [2]),
        (["slow and moved"] * 3, []),
        (["slow and empty"] * 3, []),
        (["slow", "slow", "slow and empty", "slow"], []),
        ([], []),
    ],
)
def test_slow_nights_count_from_the_third_in_a_row_on(kinds: list[Kind], those: list[int]) -> None:
    assert counting(*kinds) == those


@given(st.lists(st.sampled_from(list(CHANGES)), max_size=15))
def test_a_fit_night_always_counts_and_the_order_stays(kinds: list[Kind]) -> None:
    nights = series(*kinds)
    found = counted(nights)

    assert [one for one in nights if one in found] == found
    assert all(one in found for one, kind in zip(nights, kinds, strict=True) if kind == "fit")
    assert all(one not in found for one, kind in zip(nights, kinds, strict=True) if kind not in ("fit", "slow"))
    slow = [kind for one, kind in zip(nights, kinds, strict=True) if one in found and kind == "slow"]
    assert not slow or len(slow) >= SLOW_NIGHTS
