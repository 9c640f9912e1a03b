"""What stands in for a configuration in a rehearsal, and what cannot be rehearsed."""

from __future__ import annotations

import pytest

from harness.errors import InputError
from harness.recipe.simulated import build_simulated, unsimulated
from tests.unit.recipe.recipes import SMALL, configuration, shipped, small, small_loaded

SIMULATED = (
    SMALL
    + """
simulation:
  truth: quick
  truths: [{when: {method: draft_model, tag: slow}, truth: slow}]
  assumes: {max_num_batched_tokens: 4096}
  knobs:
    num_speculative_tokens: num_speculative_tokens
    max_num_seqs: max_num_seqs
    max_num_batched_tokens: max_num_batched_tokens
    method: condition
    tag: condition
    eager: inert
    command: inert
    model: inert
    env.FAST_*: inert
  truncates_graphs_when: [{eager: false}]
  rules: [{when: {method: ngram}, because: it drafts from the prompt}]
"""
)


def spec_of(**knobs: object):  # type: ignore[no-untyped-def]
    return build_simulated(small_loaded(SIMULATED), configuration("small", **knobs))  # type: ignore[arg-type]


def test_knobs_become_inputs_and_defaults_count() -> None:
    spec = spec_of(num_speculative_tokens=5)
    assert spec.style == "simulated"
    assert spec.simulation.truth == "quick"
    assert spec.simulation.inputs == {"num_speculative_tokens": 5, "max_num_seqs": 8, "max_num_batched_tokens": 4096}
    assert (spec.num_speculative_tokens, spec.expected_launch_s, spec.k_may_be_trimmed) == (5, 5, False)
    assert spec.argv == () and spec.preparation == ()


def test_what_the_sweep_names_wins_over_what_is_assumed() -> None:
    assert spec_of(max_num_batched_tokens=512).simulation.inputs["max_num_batched_tokens"] == 512


def test_the_first_truth_that_matches_is_taken() -> None:
    assert spec_of(tag="slow").simulation.truth == "slow"
    assert spec_of(tag="slow", method="none").simulation.truth == "quick"


def test_no_speculation_is_k_0() -> None:
    assert spec_of(num_speculative_tokens=0).num_speculative_tokens == 0
    assert spec_of(method="none").num_speculative_tokens == 0


def test_graphs_are_truncated_where_the_recipe_says_so() -> None:
    assert spec_of(eager=False).simulation.truncated_graphs
    assert not spec_of().simulation.truncated_graphs


def test_a_knob_that_the_recipe_does_not_map_is_refused_with_its_place() -> None:
    with pytest.raises(InputError, match="utilization cannot be simulated") as caught:
        spec_of(utilization=0.5)
    assert caught.value.where == "/recipes/small/recipe.yaml"
    assert "utilization: inert" in (caught.value.hint or "")
    assert unsimulated(small(SIMULATED), ["tag", "utilization", "env.FAST_X", "env.SLOW"]) == (
        "utilization",
        "env.SLOW",
    )


def test_variables_may_be_named_by_pattern() -> None:
    assert spec_of(env__FAST_MATH=1).simulation.truth == "quick"
    with pytest.raises(InputError, match=r"env\.SLOW cannot be simulated"):
        spec_of(env__SLOW=1)


def test_what_boots_but_cannot_be_simulated_says_why() -> None:
    with pytest.raises(InputError, match="it drafts from the prompt"):
        spec_of(method="ngram", num_speculative_tokens=4)


def test_the_recipe_s_own_rules_hold() -> None:
    with pytest.raises(InputError, match="ngram is short"):
        spec_of(method="ngram", num_speculative_tokens=6)


def test_a_recipe_without_a_simulation_says_what_to_add() -> None:
    with pytest.raises(InputError, match="does not say how to simulate") as caught:
        build_simulated(small_loaded(), configuration("small"))
    assert "simulation" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("    tag: condition", "    tagg: condition"),
        ("    tag: condition", "    tag: fast"),
        ("{when: {method: draft_model, tag: slow}, truth: slow}", "{when: {methods: x}, truth: slow}"),
        ("truncates_graphs_when: [{eager: false}]", "truncates_graphs_when: [{eagre: false}]"),
        ("assumes: {max_num_batched_tokens: 4096}", "assumes: {max_num_batched: 4096}"),
    ],
)
def test_a_mistake_in_it_is_found_when_the_recipe_is_read(line: str, says: str) -> None:
    assert line in SIMULATED
    with pytest.raises(InputError) as caught:
        small(SIMULATED.replace(line, says))
    assert caught.value.where is not None and caught.value.where.startswith("recipe.yaml:")


@pytest.mark.parametrize(
    ("knobs", "truth", "k"),
    [
        ({}, "0731-anemll", 5),
        ({"checkpoint": "vision-exp", "num_speculative_tokens": 6}, "vision-exp-anemll", 6),
        ({"image": "stage-c", "checkpoint": "official-0731", "num_speculative_tokens": 5}, "0731-stage-c", 5),
        ({"image": "stage-c", "num_speculative_tokens": 5}, "preview-stage-c", 5),
        ({"num_speculative_tokens": 0}, "0731-anemll", 0),
    ],
)
def test_the_pair_is_simulated_as_its_checkpoint_and_image_are(knobs: dict[str, object], truth: str, k: int) -> None:
    loaded = shipped("dspark-2x-spark")
    spec = build_simulated(loaded, configuration("dspark-2x-spark", **knobs))  # type: ignore[arg-type]
    assert spec.simulation is not None
    assert (spec.simulation.truth, spec.num_speculative_tokens) == (truth, k)
    assert not spec.simulation.truncated_graphs
    assert set(unsimulated(loaded.recipe, loaded.recipe.launch_knobs)) == set()


def test_the_old_generation_of_the_pair_loses_its_widest_graph() -> None:
    loaded = shipped("dspark-2x-spark")
    spec = build_simulated(loaded, configuration("dspark-2x-spark", generation="august", num_speculative_tokens=5))
    assert spec.simulation is not None and spec.simulation.truncated_graphs
