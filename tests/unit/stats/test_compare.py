"""Two arms: verdict over the workload, cell by cell, and what may veto it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from harness.records.check import CheckRecord
from harness.records.verdict import AskedLimit, Comparison
from harness.stats.arms import comparison_of
from harness.stats.compare import BLOCK_LAUNCHES, PARTS, Question
from harness.stats.noise import NoiseBook
from tests.unit.stats.arms_build import (
    BASE,
    CANDIDATE,
    LOADS,
    SHORT,
    WIDE,
    ab_run,
    comparison,
    stored,
    voided,
    without,
)

EVEN = (1.0, 1.01, 0.99, 1.0, 1.01, 0.99)
FASTER = tuple(0.8 * one for one in EVEN)


def compared(run: Any) -> Comparison:
    found = comparison_of(stored(run), NoiseBook())
    assert found is not None
    return found


def test_a_faster_candidate_is_better_by_what_its_seconds_say() -> None:
    found = compared(ab_run(EVEN[:2], FASTER[:2]))
    assert found.verdict == "better"
    assert found.speedup == pytest.approx(1 / 0.8, rel=0.01)
    assert [cell.verdict for cell in found.cells] == ["better", "better"]
    assert found.naive_ratio == pytest.approx(1 / 0.8, rel=0.01)
    assert found.vetoes == found.broken_limits == ()


def test_swapped_arms_have_the_mirrored_verdict() -> None:
    one, two = compared(ab_run(EVEN[:2], FASTER[:2])), compared(ab_run(FASTER[:2], EVEN[:2]))
    assert (one.verdict, two.verdict) == ("better", "worse")
    assert one.effect and two.effect
    assert two.effect.log_ratio == pytest.approx(-one.effect.log_ratio)


def test_a_slower_engine_moves_nothing() -> None:
    """Everything twice as slow, in both arms."""
    one = compared(ab_run(EVEN[:4], FASTER[:4]))
    two = compared(ab_run([2 * each for each in EVEN[:4]], [2 * each for each in FASTER[:4]]))
    assert one.effect and two.effect
    assert (two.effect.low, two.effect.high) == pytest.approx((one.effect.low, one.effect.high))


def test_an_effect_is_split_into_tokens_per_step_and_step_time() -> None:
    found = compared(ab_run(EVEN[:2], FASTER[:2]))
    parts = {part.metric: part for part in found.overall}
    assert set(parts) == set(PARTS)
    tokens, step, rate = (parts[name].effect for name in ("delivered_per_step", "step_s", "decode_tokens_per_s"))
    assert tokens and step and rate
    assert tokens.log_ratio == pytest.approx(0.0, abs=1e-9)
    assert tokens.log_ratio + step.log_ratio == pytest.approx(rate.log_ratio)
    (short, _) = found.cells
    assert {part.metric for part in short.parts} == set(PARTS)
    assert short.seconds.base == pytest.approx(short.seconds.candidate / 0.8, rel=0.02)  # type: ignore[operator]


def test_one_launch_an_arm_is_not_enough() -> None:
    found = compared(ab_run(EVEN[:1], FASTER[:1]))
    assert found.verdict == "cannot tell" and found.smallest_visible_ratio is None
    assert "one_launch_an_arm" in {one.kind for one in found.doubts}


def test_weights_decide_the_workload() -> None:
    weights = {SHORT.load_id: 0.9, WIDE.load_id: 0.1}
    found = compared(ab_run(EVEN[:2], FASTER[:2], weights=weights))
    assert [cell.weight for cell in found.cells] == [0.9, 0.1]


def test_a_weight_of_nothing_asks_nothing_of_a_load() -> None:
    run = voided(ab_run(EVEN[:2], FASTER[:2], weights={SHORT.load_id: 1.0, WIDE.load_id: 0.0}), "l1", WIDE)
    found = compared(run)
    assert found.effect and found.effect.launches == (2, 2)


def test_weights_of_loads_that_nobody_measured_leave_nothing_to_say() -> None:
    found = compared(ab_run(EVEN[:2], FASTER[:2], weights={"gone": 1.0}))
    assert (found.verdict, found.effect) == ("cannot tell", None)
    assert found.null_reason == "no load that has a weight counts in both arms"
    assert all(part.effect is None for part in found.overall)


def test_a_load_that_only_the_base_serves_forbids_better() -> None:
    found = compared(without(ab_run(EVEN[:2], FASTER[:2]), CANDIDATE, WIDE))
    assert found.effect and found.effect.low > 0
    assert found.verdict == "cannot tell"
    assert found.vetoes == ("it has no valid trial of 1 load that four has",)
    assert [cell.load for cell in found.cells] == [SHORT]
    assert "workload_incomplete" in {one.kind for one in found.doubts}


def test_it_forbids_no_difference_too_and_not_worse() -> None:
    equal = compared(without(ab_run(EVEN * 2, EVEN * 2, asked=comparison(max_launches=12)), CANDIDATE, WIDE))
    assert equal.verdict == "cannot tell"
    assert compared(without(ab_run(FASTER[:2], EVEN[:2]), CANDIDATE, WIDE)).verdict == "worse"


def test_a_load_that_only_the_candidate_serves_is_doubted() -> None:
    found = compared(without(ab_run(EVEN[:2], FASTER[:2]), BASE, WIDE))
    assert found.verdict == "better" and found.vetoes == ()
    (one,) = [each for each in found.doubts if each.kind == "workload_incomplete"]
    assert "prose · cold · 256 tokens · 4 streams" in one.evidence


def test_equal_arms_are_equal_after_enough_launches() -> None:
    found = compared(ab_run(EVEN * 4, EVEN * 4, asked=comparison(max_launches=24, sequential=False)))
    assert found.verdict == "no difference"


def limited(**bound: float) -> Comparison:
    asked = comparison(limits=(AskedLimit(metric="ttft_s", statistic="p95", **bound),))
    return compared(ab_run(EVEN[:2], FASTER[:2], asked=asked))


def test_a_candidate_that_breaks_a_limit_is_not_better() -> None:
    found = limited(at_most=0.3)
    assert found.verdict == "cannot tell"
    assert found.vetoes == ("it breaks the limit ttft_s.p95 at most 0.30",)
    assert {one.arm for one in found.broken_limits} == {"base", "candidate"}


def test_what_only_the_base_breaks_vetoes_nothing() -> None:
    found = limited(at_most=0.45)
    assert found.verdict == "better" and {one.arm for one in found.broken_limits} == {"base"}


def test_a_failed_check_of_the_candidate_vetoes() -> None:
    run = ab_run(EVEN[:2], FASTER[:2])
    failed = CheckRecord(
        name="garble",
        launch_id="l2",
        configuration_id=CANDIDATE.configuration_id,
        started_at="2026-11-30T13:28:11+00:00",
        outcome="failed",
        exit_code=1,
        took_s=1.0,
    )
    found = compared(replace(run, checks=(failed,)))
    assert found.verdict == "cannot tell" and found.vetoes == ("the check garble failed",)
    base = replace(failed, configuration_id=BASE.configuration_id)
    assert compared(replace(run, checks=(base,))).verdict == "better"


def test_a_launch_that_lacks_a_load_counts_for_its_cells_only() -> None:
    found = compared(voided(ab_run(EVEN[:3], FASTER[:3]), "l1", WIDE))
    assert found.effect and found.effect.launches == (2, 3)
    by_load = {cell.load: cell for cell in found.cells}
    assert by_load[SHORT].seconds.effect and by_load[SHORT].seconds.effect.launches == (3, 3)
    assert by_load[WIDE].seconds.effect and by_load[WIDE].seconds.effect.launches == (2, 3)


def test_an_arm_of_void_trials_has_no_effect() -> None:
    run = ab_run(EVEN[:2], FASTER[:2])
    for name in ("l2", "l3"):
        run = voided(run, name)
    found = compared(run)
    assert (found.verdict, found.effect, found.candidate.void_launches) == ("cannot tell", None, 2)
    assert found.null_reason == "nothing of five counts" and found.cells == ()


def test_rates_as_the_objective() -> None:
    found = compared(ab_run(EVEN[:2], FASTER[:2], asked=comparison(objective="decode_tokens_per_s")))
    assert found.verdict == "better" and found.naive_ratio is None
    assert found.speedup == pytest.approx(1 / 0.8, rel=0.01)


def test_levels_are_those_of_the_look() -> None:
    early = compared(ab_run(EVEN[:2], FASTER[:2]))
    alone = compared(ab_run(EVEN[:2], FASTER[:2], asked=comparison(sequential=False)))
    assert early.effect and alone.effect
    assert early.effect.low < alone.effect.low
    assert [look.launches for look in early.looks] == [BLOCK_LAUNCHES] and alone.looks == ()


def test_every_load_counts_the_same_without_weights() -> None:
    question = Question(loads=LOADS)
    assert [question.weight(one) for one in LOADS] == [0.5, 0.5]
    assert question.combine == "sum" and Question(loads=LOADS, objective="ttft_s").combine == "mean"


def test_acceptance_alone_is_known_from_one_launch() -> None:
    found = compared(ab_run(EVEN[:1], FASTER[:1]))
    part = next(one for one in found.overall if one.metric == "delivered_per_step")
    assert part.effect is not None and part.effect.allowance == 0
    assert math.expm1(part.effect.high) < 0.01
