"""Identities: the same for the same content, in any order, in any process; another one for other content."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records.cell import Cell, Configuration, LoadPoint, OutputLength
from harness.records.identity import ID_DIGITS, content_id
from harness.records.workload import Prompt, StreamPlan, workload_id

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
CONFIGURATION = Configuration(recipe="vllm-local", knobs={"num_speculative_tokens": 5, "method": "mtp"})
LOAD = LoadPoint(workload_class="prose", context_tokens=256, concurrency=1, output=OutputLength(tokens=128))


@given(JSON)
def test_an_identity_is_short_hexadecimal_and_repeats(content: object) -> None:
    identity = content_id(content)

    assert len(identity) == ID_DIGITS
    assert set(identity) <= set("0123456789abcdef")
    assert content_id(content) == identity


@given(st.dictionaries(st.text(), JSON, min_size=2, max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(content: dict[str, object], random) -> None:  # type: ignore[no-untyped-def]
    items = list(content.items())
    random.shuffle(items)

    assert content_id(dict(items)) == content_id(content)


@given(JSON, JSON)
def test_unlike_content_has_unlike_identities(one: object, two: object) -> None:
    # Compared as text: True equals 1 and -0.0 equals 0.0 in Python, but not in JSON.
    assert (content_id(one) == content_id(two)) == (_canonical(one) == _canonical(two))


def test_identities_are_the_same_in_another_process() -> None:
    program = "from harness.records.identity import content_id; print(content_id({'b': [1, None], 'a': 'é'}))"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert other.stdout.strip() == content_id({"a": "é", "b": [1, None]})


def test_identities_stay_what_they_were() -> None:
    # Stored runs are found by them: a change here makes every earlier run a stranger.
    assert content_id({"recipe": "r", "knobs": {}}) == "2836b77acc22"


@pytest.mark.parametrize("content", [float("nan"), [float("inf")], {"a": float("-inf")}])
def test_what_is_not_finite_has_no_identity(content: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        content_id(content)


def test_what_json_has_no_form_for_has_no_identity() -> None:
    with pytest.raises(TypeError):
        content_id({1, 2})


def test_a_configuration_is_its_recipe_and_knobs() -> None:
    same = Configuration(
        recipe="vllm-local", knobs={"method": "mtp", "num_speculative_tokens": 5}, name="the one I like"
    )

    assert same.configuration_id == CONFIGURATION.configuration_id
    assert replace(CONFIGURATION, recipe="other").configuration_id != CONFIGURATION.configuration_id
    assert replace(CONFIGURATION, knobs={"method": "mtp"}).configuration_id != CONFIGURATION.configuration_id


@pytest.mark.parametrize(
    "changes",
    [
        {"workload_class": "code"},
        {"context_tokens": 512},
        {"concurrency": 2},
        {"output": OutputLength(tokens=64)},
        {"output": OutputLength(tokens=128, natural=True)},
        {"cache": "warm"},
        {"temperature": 0.6},
        {"top_p": 0.95},
        {"thinking": "low"},
    ],
)
def test_every_load_knob_makes_another_cell(changes: dict[str, object]) -> None:
    other = replace(LOAD, **changes)  # type: ignore[arg-type]

    assert other.load_id != LOAD.load_id
    cells = [Cell(configuration=CONFIGURATION, load=load) for load in (LOAD, other)]
    assert cells[0].cell_id != cells[1].cell_id


def test_a_prompt_is_known_by_its_content_without_the_head() -> None:
    plain = Prompt(text="Label: a b\n\nonce", tokens=5)
    arms = [Prompt(text=f"Label: {head}\n\nonce", tokens=5, content=content_id("once")) for head in ("a b", "b a")]

    assert plain.prompt_id == content_id("Label: a b\n\nonce")
    assert arms[0].prompt_id == arms[1].prompt_id == content_id("once")


def test_a_workload_is_its_prompts_in_their_streams_and_order() -> None:
    one, two = Prompt(text="one", tokens=1), Prompt(text="two", tokens=1)

    def identity(*streams: tuple[Prompt, ...]) -> str:
        return workload_id(tuple(StreamPlan(prompts=stream) for stream in streams))

    identities = [identity((one, two)), identity((two, one)), identity((one,), (two,)), identity((one,))]
    assert len(set(identities)) == 4
    assert identity((one, two)) == identities[0]


def _canonical(content: object) -> str:
    match content:
        case dict():
            return str({key: _canonical(value) for key, value in sorted(content.items())})
        case list():
            return str([_canonical(value) for value in content])
        case _:
            return f"{type(content).__name__} {content!r}"
