"""The arms of a comparison, as the command line or the file names them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.recipe.find import find_recipe
from harness.recipe.load import load_recipe
from harness.records.cell import Configuration
from harness.sweep.arms import ArmWords, factors_between, with_arms
from harness.sweep.cells import expand
from tests.unit.sweep.sweeps import sweep

KNOBS = "knobs: {class: prose, context_tokens: 256, concurrency: 1, output_tokens: 16}\n"
NAMED = KNOBS + "configurations: {plain: {num_speculative_tokens: 0}, deep: {num_speculative_tokens: 4}}\n"
WRITTEN = NAMED + "compare: {base: plain, candidate: deep}\n"
TINY = load_recipe(find_recipe("vllm-cpu-tiny")).recipe
SPARK = load_recipe(find_recipe("dspark-2x-spark")).recipe


def arms(text: str, **words: Any) -> list[Configuration]:
    """The configurations of a comparison, base first."""
    found = expand(with_arms(sweep(text), ArmWords(**words)), TINY, arms_only=True)
    return [group.configuration for group in found.groups]


def refused(text: str, **words: Any) -> str:
    with pytest.raises(InputError) as caught:
        arms(text, **words)
    return str(caught.value)


def depths(found: list[Configuration]) -> list[int | None]:
    return [one.num_speculative_tokens for one in found]


def test_the_file_names_them() -> None:
    found = arms(WRITTEN)
    assert (depths(found), [one.name for one in found]) == ([0, 4], ["plain", "deep"])


def test_the_command_line_names_them_by_name_or_by_knobs() -> None:
    assert depths(arms(NAMED, base=("deep",), candidate=("plain",))) == [4, 0]
    assert depths(arms(KNOBS, base=("num_speculative_tokens=2",), candidate=("num_speculative_tokens=3",))) == [2, 3]
    assert depths(arms(NAMED, base=("plain",), candidate=("num_speculative_tokens=6",))) == [0, 6]


def test_the_command_line_overrides_the_file_arm_by_arm() -> None:
    assert depths(arms(WRITTEN, candidate=("num_speculative_tokens=6",))) == [0, 6]
    assert depths(arms(WRITTEN, base=("num_speculative_tokens=2",))) == [2, 4]


def test_several_knobs_in_one_word_or_in_many() -> None:
    knobs = "num_speculative_tokens=4 draft_sample_method=greedy"
    one = arms(NAMED, base=("plain",), candidate=(knobs,))
    many = arms(NAMED, base=("plain",), candidate=tuple(knobs.split()))
    assert one == many and one[1].knobs["draft_sample_method"] == "greedy"


def test_what_the_sweep_varies_is_in_an_arm_only_as_far_as_it_says_so() -> None:
    text = KNOBS.replace("{class", "{num_speculative_tokens: [0, 4], max_num_seqs: [2, 4], class")
    words = ArmWords(base=("num_speculative_tokens=0",), candidate=("num_speculative_tokens=4",))
    found = expand(with_arms(sweep(text), words), TINY, arms_only=True)
    assert all("max_num_seqs" not in group.configuration.knobs for group in found.groups)
    assert [note for note in found.notes if note.endswith("of what the sweep varies: max_num_seqs")]


def test_the_base_against_itself() -> None:
    assert depths(arms(WRITTEN, same=True)) == [0]
    assert depths(arms(KNOBS, same=True, base=("num_speculative_tokens=3",))) == [3]
    assert depths(arms(NAMED + "incumbent: deep\n", same=True)) == [4]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, "the comparison has no base"),
        ({"base": ("plain",)}, "the comparison has no candidate"),
        ({"same": True, "candidate": ("deep",)}, "--same compares the base with itself"),
        ({"base": ("plain", "deep"), "candidate": ("deep",)}, 'neither one name nor KNOB=VALUE: "plain"'),
        ({"base": ("=3",), "candidate": ("deep",)}, 'neither one name nor KNOB=VALUE: "=3"'),
        ({"base": ("nobody",), "candidate": ("deep",)}, "nobody"),
        ({"base": ("plain",), "candidate": ("num_speculative_tokens=many",)}, "many"),
        ({"base": ("plain",), "candidate": ("unheard_of=3",)}, "unheard_of"),
        ({"base": ("plain",), "candidate": ("num_speculative_tokens=[",)}, "num_speculative_tokens"),
        ({"base": ("plain",), "candidate": ("num_speculative_tokens=[2, 4]",)}, "num_speculative_tokens"),
        ({"base": ("plain",), "candidate": ("concurrency=4",)}, "concurrency"),
    ],
)
def test_what_is_no_arm_is_refused_and_named(words: dict[str, Any], said: str) -> None:
    assert said in refused(NAMED, **words)


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_words_are_taken_or_refused(base: str, candidate: str) -> None:
    try:
        arms(NAMED, base=(base,), candidate=(candidate,))
    except InputError as error:
        assert str(error)


def spark(**knobs: Any) -> Configuration:
    whole = {"checkpoint": "vision-exp", "image": "anemll-0.1.1", **knobs}
    return Configuration(recipe=SPARK.recipe, knobs=whole)


def test_factors_are_the_knobs_that_make_another_server() -> None:
    six, nine = spark(num_speculative_tokens=6), spark(num_speculative_tokens=9)
    assert factors_between(SPARK, six, six) == ()
    assert factors_between(SPARK, six, nine) == ("num_speculative_tokens",)
    greedy = spark(num_speculative_tokens=9, draft_sample_method="greedy")
    assert set(factors_between(SPARK, six, greedy)) == {"num_speculative_tokens", "draft_sample_method"}
    assert factors_between(SPARK, six, spark(num_speculative_tokens=6, max_num_seqs=4)) == ("max_num_seqs",)


def test_a_knob_that_does_nothing_in_one_arm_is_no_factor() -> None:
    nothing = spark(num_speculative_tokens=0)
    greedy = spark(num_speculative_tokens=6, draft_sample_method="greedy", block_k=1)
    for pair in ((nothing, greedy), (greedy, nothing)):
        assert factors_between(SPARK, *pair) == ("num_speculative_tokens",)
