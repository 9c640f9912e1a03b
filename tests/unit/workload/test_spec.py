"""How many requests a load point needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.records.cell import CacheMode, LoadPoint, OutputLength
from harness.workload.spec import (
    MOST_COLD_TOKENS,
    drafts_per_request,
    expected_tokens_per_step,
    require_buildable,
    streams_for,
    warmup_context_tokens,
)

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
    affordable = MOST_COLD_TOKENS // (load.context_tokens * concurrency)
    assert shape.drafts >= drafts * (1 - 1e-9) or shape.turns == affordable
    fewer = (shape.turns - 1) * concurrency * drafts_per_request(load, k=k, accepted_ratio=ratio)
    assert shape.turns == 1 or fewer < drafts


@given(drafts=st.integers(1, 5000), context=st.integers(96, 1_048_576), concurrency=st.integers(1, 16))
def test_a_cold_trial_computes_no_more_than_it_may(drafts: int, context: int, concurrency: int) -> None:
    load = replace(LOAD, context_tokens=context, concurrency=concurrency)

    shape = streams_for(load, drafts=drafts, k=9)
    warm = streams_for(replace(load, cache="warm", context_tokens=max(context, 192)), drafts=drafts, k=9)

    assert shape.turns <= warm.turns
    capped = shape.turns < warm.turns
    within = shape.requests * context <= MOST_COLD_TOKENS
    assert within or shape.turns == 1 or shape.requests == 2
    assert not capped or shape.requests >= 2
    assert not capped or (shape.turns + 1) * concurrency * context > MOST_COLD_TOKENS


def test_a_deep_cold_prompt_is_sent_twice_and_its_drafts_are_then_too_few() -> None:
    deep = replace(LOAD, context_tokens=131072, concurrency=1)
    shape = streams_for(deep, drafts=400, k=9)

    assert (shape.turns, shape.drafts < 400) == (2, True)
    assert streams_for(replace(deep, cache="warm"), drafts=400, k=9).drafts >= 400
    assert streams_for(replace(deep, concurrency=6), drafts=4000, k=9).turns == 1


@pytest.mark.parametrize(
    ("cache", "context", "concurrency", "warmed_up_with"),
    [
        ("cold", 256, 6, 256),
        ("cold", 8192, 2, 8192),
        ("cold", 8192, 4, 2048),
        ("cold", 32768, 1, 2048),
        ("cold", 131072, 6, 2048),
        ("cold", 1024, 64, 1024),
        ("warm", 131072, 6, 131072),
        ("shared", 32768, 4, 32768),
    ],
)
def test_a_deep_cold_round_is_no_warm_up(cache: CacheMode, context: int, concurrency: int, warmed_up_with: int) -> None:
    load = replace(LOAD, cache=cache, context_tokens=context, concurrency=concurrency)

    assert warmup_context_tokens(load) == warmed_up_with


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
