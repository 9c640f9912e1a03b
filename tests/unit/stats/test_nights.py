"""What is said in the morning: fine, regressed and why, drifting, doubtful, and when a second launch is wanted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from harness.records.nightly import Night
from harness.stats.night import HEADLINE
from harness.stats.nights import judge_night, wants_second_launch
from tests.unit.stats.night_build import NEW_DRIVER_FROM, accepted, night, nights

HISTORY = nights(0, 25)
BASELINE = accepted(HISTORY[:14])
SLOWER = {"seconds": math.log(0.85), "step_s": math.log(0.85)}
FASTER = {"seconds": math.log(1.15), "step_s": math.log(1.15)}


def test_a_quiet_night_is_fine_and_needs_one_launch() -> None:
    tonight = night(25)

    assert judge_night(tonight, HISTORY, BASELINE).verdict == "fine"
    assert wants_second_launch(tonight, HISTORY, BASELINE) is None


def test_a_big_drop_wants_a_second_launch_and_is_then_a_regression() -> None:
    once = night(25, moved=SLOWER)
    twice = night(25, moved=SLOWER, launches=2)

    assert "speed is below and steps per second is below" in str(wants_second_launch(once, HISTORY, BASELINE))
    said = judge_night(twice, HISTORY, BASELINE)
    assert said.verdict == "regressed"
    assert "both launches of this night below what the baseline allows" in said.sentence


@pytest.mark.parametrize("figure", HEADLINE)
def test_any_headline_series_regresses_the_night(figure: str) -> None:
    tonight = night(25, moved={figure: math.log(0.85)}, launches=2)

    assert judge_night(tonight, HISTORY, BASELINE).verdict == "regressed"


def test_each_series_has_a_limit_of_its_own() -> None:
    """Step time is held tightly, tokens per step loosely, where the rig is quiet."""
    quiet = nights(0, 20, sd=0.001)
    baseline = accepted(quiet[:14])
    verdicts = {
        (figure, drop): judge_night(night(20, sd=0.001, moved={figure: math.log(drop)}, launches=2), quiet, baseline)
        for figure in HEADLINE
        for drop in (0.9525, 0.945, 0.91)
    }
    by_gate = {key: next(one for one in said.figures if one.name == key[0]).regressed for key, said in verdicts.items()}

    assert [by_gate["step_s", drop] for drop in (0.9525, 0.945, 0.91)] == [True, True, True]
    assert [by_gate["seconds", drop] for drop in (0.9525, 0.945, 0.91)] == [False, True, True]
    assert [by_gate["delivered_per_step", drop] for drop in (0.9525, 0.945, 0.91)] == [False, False, True]


def test_a_regression_is_one_even_where_another_series_improved() -> None:
    tonight = night(25, moved={"delivered_per_step": 0.2, "step_s": -0.2}, launches=2)

    assert judge_night(tonight, HISTORY, BASELINE).verdict == "regressed"


def test_a_second_launch_that_disagrees_makes_the_night_doubtful() -> None:
    tonight = night(25, launches=2)
    tonight = replace(tonight, figures=tonight.figures | {"seconds": (-0.07, 0.02)})

    said = judge_night(tonight, HISTORY, BASELINE)

    assert said.verdict == "doubtful"
    assert "its launches disagree about speed" in said.sentence


def test_where_no_second_launch_could_be_made_the_night_before_has_to_agree() -> None:
    first, second = night(25, moved=SLOWER), night(26, moved=SLOWER)

    alone = judge_night(first, HISTORY, BASELINE)
    again = judge_night(second, [*HISTORY, first], BASELINE)

    assert alone.verdict == "doubtful"
    assert "no second one says the same" in alone.sentence
    assert again.verdict == "regressed"


def test_a_night_above_the_baseline_is_launched_again_and_is_then_an_improvement() -> None:
    once, twice = night(25, moved=FASTER), night(25, moved=FASTER, launches=2)

    assert "is above" in str(wants_second_launch(once, HISTORY, BASELINE))
    assert judge_night(once, HISTORY, BASELINE).verdict == "fine"
    assert judge_night(twice, HISTORY, BASELINE).verdict == "improved"


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        ({"seconds": -0.2, "step_s": -0.2}, "step time moved and acceptance did not"),
        ({"seconds": -0.2, "delivered_per_step": -0.2}, "acceptance moved and step time did not"),
        ({"delivered_per_step": -0.2}, "acceptance moved and step time did not"),
        ({"seconds": -0.4, "delivered_per_step": -0.2, "step_s": -0.2}, "both moved"),
        ({"seconds": -0.2}, "neither"),
    ],
)
def test_the_cause_is_named_by_what_moved(moved: dict[str, float], words: str) -> None:
    assert words in judge_night(night(25, moved=moved, launches=2), HISTORY, BASELINE).cause


@pytest.mark.parametrize("figure", ["delivered_per_step", "step_s"])
def test_the_cause_of_a_small_step_is_named_though_its_own_series_did_not_alarm(figure: str) -> None:
    moved = {"seconds": math.log(0.95), figure: math.log(0.97)}
    later = nights(25, 32, moved=moved)

    cause = judge_night(later[-1], [*HISTORY, *later[:-1]], BASELINE).cause

    assert ("acceptance moved and step time did not" in cause) is (figure == "delivered_per_step")
    assert ("step time moved and acceptance did not" in cause) is (figure == "step_s")


def test_a_small_step_is_found_within_a_week_with_its_date_and_what_changed() -> None:
    later = nights(25, 32, moved={"seconds": math.log(0.95), "step_s": math.log(0.95)})

    said = judge_night(later[-1], [*HISTORY, *later[:-1]], BASELINE)

    assert said.verdict == "regressed"
    assert "since 2026-01-26" in said.sentence
    assert said.differences == ("driver: 580 → 590",)
    assert [(mark.date, mark.accepted) for mark in said.changes if mark.figure == "seconds"] == [("2026-01-26", False)]


def test_a_drift_is_said_to_be_one() -> None:
    later = [night(number, moved={"seconds": -0.006 * (number - 24)}) for number in range(25, 45)]

    said = judge_night(later[-1], [*HISTORY, *later[:-1]], BASELINE)

    assert said.verdict == "regressed"
    assert "drifting by -0." in said.sentence


def test_an_improvement_is_no_regression_and_no_news_is_made_of_it_once_accepted() -> None:
    later = nights(25, 40, moved={"seconds": 0.08, "step_s": 0.08})

    before = judge_night(later[-1], [*HISTORY, *later[:-1]], BASELINE)
    after = judge_night(later[-1], [*HISTORY, *later[:-1]], accepted(later[:14]))

    assert before.verdict == "improved"
    assert after.verdict == "fine"
    assert {mark.accepted for mark in after.changes} == {True}


def test_nights_long_after_a_change_accept_it_too() -> None:
    later = nights(25, 60, moved={"seconds": -0.08, "step_s": -0.08})

    assert judge_night(later[-1], [*HISTORY, *later[:-1]], BASELINE).verdict == "regressed"
    assert judge_night(later[-1], [*HISTORY, *later[:-1]], accepted(later[15:29])).verdict == "fine"


def test_what_came_back_is_no_regression_any_more() -> None:
    bad, good = nights(25, 45, moved={"seconds": -0.08, "step_s": -0.08}), nights(45, 65)

    said = judge_night(good[-1], [*HISTORY, *bad, *good[:-1]], BASELINE)

    assert said.verdict == "fine"
    assert [round(mark.change.log_ratio, 1) for mark in said.changes if mark.figure == "seconds"] == [-0.1, 0.1]


def test_what_came_back_half_way_is_still_a_regression() -> None:
    bad = nights(25, 45, moved={"seconds": -0.16, "step_s": -0.16})
    half = nights(45, 65, moved={"seconds": -0.08, "step_s": -0.08})

    assert judge_night(half[-1], [*HISTORY, *bad, *half[:-1]], BASELINE).verdict == "regressed"


def test_the_history_judges_where_nothing_is_accepted() -> None:
    later = nights(25, 40, moved={"seconds": -0.08, "step_s": -0.08})

    assert judge_night(night(25), HISTORY, None).verdict == "no baseline"
    assert judge_night(later[-1], [*HISTORY, *later[:-1]], None).verdict == "regressed"


def test_a_baseline_of_few_nights_leaves_judging_to_the_history_and_says_so() -> None:
    few = accepted(HISTORY[:3])
    later = nights(25, 40, moved={"seconds": -0.08, "step_s": -0.08})

    quiet = judge_night(night(25), HISTORY, few)
    young = judge_night(night(4), HISTORY[:4], few)

    assert quiet.verdict == "fine"
    assert any("only the history judges" in note for note in quiet.notes)
    assert young.verdict == "no baseline"
    assert judge_night(later[-1], [*HISTORY, *later[:-1]], few).verdict == "regressed"


def test_a_doubtful_night_is_no_regression_and_judges_nobody() -> None:
    slow = night(25, moved={"seconds": -0.4}, launches=2, doubts=("canary_moved",))

    said = judge_night(slow, HISTORY, BASELINE)

    assert said.verdict == "doubtful"
    assert "canary moved" in said.sentence
    assert "doubtful" in str(wants_second_launch(slow, HISTORY, BASELINE))
    assert judge_night(night(26), [*HISTORY, slow], BASELINE).verdict == "fine"


def test_a_night_that_measured_nothing_is_doubtful() -> None:
    nothing = night(25, figures={name: () for name in HEADLINE}, failed_launches=2)

    said = judge_night(nothing, HISTORY, BASELINE)

    assert said.verdict == "doubtful"
    assert "could not be measured" in said.sentence
    assert "2 launches failed" in said.notes


def slow_nights(count: int) -> list[Night]:
    moved = {"seconds": -0.4, "step_s": -0.4}
    return nights(25, 25 + count, moved=moved, launches=2, doubts=("slow_boot",), canary_step_s=0.09)


def test_a_rig_that_is_slow_for_three_nights_is_no_longer_a_bad_night() -> None:
    slow = slow_nights(3)

    second = judge_night(slow[1], [*HISTORY, slow[0]], BASELINE)
    third = judge_night(slow[2], [*HISTORY, *slow[:2]], BASELINE)

    assert second.verdict == "doubtful"
    assert third.verdict == "regressed"
    assert "the canary itself became slower" in third.cause
    assert "not at the workload" in third.cause
    assert any("every boot of the last 3 nights was slow" in note for note in third.notes)
    assert third.history == len(HISTORY) + 2


def test_three_slow_nights_that_have_another_doubt_stay_doubtful() -> None:
    slow = [replace(one, doubts=("foreign_traffic", "slow_boot")) for one in slow_nights(3)]

    assert judge_night(slow[2], [*HISTORY, *slow[:2]], BASELINE).verdict == "doubtful"


def test_another_engine_begins_a_new_series_and_says_what_it_changed() -> None:
    said = judge_night(night(25, key="new", moved=SLOWER), HISTORY, BASELINE)

    assert said.verdict == "no baseline"
    assert said.history == 0
    assert any("new series" in note for note in said.notes)
    assert said.new_series is not None
    assert said.new_series.log_ratios["step_s"] == pytest.approx(math.log(0.85), abs=0.03)
    assert any("steps per second -1" in note for note in said.notes)


def test_a_change_of_kv_cache_is_noted() -> None:
    last = replace(HISTORY[-1], kv_cache_tokens=100_000)
    tonight = night(25, kv_cache_tokens=90_000)

    said = judge_night(tonight, [*HISTORY[:-1], last], None)

    assert "KV cache tokens changed by -10.0% against the nights before" in said.notes


def test_launches_that_were_left_out_are_noted() -> None:
    said = judge_night(night(25, left_out=("slow_boot",)), HISTORY, BASELINE)

    assert said.verdict == "fine"
    assert any("another one was left out (slow boot)" in note for note in said.notes)


def test_the_whole_series_is_there_for_a_picture_with_doubtful_nights_marked() -> None:
    doubtful = night(25, doubts=("canary_moved",))
    tonight = night(NEW_DRIVER_FROM + 1, launches=2)

    said = judge_night(tonight, [*HISTORY, doubtful, night(3, key="other", run_id="other")], BASELINE)

    points = said.series["seconds"]
    assert [point.date for point in points] == sorted(point.date for point in points)
    assert [point.counts for point in points] == [True] * 25 + [False, True]
    assert points[-1].launches == tonight.figures["seconds"]
    assert points[-1].value == tonight.value("seconds")
    assert len(said.nights) == 26
