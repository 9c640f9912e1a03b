"""What is said in the morning: fine, regressed and why, drifting, doubtful, and when a second launch is wanted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from harness.records.nightly import Baseline, Night
from harness.stats.nights import judge_night, night_of, wants_second_launch
from tests.unit.stats.arms_build import BASE, ab_run, stored

FIGURES = ("seconds", "delivered_per_step", "step_s")


def night(number: int, *, moved: dict[str, float] | None = None, launches: int = 1, key: str = "k") -> Night:
    rng = np.random.default_rng([number, 3])
    changes = moved or {}
    return Night(
        run_id=f"run-{number:03}",
        sweep="small",
        at=f"2026-{1 + number // 28:02}-{1 + number % 28:02}T02:00:00+00:00",
        key=key,
        figures={
            name: tuple(changes.get(name, 0.0) + 0.01 * float(rng.standard_normal()) for _ in range(launches))
            for name in FIGURES
        },
        facts={"driver": "580" if number < 25 else "590", "kernel": "6.14"},
    )


def nights(count: int, *, first: int = 0) -> list[Night]:
    return [night(number) for number in range(first, first + count)]


def baseline_of(accepted: list[Night], *, key: str = "k") -> Baseline:
    return Baseline(
        name="shipped",
        sweep="small",
        key=key,
        accepted_at="2026-01-15T09:00:00+00:00",
        author="operator",
        reason="as shipped",
        run_ids=tuple(one.run_id for one in accepted),
        values={name: tuple(one.figures[name][0] for one in accepted) for name in FIGURES},
    )


HISTORY = nights(25)
BASELINE = baseline_of(HISTORY[:14])


def test_a_quiet_night_is_fine_and_needs_one_launch() -> None:
    tonight = night(25)

    assert judge_night(tonight, HISTORY, BASELINE).verdict == "fine"
    assert wants_second_launch(tonight, HISTORY, BASELINE) is None


def test_a_big_drop_wants_a_second_launch_and_is_then_a_regression() -> None:
    drop = {"seconds": math.log(0.85), "step_s": math.log(0.85)}

    once = night(25, moved=drop)
    twice = night(25, moved=drop, launches=2)

    assert "baseline" in str(wants_second_launch(once, HISTORY, BASELINE))
    assert judge_night(twice, HISTORY, BASELINE).verdict == "regressed"


def test_a_second_launch_that_disagrees_makes_the_night_doubtful() -> None:
    tonight = night(25, launches=2)
    tonight = replace(tonight, figures=tonight.figures | {"seconds": (-0.055, 0.02)})

    assert judge_night(tonight, HISTORY, BASELINE).verdict == "doubtful"


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        ({"seconds": -0.2, "step_s": -0.2}, "step time moved and acceptance did not"),
        ({"seconds": -0.2, "delivered_per_step": -0.2}, "acceptance moved and step time did not"),
        ({"seconds": -0.4, "delivered_per_step": -0.2, "step_s": -0.2}, "both moved"),
        ({"seconds": -0.2}, "neither"),
    ],
)
def test_the_cause_is_named_by_what_moved(moved: dict[str, float], words: str) -> None:
    assert words in judge_night(night(25, moved=moved, launches=2), HISTORY, BASELINE).cause


def test_a_small_step_is_found_within_a_week_with_its_date_and_what_changed() -> None:
    moved = {"seconds": math.log(0.95), "step_s": math.log(0.95)}
    later = [night(number, moved=moved) for number in range(25, 32)]

    morning = judge_night(later[-1], [*HISTORY, *later[:-1]], BASELINE)

    assert morning.verdict == "regressed"
    assert "since 2026-01-2" in morning.sentence
    assert morning.differences == ("driver: 580 → 590",)


def test_an_improvement_is_no_regression_and_no_news_is_made_of_it_once_accepted() -> None:
    moved = {"seconds": 0.08, "step_s": 0.08}
    later = [night(number, moved=moved) for number in range(25, 40)]

    before = judge_night(later[-1], [*HISTORY, *later[:-1]], BASELINE)
    accepted = judge_night(later[-1], [*HISTORY, *later[:-1]], baseline_of(later[:14]))

    assert before.verdict == "improved"
    assert accepted.verdict == "fine"


def test_a_doubtful_night_is_no_regression_and_judges_nobody() -> None:
    slow = replace(night(25, moved={"seconds": -0.4}, launches=2), doubts=("canary_moved",))

    assert judge_night(slow, HISTORY, BASELINE).verdict == "doubtful"
    assert "doubtful" in str(wants_second_launch(slow, HISTORY, BASELINE))
    assert judge_night(night(26), [*HISTORY, slow], BASELINE).verdict == "fine"


def test_another_engine_begins_a_new_series() -> None:
    morning = judge_night(night(25, key="new"), HISTORY, BASELINE)

    assert morning.verdict == "no baseline"
    assert morning.history == 0
    assert any("new series" in note for note in morning.notes)


def test_a_change_of_kv_cache_is_noted() -> None:
    last = replace(HISTORY[-1], kv_cache_tokens=100_000)
    tonight = replace(night(25), kv_cache_tokens=90_000)

    assert any("KV cache" in note for note in judge_night(tonight, [*HISTORY[:-1], last], BASELINE).notes)


def test_a_stored_run_becomes_a_night() -> None:
    run = stored(ab_run([1.0, 1.02]))

    found = night_of(run, BASE.configuration_id)

    assert found.is_valid
    assert set(found.figures) == set(FIGURES)
    assert all(math.isfinite(value) for values in found.figures.values() for value in values)
    assert [len(values) for values in found.figures.values()] == [2, 2, 2]
