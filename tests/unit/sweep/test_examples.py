"""Whole files in the manner in which owners write them."""

from __future__ import annotations

import pytest

from harness.recipe.find import packaged
from harness.recipe.schema import Recipe
from harness.sweep.cells import Expansion, expand
from harness.sweep.load import Sweep, load_recipe_of, load_sweep
from tests.unit.sweep.sweeps import EXAMPLES, knobs


def loaded(name: str) -> tuple[Sweep, Expansion]:
    sweep = load_sweep(EXAMPLES / f"{name}.yaml")
    return sweep, expand(sweep, recipe_of(sweep))


def recipe_of(sweep: Sweep) -> Recipe:
    return load_recipe_of(sweep).recipe


def test_a_grid_with_refusals_has_nine_configurations_of_34_cells() -> None:
    _, expansion = loaded("which_k")
    assert len(expansion.groups) == 9
    assert {len(group.loads) for group in expansion.groups} == {34}
    assert expansion.excluded_configurations == 5
    refused = [refusal.configuration.knobs for refusal in expansion.refusals]
    assert [(each["num_speculative_tokens"], each["block_k"], each["draft_sample_method"]) for each in refused] == [
        (3, 0, "probabilistic"),
        (5, 0, "probabilistic"),
        (5, 0, "greedy"),
    ]
    assert all("3 divides" in refusal.because for refusal in expansion.refusals)
    assert {refusal.loads for refusal in expansion.refusals} == {()}
    assert expansion.refusals[0].where == f"{EXAMPLES / 'which_k.yaml'}:8:3"


def test_the_named_configuration_lies_over_the_fixed_knobs() -> None:
    _, expansion = loaded("which_k")
    named = expansion.groups[-1].configuration
    assert named.name == "no_speculation"
    assert named.knobs == {
        "checkpoint": "vision-exp",
        "image": "anemll-0.1.1",
        "swa_prefix": 1,
        "num_speculative_tokens": 0,
    }


def test_the_incumbent_is_one_of_them() -> None:
    _, expansion = loaded("which_k")
    assert expansion.incumbent in [group.configuration for group in expansion.groups]
    assert expansion.incumbent is not None
    assert expansion.incumbent.num_speculative_tokens == 6


def test_two_arms_over_load_knobs_only() -> None:
    sweep, expansion = loaded("worth_it")
    assert [group.configuration.name for group in expansion.groups] == ["no_speculation", "today"]
    assert [group.configuration.knobs for group in expansion.groups] == [{"num_speculative_tokens": 0}, {}]
    assert [len(group.loads) for group in expansion.groups] == [21, 21]
    assert expansion.incumbent == expansion.groups[1].configuration
    assert [later.key for later in sweep.later_keys] == [
        "compare", "limits", "repeat.max_launches", "repeat.stop",
    ]  # fmt: skip


def test_a_trace_keeps_its_configurations_and_leaves_their_cells_open() -> None:
    sweep, expansion = loaded("replay")
    assert sweep.replays_trace
    patterns = {load for group in expansion.groups for load in group.loads}
    assert [(load.cache, load.temperature, load.thinking) for load in patterns] == [("as_recorded",) * 3]
    # k = 0 in two sizes, 3 x 2 x 2 x 2 with speculation, and today
    assert len(expansion.groups) == 2 + 24 + 1
    assert sorted(len(each.same_as) for each in expansion.collapsed) == [3, 3]
    zero = [
        row for row in knobs(expansion, "num_speculative_tokens", "draft_sample_method", "max_num_seqs") if row[0] == 0
    ]
    assert zero == [(0, None, 4), (0, None, 6)]


@pytest.mark.parametrize("name", sorted(file.stem for file in packaged("sweeps").glob("*.yaml")))
def test_every_sweep_of_the_repository_expands(name: str) -> None:
    sweep = load_sweep(packaged("sweeps") / f"{name}.yaml")
    assert sweep.name == name
    assert expand(sweep, recipe_of(sweep)).groups
