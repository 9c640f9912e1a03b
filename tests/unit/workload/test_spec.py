"""How many requests a load point needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.records.cell import LoadPoint, OutputLength
from harness.workload.spec import drafts_per_request, expected_tokens_per_step, require_buildable, streams_for

LOAD = LoadPoint(workload_class="prose", context_tokens=256, concurrency=4, output=OutputLength(tokens=128))


@given(
    drafts=st.integers(1, 5000),
    k=st.integers(0, 16),
    concurrency=st.integers(1, 64),
    tokens=st.integers(1, 2048),
    ratio=st.floats(0, 1),
)
def test_the_drafts_suffice_and_one_turn_less_would_not(
    drafts: int, k: int, concurrency: int, tokens: int, ratio: float
) -> None:
    load = replace(LOAD, concurrency=concurrency, output=OutputLength(tokens=tokens))

    shape = streams_for(load, drafts=drafts, k=k, accepted_ratio=ratio)

    assert shape.streams == concurrency
    assert shape.requests == shape.turns * concurrency
    assert shape.drafts >= drafts * (1 - 1e-9)
    fewer = (shape.turns - 1) * concurrency * drafts_per_request(load, k=k, accepted_ratio=ratio)
    assert shape.turns == 1 or fewer < drafts


def test_tokens_per_step_follow_the_published_formula() -> None:
    assert expected_tokens_per_step(0, 0.85) == 1
    assert expected_tokens_per_step(5, 0.8) == pytest.approx((1 - 0.8**6) / (1 - 0.8))
    assert expected_tokens_per_step(5, 1.0) == 6
    assert expected_tokens_per_step(5, 0.0) == 1


def test_four_streams_need_a_quarter_of_the_turns() -> None:
    assert streams_for(replace(LOAD, concurrency=1), drafts=400, k=4).turns == 12
    assert streams_for(LOAD, drafts=400, k=4).turns == 3


def test_natural_answers_are_planned_shorter_than_their_limit() -> None:
    natural = replace(LOAD, output=OutputLength(tokens=128, natural=True))

    assert streams_for(natural, drafts=400, k=4).turns > streams_for(LOAD, drafts=400, k=4).turns


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload_class": "proze"}, 'unknown content class "proze"'),
        ({"workload_class": "as_recorded"}, "class as_recorded needs a workload trace"),
        ({"cache": "as_recorded"}, "cache as_recorded needs a workload trace"),
        ({"context_tokens": 50}, "context_tokens 50 is too short for cache cold"),
        ({"context_tokens": 128, "cache": "warm"}, "context_tokens 128 is too short for cache warm"),
        ({"concurrency": 0}, "must be at least 1"),
        ({"output": OutputLength(tokens=0)}, "must be at least 1"),
    ],
)
def test_a_load_that_cannot_be_built_is_refused_with_its_place(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        require_buildable(replace(LOAD, **changes), where="s.yaml:3:1")  # type: ignore[arg-type]

    assert caught.value.where == "s.yaml:3:1"


@pytest.mark.parametrize("arguments", [{"drafts": 0}, {"k": -1}, {"accepted_ratio": 1.5}])
def test_arguments_out_of_range_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(InputError, match="out of range"):
        streams_for(LOAD, **({"drafts": 400, "k": 4} | arguments))  # type: ignore[arg-type]
