"""A stored run as two arms: which launches and loads count, how it stood at each look, and what speaks against it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.records.verdict import NoiseFloor
from harness.stats.arms import (
    Stored,
    Wanted,
    arms_of,
    asked_loads,
    common_loads,
    comparison_doubts,
    comparison_of,
    launch_order,
    missing_loads,
    side_of,
    weights_over,
)
from harness.stats.compare import Question
from harness.stats.noise import NoiseBook
from tests.unit.stats.arms_build import (
    BASE,
    CANDIDATE,
    LOADS,
    SHORT,
    WIDE,
    ab_run,
    comparison,
    planned,
    stored,
    voided,
    without,
)

EVEN = (1.0, 1.01, 0.99, 1.0)
FASTER = tuple(0.8 * one for one in EVEN)
FLOOR = NoiseFloor(sigma_ratio=0.02, degrees=5.0, source="stored")


def test_the_launches_of_an_arm_in_their_order() -> None:
    base, candidate = arms_of(stored(ab_run(EVEN, FASTER)), comparison())
    assert base.arm.launch_ids == ("l1", "l4", "l5", "l8")  # A B B A A B B A
    assert candidate.arm.launch_ids == ("l2", "l3", "l6", "l7")
    assert [one.trial.launch_id for one in base.rows(SHORT)] == ["l1", "l4", "l5", "l8"]


def test_void_trials_are_in_no_arm() -> None:
    run = voided(voided(ab_run(EVEN, FASTER), "l4"), "l5", WIDE)
    base, _ = arms_of(stored(run), comparison())
    assert (base.arm.launch_ids, base.arm.void_launches) == (("l1", "l5", "l8"), 1)
    assert len(base.rows(SHORT)) == 3 and len(base.rows(WIDE)) == 2


def test_the_halves_of_one_configuration_alternate_too() -> None:
    run = ab_run((1.0,) * 6)
    a, b = arms_of(stored(run), comparison(same=True))
    assert (a.arm.launch_ids, b.arm.launch_ids) == (("l1", "l4", "l5"), ("l2", "l3", "l6"))
    assert (a.arm.name, b.arm.name) == ("four (A)", "four (B)")


def test_an_arm_that_never_measured_is_known_by_its_plan() -> None:
    run = ab_run(EVEN[:2], FASTER[:2])
    run = without(without(run, CANDIDATE, SHORT), CANDIDATE, WIDE)
    run = replace(run, launches=tuple(one for one in run.launches if one.configuration == BASE))
    side = side_of(stored(run), Wanted(name="five", configuration_id=CANDIDATE.configuration_id))
    assert (side.arm.configuration, side.arm.launch_ids, side.trials) == (CANDIDATE, (), {})


def test_a_run_of_another_command_has_no_verdict() -> None:
    run = ab_run(EVEN[:2], FASTER[:2])
    assert run.plan is not None
    for plan in (None, replace(run.plan, comparison=None)):
        assert comparison_of(Stored(run=replace(run, plan=plan), cells=()), NoiseBook()) is None


def test_loads_that_cannot_be_compared_are_found() -> None:
    run = without(ab_run(EVEN, FASTER), CANDIDATE, WIDE)
    base, candidate = arms_of(stored(run), comparison())
    assert run.plan is not None
    asked = asked_loads(run.plan, comparison())
    assert asked == LOADS and common_loads(base, candidate) == (SHORT,)
    (one,) = missing_loads(base, candidate, asked)
    assert (one.load, one.base, one.candidate) == (WIDE, True, False)


def test_a_load_that_one_arm_alone_is_asked_for_is_missing_in_none() -> None:
    plan = planned(comparison(), LOADS)
    first, second = plan.launches
    only = replace(plan, launches=(first, replace(second, trials=second.trials[:1])))
    assert asked_loads(only, comparison()) == (SHORT,)


def test_weights_are_one_in_all_over_what_is_left() -> None:
    weights = {SHORT.load_id: 0.2, WIDE.load_id: 0.6, "gone": 0.2}
    assert weights_over(weights, LOADS) == pytest.approx({SHORT.load_id: 0.25, WIDE.load_id: 0.75})
    assert weights_over({"gone": 1.0}, LOADS) == {SHORT.load_id: 0.0, WIDE.load_id: 0.0}
    assert weights_over({}, LOADS) == {}


def test_each_look_is_as_it_stood_then() -> None:
    late = ab_run((1.0, 1.0, 1.0, 1.0), (0.97, 0.97, 0.8, 0.8))
    found = comparison_of(stored(late), NoiseBook())
    assert found is not None
    assert [(look.launches, look.verdict) for look in found.looks] == [(2, "cannot tell"), (4, "better")]
    early = comparison_of(stored(ab_run((1.0, 1.0), (0.97, 0.97))), NoiseBook())
    assert early is not None and early.looks[0].effect == found.looks[0].effect


def test_a_look_takes_only_launches_that_are_complete() -> None:
    found = comparison_of(stored(voided(ab_run(EVEN, FASTER), "l1", WIDE)), NoiseBook())
    assert found is not None and [look.launches for look in found.looks] == [2]


def doubts_of(order: str, book: NoiseBook | None = None) -> set[str]:
    run = ab_run(EVEN[: order.count("A")], FASTER[: order.count("B")], order=order)
    base, candidate = arms_of(stored(run), comparison())
    question = Question(loads=LOADS)
    found = comparison_doubts(base, candidate, question, book or NoiseBook(), order=launch_order(run.launches))
    return {one.kind for one in found}


@pytest.mark.parametrize("order", ["AB", "ABBA", "BAAB", "ABAB", "ABBABAAB", "ABBAAB"])
def test_arms_that_alternate(order: str) -> None:
    assert "not_alternating" not in doubts_of(order)


@pytest.mark.parametrize("order", ["AABB", "BBAA", "AAABBB", "AAAABBBB"])
def test_arms_that_do_not(order: str) -> None:
    assert "not_alternating" in doubts_of(order)


def test_noise_is_assumed_until_it_is_measured_and_one_launch_is_one() -> None:
    assert doubts_of("ABBA") == {"noise_assumed"}
    assert doubts_of("AB") == {"noise_assumed", "one_launch_an_arm"}


def test_doubts_of_a_cell_come_from_both_arms() -> None:
    found = comparison_of(stored(voided(ab_run(EVEN, FASTER), "l2", WIDE)), NoiseBook())
    assert found is not None
    by_load = {cell.load: {one.kind for one in cell.doubts} for cell in found.cells}
    assert "jit_in_window" in by_load[WIDE] and "jit_in_window" not in by_load[SHORT]
