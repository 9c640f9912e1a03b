"""What `tune` adds to a plan: the space, the reference, the study's fingerprint, and no speculation."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import InputError
from harness.recipe.find import find_recipe
from harness.recipe.load import load_recipe
from harness.records.plan import Plan, PlannedLaunch
from harness.records.tune import PlannedTune
from harness.run.plan import Identity
from harness.run.tuning import TuneWish, candidates_of, most_launches, planned_tune, with_no_speculation
from harness.sweep.cells import Expansion, expand
from tests.unit.stats.arms_build import BASE
from tests.unit.sweep.sweeps import sweep

RECIPE = load_recipe(find_recipe("vllm-cpu-tiny")).recipe
KNOBS = "knobs: {num_speculative_tokens: %s, class: prose, context_tokens: 256, concurrency: 1, output_tokens: 16}\n"
HERE = Identity(recipe_sha256="r", rig_id="rig")


def expanded(text: str = "", *, depths: str = "[1, 2, 4]") -> tuple[Any, Expansion]:
    loaded = with_no_speculation(sweep(KNOBS % depths + text), RECIPE)
    return loaded, expand(loaded, RECIPE)


def asked(
    text: str = "", *, depths: str = "[1, 2, 4]", wish: TuneWish | None = None, here: Identity = HERE
) -> PlannedTune:
    loaded, expansion = expanded(text, depths=depths)
    found = planned_tune(loaded, RECIPE, expansion, expansion.groups, wish or TuneWish(), identity=here)
    assert found is not None
    return found


def depths_of(expansion: Expansion) -> list[int | None]:
    return [group.configuration.num_speculative_tokens for group in expansion.groups]


def test_no_speculation_is_a_candidate_where_the_sweep_names_none() -> None:
    assert sorted(depths_of(expanded()[1]), key=str) == [0, 1, 2, 4]
    assert sorted(depths_of(expanded(depths="[0, 2]")[1]), key=str) == [0, 2]
    named = "configurations:\n  mine: {num_speculative_tokens: 3}\n"
    assert sorted(depths_of(expanded(named)[1]), key=str) == [0, 1, 2, 3, 4]


def test_defaults_and_what_the_sweep_and_the_command_line_say() -> None:
    found = asked()
    assert (found.sampler, found.max_launches, found.confirm_best, found.confirm_launches) == ("auto", 8, 2, 3)
    written = "tune: {sampler: tpe, max_launches: 5, confirm: {best: 1, launches: 4}}\n"
    found = asked(written)
    assert (found.sampler, found.max_launches, found.confirm_best, found.confirm_launches) == ("tpe", 5, 1, 4)
    assert asked(written, wish=TuneWish(sampler="grid", max_launches=3)).sampler == "grid"


def test_gains_are_over_the_incumbent() -> None:
    _, expansion = expanded()
    ids = {
        group.configuration.num_speculative_tokens: group.configuration.configuration_id for group in expansion.groups
    }
    assert asked("incumbent: {num_speculative_tokens: 2}\n").reference_id == ids[2]
    assert asked("incumbent: {num_speculative_tokens: 0}\n").reference_id == ids[0]
    assert asked().reference_id in ids.values()


@pytest.mark.parametrize(
    "changed",
    [
        {"text": "objective: ttft_s\n"},
        {"text": "limits: {ttft_s: {at_most: 3}}\n"},
        {"depths": "[1, 2, 5]"},
        {"here": Identity(recipe_sha256="r", rig_id="other")},
        {"here": Identity(recipe_sha256="other", rig_id="rig")},
    ],
)
def test_a_study_of_something_else_has_another_name(changed: dict[str, Any]) -> None:
    assert asked(**changed).study != asked().study


def test_what_changes_no_measurement_keeps_the_study() -> None:
    assert asked("margin: 5%\ntune: {sampler: tpe}\n").study == asked().study
    assert asked(wish=TuneWish(max_launches=3)).study == asked().study
    assert asked(wish=TuneWish(study="mine")).study == "mine"


def test_one_configuration_is_no_space() -> None:
    with pytest.raises(InputError, match="the search space is empty"):
        asked(depths="0")


def test_it_cannot_be_led_by_what_no_cell_has() -> None:
    with pytest.raises(InputError):
        asked("objective: acceptance_length\n")


def test_candidates_have_the_knobs_that_vary_as_they_take_effect() -> None:
    _, expansion = expanded()
    found = candidates_of(RECIPE, expansion.groups)
    assert {one.num_speculative_tokens: one.knobs["num_speculative_tokens"] for one in found} == {
        0: 0,
        1: 1,
        2: 2,
        4: 4,
    }
    assert all("model" not in one.knobs for one in found)


@pytest.mark.parametrize(
    ("configurations", "most", "best", "launches", "expected"),
    [(10, 8, 2, 3, 8 + 9), (3, 8, 2, 3, 3 + 9), (2, 8, 5, 1, 2 + 2)],
)
def test_how_many_launches_it_comes_to_at_the_most(
    configurations: int, most: int, best: int, launches: int, expected: int
) -> None:
    planned = tuple(
        PlannedLaunch(
            launch_key=f"{number}-{at}", ordinal=1, round=number, configuration=BASE, trials=(), predicted_launch_s=1.0
        )
        for number in (1, 2)
        for at in range(configurations)
    )
    tune = PlannedTune(
        sampler="auto",
        max_launches=most,
        confirm_best=best,
        confirm_launches=launches,
        reference_id="x",
        objective="seconds",
        study="s",
        fingerprint="f",
    )
    assert most_launches(Plan(sweep="s", recipe="r", seed=1, launches=planned, tune=tune)) == expected
    assert most_launches(Plan(sweep="s", recipe="r", seed=1, launches=planned)) == len(planned)
