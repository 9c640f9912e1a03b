"""What a plan can show, before it is paid for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.records.plan import PlannedComparison
from harness.run.design import design_of
from harness.run.plan import make_plan
from harness.stats.noise import NoiseBook
from tests.unit.run.test_plan import request
from tests.unit.stats.test_noise import noise


def comparison(*, same: bool = False) -> PlannedComparison:
    groups = request(depths=(0, 4)).groups
    base, candidate = (group.configuration for group in groups)
    return PlannedComparison(
        base_id=base.configuration_id,
        candidate_id=base.configuration_id if same else candidate.configuration_id,
        base_name="none",
        candidate_name="four",
        factors=("num_speculative_tokens",),
        max_launches=4,
        sequential=not same,
        objective="seconds",
    )


def test_a_plan_of_one_launch_each_sees_nothing_below_a_slow_boot() -> None:
    design = design_of(make_plan(request(rounds=1)), NoiseBook())
    assert design is not None
    (whole,) = design.rows
    assert (whole.launches, whole.smallest_visible_ratio, whole.floor.source) == (1, None, "assumed")
    assert whole.launches_for_3_percent and whole.launches_for_5_percent
    assert whole.launches_for_5_percent < whole.launches_for_3_percent


def test_more_launches_see_more_and_an_early_look_less() -> None:
    plans = [make_plan(request(depths=(0, 4), rounds=rounds)) for rounds in (2, 4)]
    seen = [design_of(plan, NoiseBook()) for plan in plans]
    ratios = [each.rows[0].smallest_visible_ratio for each in seen if each]
    assert ratios == sorted(ratios, reverse=True)  # type: ignore[type-var]
    looks = design_of(replace(plans[1], comparison=comparison()), NoiseBook())
    assert looks is not None and looks.rows[0].smallest_visible_ratio > ratios[1]  # type: ignore[operator]


def test_half_of_an_a_a_is_an_arm() -> None:
    plan = replace(make_plan(request(depths=(0,), rounds=6)), comparison=comparison(same=True))
    design = design_of(plan, NoiseBook())
    assert design is not None and design.rows[0].launches == 3


def test_each_shape_whose_noise_is_stored_has_a_row() -> None:
    design = design_of(make_plan(request(rounds=2)), NoiseBook(entries=(noise(0.02),)))
    assert design is not None
    assert [(row.context_tokens, row.concurrency) for row in design.rows] == [(None, None), (256, 1), (256, 4)]
    assert [row.floor.source for row in design.rows] == ["assumed", "stored", "stored"], "1024 tokens are not stored"


def test_a_silent_rig_shows_the_margin_itself() -> None:
    design = design_of(make_plan(request(rounds=2)), NoiseBook(entries=(noise(0.0),)))
    assert design is not None and design.rows[1].smallest_visible_ratio == pytest.approx(0.03)


def test_what_a_round_of_two_takes_is_said() -> None:
    plan = make_plan(request(depths=(0, 4), rounds=2))
    design = design_of(plan, NoiseBook())
    first = [launch for launch in plan.launches if launch.round == 1]
    assert design is not None
    assert design.round_s == pytest.approx(sum(launch.predicted_s for launch in first))


def test_a_server_that_runs_already_is_one_launch_whatever_is_repeated() -> None:
    plan = make_plan(request(rounds=2))
    assert design_of(replace(plan, attached=True), NoiseBook()) is None
    assert design_of(replace(plan, launches=()), NoiseBook()) is None
