"""Conversations of an agent: how far they grow, and that each prompt begins with the whole one before it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records.cell import LoadPoint, OutputLength
from harness.records.workload import StreamPlan
from harness.workload.cache import PromptCache
from harness.workload.fitting import tolerance_tokens
from harness.workload.growth import LEAST_TURNS, conversation, turn_tokens
from harness.workload.prompts import TextSource, Workload, build_workload
from harness.workload.spec import conversation_of, promised_tokens, streams_for
from tests.fakes.tokenizers import TOKENIZERS, FakeTokenizer

ALONE = 2
INSTRUCTION = "Continue this transcript with the next remark, tool call and result."
WARM = LoadPoint(
    workload_class="agentic", context_tokens=4096, concurrency=2, output=OutputLength(tokens=64), cache="warm"
)


@given(context=st.integers(192, 1 << 20), answer=st.integers(1, 1 << 16), turns=st.integers(1, 500))
def test_a_conversation_grows_by_half_of_its_first_prompt_or_by_one_turn(context: int, answer: int, turns: int) -> None:
    grown = conversation(context, answer)
    lengths = [grown.prompt_tokens(turn) for turn in range(turns)]

    assert grown.turns >= LEAST_TURNS
    assert lengths[0] == context == min(lengths)
    assert max(lengths) == grown.longest_tokens(turns) <= context + max(context // 2, grown.growth_tokens)
    for turn in range(1, turns):
        expected = lengths[turn - 1] + grown.growth_tokens if grown.goes_on(turn) else context
        assert lengths[turn] == expected


def test_only_warm_cells_of_class_agentic_are_conversations() -> None:
    assert conversation_of(WARM) == conversation(4096, 64)
    assert conversation_of(replace(WARM, output=OutputLength(tokens=64, natural=True))) == conversation(4096, 32)
    thinking = replace(WARM, thinking="low", output=OutputLength(tokens=64, reserve_tokens=1024))
    assert conversation_of(thinking) == conversation(4096, 64), "templates leave reasoning out"
    for other in ({"cache": "cold"}, {"cache": "shared"}, {"workload_class": "code"}):
        load = replace(WARM, **other)  # type: ignore[arg-type]
        assert conversation_of(load) is None
        assert [promised_tokens(load, turn) for turn in range(3)] == [4096] * 3


def test_a_conversation_has_two_turns_also_where_one_would_give_enough_drafts() -> None:
    assert streams_for(WARM, drafts=1, k=4).turns == 2
    assert streams_for(replace(WARM, workload_class="code"), drafts=1, k=4).turns == 1


@pytest.mark.parametrize("kind", sorted(TOKENIZERS))
@pytest.mark.parametrize(("context", "answer", "turns"), [(256, 8, 3), (1024, 1, 4), (4096, 512, 3), (8192, 64, 4)])
def test_each_turn_begins_with_the_whole_prompt_before_it(kind: str, context: int, answer: int, turns: int) -> None:
    load = replace(WARM, context_tokens=context, output=OutputLength(tokens=answer))
    grown = conversation_of(load)
    assert grown is not None
    tokenizer = FakeTokenizer(TOKENIZERS[kind])

    workload = built(load, turns, tokenizer)

    for fill, stream in zip(workload.fills, workload.streams, strict=True):
        measured, alone = stream.prompts[:turns], stream.prompts[turns:]
        for turn, prompt in enumerate(measured):
            assert prompt.tokens == asyncio.run(tokenizer(prompt.text))
            promised = promised_tokens(load, turn)
            assert abs(prompt.tokens - promised) <= tolerance_tokens(promised)
            assert prompt.text.endswith(INSTRUCTION)
            if grown.goes_on(turn):
                assert prompt.text.startswith(f"{measured[turn - 1].text}\n\n")
        for prompt in alone:
            assert abs(prompt.tokens - context) <= tolerance_tokens(context)
            prefix = fill.text.rpartition("User: ")[0]
            assert prompt.text.startswith(prefix) and measured[0].text.startswith(prefix), "turns go on from it"
            if (kind, context) != ("bytes", 256):  # a turn of a few bytes is one of a few texts
                assert common_start(prompt.text, measured[0].text) < len(prompt.text)
    assert common_start(workload.streams[0].prompts[0].text, workload.streams[1].prompts[0].text) < 60


def test_a_turn_is_an_answer_about_as_long_as_asked_a_call_and_a_result() -> None:
    tokenizer = FakeTokenizer(TOKENIZERS["pieces"])
    load = replace(WARM, output=OutputLength(tokens=600))

    for stream in built(load, 2, tokenizer).streams:
        first, second = stream.prompts[:2]
        step = second.text[len(first.text) :]
        answer, marked, result = step.partition("\nTool:\n")
        assert marked and result
        assert answer.startswith("\n\nAssistant: ")
        assert answer.count("<tool_call>") == answer.count("</tool_call>") == 1
        assert TOKENIZERS["pieces"](answer) == pytest.approx(600, rel=0.15)
        assert "\n\nUser: " in result


def test_steps_are_different_texts() -> None:
    load = replace(WARM, concurrency=3, context_tokens=8192, output=OutputLength(tokens=256))
    workload = built(load, 5, FakeTokenizer(TOKENIZERS["pieces"]))

    steps = [
        later.text[len(former.text) :]
        for stream in workload.streams
        for former, later in zip(stream.prompts[:4], stream.prompts[1:5], strict=True)
    ]
    assert len(set(steps)) == len(steps) == 12
    works = [step.partition("\n\n")[2].partition("<tool_call>")[0][-80:] for step in steps]
    assert len(set(works)) == 12


def test_the_workload_is_the_same_in_every_launch_and_its_heads_are_not(tmp_path: Path) -> None:
    cache = PromptCache(tmp_path)
    one = built(WARM, 4, FakeTokenizer(TOKENIZERS["pieces"]), salt="launch 1", cache=cache)
    kept = FakeTokenizer(TOKENIZERS["pieces"])
    two = built(WARM, 4, kept, salt="launch 2", cache=cache)
    fresh = built(WARM, 4, FakeTokenizer(TOKENIZERS["pieces"]), salt="launch 2")

    assert one.workload_id == two.workload_id
    assert fresh == two
    assert kept.calls == 1
    assert not texts_of(one.streams) & texts_of(two.streams)


def test_more_warm_up_turns_leave_the_conversation_as_it_is() -> None:
    few = built(WARM, 3, FakeTokenizer(TOKENIZERS["pieces"]))
    more = built(WARM, 3, FakeTokenizer(TOKENIZERS["pieces"]), alone=5)

    for one, other in zip(few.streams, more.streams, strict=True):
        assert one.prompts == other.prompts[: len(one.prompts)]


@pytest.mark.parametrize(
    ("context", "answer", "streams", "turns"), [(256, 64, 4, 2), (2048, 256, 2, 3), (8192, 256, 1, 6)]
)
def test_a_conversation_takes_three_counts_a_prompt_or_fewer(
    context: int, answer: int, streams: int, turns: int
) -> None:
    load = replace(WARM, context_tokens=context, concurrency=streams, output=OutputLength(tokens=answer))
    tokenizer = FakeTokenizer(TOKENIZERS["pieces"])
    source = TextSource(tokenizer)
    asyncio.run(build_workload(source, load, turns=turns, seed=1, salt="s", alone=0))
    learned = tokenizer.calls

    workload = asyncio.run(build_workload(source, load, turns=turns + ALONE, seed=2, salt="s", alone=ALONE))

    prompts = len(workload.fills) + sum(len(stream.prompts) for stream in workload.streams)
    assert tokenizer.calls - learned <= 3 * prompts


def test_the_first_prompt_is_as_long_as_that_of_any_warm_cell() -> None:
    workload = built(WARM, 2, FakeTokenizer(TOKENIZERS["words"]))

    for fill, stream in zip(workload.fills, workload.streams, strict=True):
        assert [prompt.tokens for prompt in stream.prompts] == [4096, 4096 + 64 + 256, 4096, 4096]
        assert fill.tokens == pytest.approx(4096 - turn_tokens(4096), abs=64)


def built(
    load: LoadPoint,
    turns: int,
    tokenizer: FakeTokenizer,
    *,
    salt: str = "s",
    cache: PromptCache | None = None,
    alone: int = ALONE,
) -> Workload:
    source = TextSource(tokenizer, tokenizer="t", cache=cache)
    return asyncio.run(build_workload(source, load, turns=turns + alone, seed=3, salt=salt, alone=alone))


def texts_of(streams: tuple[StreamPlan, ...]) -> set[str]:
    return {prompt.text for stream in streams for prompt in stream.prompts}


def common_start(one: str, two: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


@pytest.mark.parametrize("changed", [{"temperature": 1.0}, {"top_p": 0.9}, {"output": OutputLength(tokens=65)}])
@pytest.mark.parametrize("workload_class", ["agentic", "code"])
def test_loads_that_differ_in_sampling_or_output_share_a_prefix_and_no_turn(
    workload_class: str, changed: dict[str, Any]
) -> None:
    load = replace(WARM, workload_class=workload_class, context_tokens=4096, output=OutputLength(tokens=64))
    tokenizer = FakeTokenizer(TOKENIZERS["pieces"])

    one, other = (built(each, 2, tokenizer) for each in (load, replace(load, **changed)))

    assert [fill.text for fill in one.fills] == [fill.text for fill in other.fills]
    turns = [{prompt.text for stream in each.streams for prompt in stream.prompts} for each in (one, other)]
    assert not turns[0] & turns[1]
