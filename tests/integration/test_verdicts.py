"""The promise of verdicts in a small form; `python -m benchmarks.verdicts` keeps it in full (docs/verdicts.md)."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.series import Rig, true_floor
from benchmarks.verdicts import (
    A_A_DEGREES,
    MARGIN_RATIO,
    Outcome,
    Table,
    Trial,
    at_least,
    at_most,
    bounds,
    compare_once,
    outcomes,
)
from harness.stats.power import smallest_visible_ratio

COMPARISONS = 150
QUIET, LOUD, UNSEEN = Rig(launch_sd=0.02), Rig(launch_sd=0.03), Rig(launch_sd=0.03, slow="unseen")


def made(rig: Rig, launches: int, **changes: Any) -> list[Outcome]:
    return outcomes(Trial(rig=rig, launches=launches, **changes), COMPARISONS)


@pytest.mark.parametrize(
    ("rig", "launches", "changes"),
    [
        (QUIET, 2, {}),
        (LOUD, 3, {}),
        (UNSEEN, 2, {"stored_floor": False}),
        (LOUD, 4, {"sequential": True}),
    ],
)
def test_equal_arms_are_hardly_ever_called_better_or_worse(rig: Rig, launches: int, changes: dict[str, Any]) -> None:
    found = made(rig, launches, **changes)
    assert at_most(sum(one.alarm for one in found), COMPARISONS, 0.05)
    assert at_least(sum(one.covered for one in found), COMPARISONS, 0.93)


def test_what_the_field_does_is_wrong_in_a_third_of_them() -> None:
    found = made(QUIET, 2)
    assert at_least(sum(one.naive_better for one in found), COMPARISONS, 0.3)
    assert at_least(sum(one.naive_test for one in found), COMPARISONS, 0.4)


def test_an_effect_that_plan_calls_detectable_is_found() -> None:
    gain = smallest_visible_ratio(3, true_floor(QUIET, degrees=A_A_DEGREES), margin_ratio=MARGIN_RATIO)
    found = made(QUIET, 3, gain_ratio=gain)
    assert at_least(sum(one.verdict == "better" for one in found), COMPARISONS, 0.8)
    assert at_least(sum(one.covered for one in found), COMPARISONS, 0.93)


def test_enough_launches_say_that_there_is_no_difference() -> None:
    assert at_least(sum(one.verdict == "no difference" for one in made(QUIET, 12)), COMPARISONS, 0.8)
    at_the_margin = made(QUIET, 12, gain_ratio=MARGIN_RATIO)
    assert at_most(sum(one.verdict == "no difference" for one in at_the_margin), COMPARISONS, 0.05)


def test_one_launch_an_arm_keeps_the_promise_even_where_a_slow_boot_is_not_seen() -> None:
    assert at_most(sum(one.alarm for one in made(UNSEEN, 1)), COMPARISONS, 0.05)


def test_the_same_seed_makes_the_same_comparison() -> None:
    trial = Trial(rig=LOUD, launches=2)
    assert compare_once(trial, 5) == compare_once(trial, 5) != compare_once(trial, 6)


def test_limits_are_judged_by_the_exact_bound() -> None:
    """5 % of 1,000 fails from 65 on."""
    assert at_most(64, 1000, 0.05) and not at_most(65, 1000, 0.05)
    assert at_least(775, 1000, 0.8) and not at_least(770, 1000, 0.8)
    low, high = bounds(50, 1000)
    assert low < 0.05 < high


def test_a_table_remembers_a_broken_limit() -> None:
    table = Table(title="t", head=("a",))
    table.add(["x"], kept=True)
    assert table.kept
    table.add(["y"], kept=False)
    assert not table.kept and "| y | **broken** |" in str(table)
