"""Prompts against tokenizers of several kinds: exact, different, repeatable, unique at the head, in few counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import EndpointError, InputError
from harness.records.cell import CacheMode, LoadPoint, OutputLength
from harness.records.workload import Prompt
from harness.workload.cache import PromptCache
from harness.workload.classes import CONTENT_CLASSES
from harness.workload.fitting import MOST_COUNTS, tolerance_tokens
from harness.workload.growth import turn_tokens
from harness.workload.prompts import TextSource, Workload, build_prompts, build_workload
from harness.workload.texts import PromptOrder
from tests.fakes.tokenizers import TOKENIZERS, FakeTokenizer, by_pieces, by_words

Result = TypeVar("Result")
NATURAL = sorted(name for name, content_class in CONTENT_CLASSES.items() if content_class.natural)
WHOLE_WORDS = ("words", "pieces")  # a closing word is one token, as in the vocabularies of served models


def test_counts_are_exact_where_a_short_word_is_one_token() -> None:
    for kind in WHOLE_WORDS:
        for name in CONTENT_CLASSES:
            for tokens in (256, 1000, 4096):
                prompts, tokenizer = built(kind, workload_class=name, context_tokens=tokens, streams=3)
                assert [run(tokenizer(prompt.text)) for prompt in prompts] == [tokens] * 3, (kind, name, tokens)
                assert [prompt.tokens for prompt in prompts] == [tokens] * 3


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(sorted(TOKENIZERS)),
    name=st.sampled_from(NATURAL),
    tokens=st.integers(256, 3000),
    template=st.integers(0, 40),
    seed=st.integers(0, 2**40),
)
def test_any_tokenizer_gets_within_the_tolerance(kind: str, name: str, tokens: int, template: int, seed: int) -> None:
    tokenizer = FakeTokenizer(TOKENIZERS[kind], template_tokens=template)
    order = PromptOrder(workload_class=name, context_tokens=tokens, streams=2, seed=seed)

    prompts = run(build_prompts(TextSource(count_tokens=tokenizer), order, salt="s"))

    for prompt in prompts:
        assert prompt.tokens == run(tokenizer(prompt.text))
        assert abs(prompt.tokens - tokens) <= tolerance_tokens(tokens)


@pytest.mark.parametrize("name", NATURAL)
def test_a_prompt_takes_three_counts_or_fewer_on_average(name: str) -> None:
    for tokens in (256, 4096):
        _, tokenizer = built("pieces", workload_class=name, context_tokens=tokens, streams=24)
        assert tokenizer.calls <= 3 * 24, (tokens, tokenizer.calls)


@pytest.mark.parametrize("name", ["repetitive", "prose"])
def test_a_deep_prefix_leaves_room_for_its_turn(name: str) -> None:
    # The first guess is off by less than one per cent, and by more than the turn.
    tokenizer = FakeTokenizer(lambda text: round(len(text.split()) * 1.0085))
    load = LoadPoint(
        workload_class=name, context_tokens=131_072, concurrency=1, output=OutputLength(tokens=8), cache="warm"
    )

    workload = run(build_workload(TextSource(tokenizer), load, turns=2, seed=0, salt="s"))

    assert [prompt.tokens for prompt in workload.streams[0].prompts] == pytest.approx([131_072] * 2, abs=64)
    assert workload.fills[0].tokens == pytest.approx(131_072 - turn_tokens(131_072), abs=256)


def test_the_number_of_counts_is_bounded_where_no_text_fits() -> None:
    tokenizer = FakeTokenizer(lambda text: 40 if len(text) < 1500 else 100_000)

    with pytest.raises(EndpointError, match="no text of 1024 tokens found in 10 counts; the nearest has"):
        run(build_prompts(TextSource(count_tokens=tokenizer), order(), salt="s"))

    assert tokenizer.calls < MOST_COUNTS + 200


def test_a_count_of_nothing_is_an_error_of_the_endpoint() -> None:
    with pytest.raises(EndpointError, match="counts 0 tokens"):
        run(build_prompts(TextSource(count_tokens=FakeTokenizer(lambda _: 0, template_tokens=0)), order(), salt="s"))


def test_a_context_smaller_than_the_template_says_what_it_takes() -> None:
    tokenizer = FakeTokenizer(by_pieces, template_tokens=990)

    with pytest.raises(InputError, match="1024 tokens are too few for a prompt") as caught:
        run(build_prompts(TextSource(count_tokens=tokenizer), order(), salt="s"))

    assert "alone take 10" in str(caught.value)


def test_the_head_is_unique_and_all_after_it_is_the_same_in_every_trial() -> None:
    first = run(build_prompts(TextSource(count_tokens=FakeTokenizer(by_pieces)), order(streams=6), salt="run launch 1"))
    again = run(build_prompts(TextSource(count_tokens=FakeTokenizer(by_pieces)), order(streams=6), salt="run launch 2"))

    heads = [prompt.text.partition("\n\n")[0] for prompt in (*first, *again)]
    assert len(set(heads)) == len(heads)
    assert [body(prompt) for prompt in first] == [body(prompt) for prompt in again]
    assert len({body(prompt) for prompt in first}) == 6
    assert [prompt.prompt_id for prompt in first] == [prompt.prompt_id for prompt in again]
    assert all(common_start(one.text, two.text) < 60 for one, two in zip(first, again, strict=True))


def test_the_same_salt_gives_the_same_prompts_and_another_seed_other_texts() -> None:
    first, _ = built("pieces", salt="a")
    again, _ = built("pieces", salt="a")
    other, _ = built("pieces", salt="a", seed=1)

    assert first == again
    assert not {body(prompt) for prompt in first} & {body(prompt) for prompt in other}


def test_heads_of_varying_length_are_counted_one_by_one() -> None:
    prompts, tokenizer = built("merged_words", streams=6)

    assert [run(tokenizer(prompt.text)) for prompt in prompts] == [prompt.tokens for prompt in prompts]
    assert all(abs(prompt.tokens - 1024) <= tolerance_tokens(1024) for prompt in prompts)


@pytest.mark.parametrize("name", NATURAL)
def test_a_long_prompt_is_no_loop(name: str) -> None:
    prompts, _ = built("pieces", workload_class=name, context_tokens=8192, streams=2)

    for prompt in prompts:
        words = prompt.text.split()[:4096]
        assert len(words) > 1500
        grams = list(zip(words, words[1:], words[2:], words[3:], strict=False))
        assert len(set(grams)) / len(grams) > 0.9


def test_the_control_is_a_loop_and_says_so() -> None:
    prompts, _ = built("pieces", workload_class="repetitive", streams=1)

    words = prompts[0].text.split()
    assert len(set(words)) / len(words) < 0.3
    assert not CONTENT_CLASSES["repetitive"].natural


def test_requests_of_a_set_do_not_share_text() -> None:
    prompts, _ = built("pieces", context_tokens=1024, streams=24)

    starts = {body(prompt)[:80] for prompt in prompts}
    middles = {body(prompt)[1500:1600] for prompt in prompts}
    assert len(starts) == len(middles) == 24


def test_a_prompt_longer_than_the_corpus_is_still_exact() -> None:
    prompts, _ = built("words", workload_class="prose", context_tokens=250_000, streams=1)

    assert prompts[0].tokens == 250_000


def test_kept_texts_cost_one_count(tmp_path: Path) -> None:
    first, _ = built("pieces", cache=PromptCache(tmp_path))
    again, tokenizer = built("pieces", cache=PromptCache(tmp_path))

    assert again == first
    assert tokenizer.calls == 1


def test_kept_texts_of_another_template_are_made_again(tmp_path: Path) -> None:
    built("pieces", cache=PromptCache(tmp_path))
    tokenizer = FakeTokenizer(by_pieces, template_tokens=20)
    source = TextSource(count_tokens=tokenizer, cache=PromptCache(tmp_path))

    prompts = run(build_prompts(source, order(), salt="s"))

    assert {run(tokenizer(prompt.text)) for prompt in prompts} == {1024}


def test_texts_of_another_tokenizer_are_not_mixed_up(tmp_path: Path) -> None:
    run(build_prompts(source_of(by_pieces, tmp_path, "one"), order(), salt="s"))

    prompts = run(build_prompts(source_of(by_words, tmp_path, "two"), order(), salt="s"))

    assert {by_words(prompt.text) + 7 for prompt in prompts} == {1024}


@pytest.mark.parametrize("kind", sorted(TOKENIZERS))
def test_a_warm_stream_goes_on_from_its_own_prefix(kind: str) -> None:
    workload = replayed(kind, cache="warm", concurrency=3, turns=2)

    assert len(workload.fills) == 3
    for fill, stream in zip(workload.fills, workload.streams, strict=True):
        for prompt in stream.prompts:
            assert common_start(fill.text, prompt.text) > 0.8 * len(fill.text)
        assert common_start(*(prompt.text for prompt in stream.prompts)) < len(stream.prompts[0].text) * 0.97
    assert common_start(workload.fills[0].text, workload.fills[1].text) < 60


@pytest.mark.parametrize("kind", WHOLE_WORDS)
def test_a_warm_prompt_is_exact_and_its_prefix_leaves_room_for_the_turn(kind: str) -> None:
    workload = replayed(kind, cache="warm", concurrency=2, turns=3)

    assert {prompt.tokens for stream in workload.streams for prompt in stream.prompts} == {2048}
    for fill in workload.fills:
        assert fill.tokens == pytest.approx(2048 - turn_tokens(2048), rel=0.01)


def test_shared_streams_go_on_from_one_prefix() -> None:
    workload = replayed("pieces", cache="shared", concurrency=3, turns=2)

    (fill,) = workload.fills
    prompts = [prompt for stream in workload.streams for prompt in stream.prompts]
    assert len({prompt.text for prompt in prompts}) == 6
    assert all(common_start(fill.text, prompt.text) > 0.8 * len(fill.text) for prompt in prompts)


def test_a_reused_prefix_is_new_in_the_next_trial_and_the_workload_is_the_same() -> None:
    for cache in ("warm", "shared", "cold"):
        one = replayed("pieces", cache=cache, concurrency=2, turns=2, salt="launch 1")
        two = replayed("pieces", cache=cache, concurrency=2, turns=2, salt="launch 2")
        assert one.workload_id == two.workload_id
        texts = [{prompt.text for stream in workload.streams for prompt in stream.prompts} for workload in (one, two)]
        assert not texts[0] & texts[1]


def test_prompts_of_one_prefix_share_a_picture_that_no_other_trial_has() -> None:
    one = replayed("pieces", cache="warm", concurrency=2, turns=2, workload_class="vision")
    two = replayed("pieces", cache="warm", concurrency=2, turns=2, workload_class="vision", salt="another launch")
    cold = replayed("pieces", cache="cold", concurrency=2, turns=2, workload_class="vision")

    assert one.workload_id == two.workload_id
    for fill, stream in zip(one.fills, one.streams, strict=True):
        assert fill.picture is not None
        assert {prompt.picture for prompt in stream.prompts} == {fill.picture}
    pictures = [fill.picture for workload in (one, two) for fill in workload.fills]
    assert len(set(pictures)) == 4
    assert len({prompt.picture for stream in cold.streams for prompt in stream.prompts}) == 4
    assert all("data:image" not in repr(fill) for fill in one.fills)


def test_text_alone_has_no_picture() -> None:
    workload = replayed("pieces", cache="cold", concurrency=2, turns=1)

    assert {prompt.picture for stream in workload.streams for prompt in stream.prompts} == {None}


def test_a_text_that_cannot_be_exact_costs_no_more_than_three_counts() -> None:
    # A closing word is now one token and now two, as in a small vocabulary.
    tokenizer = FakeTokenizer(lambda text: sum(1 + len(word) % 3 // 2 for word in text.split()))
    prompts = run(build_prompts(TextSource(count_tokens=tokenizer), order(context_tokens=8192, streams=12), salt="s"))

    assert all(abs(prompt.tokens - 8192) <= tolerance_tokens(8192) for prompt in prompts)
    counted = tokenizer.calls
    run(build_prompts(TextSource(count_tokens=tokenizer), order(context_tokens=8192, streams=1), salt="s"))
    assert counted - (tokenizer.calls - counted) <= 3 * 11


def test_the_first_prompts_are_the_same_at_any_concurrency() -> None:
    alone = replayed("pieces", cache="cold", concurrency=1, turns=4)
    four = replayed("pieces", cache="cold", concurrency=4, turns=1)

    assert [prompt.prompt_id for prompt in alone.streams[0].prompts] == [
        stream.prompts[0].prompt_id for stream in four.streams
    ]


def test_a_load_from_a_trace_is_refused() -> None:
    with pytest.raises(InputError, match="needs a workload trace"):
        replayed("pieces", cache="as_recorded", concurrency=1, turns=1)


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(coroutine)


def order(**changes: Any) -> PromptOrder:
    return replace(PromptOrder(workload_class="prose", context_tokens=1024, streams=4), **changes)


def built(
    kind: str, *, salt: str = "s", cache: PromptCache | None = None, **changes: Any
) -> tuple[tuple[Prompt, ...], FakeTokenizer]:
    tokenizer = FakeTokenizer(TOKENIZERS[kind])
    source = TextSource(count_tokens=tokenizer, tokenizer=kind, cache=cache)
    return run(build_prompts(source, order(**changes), salt=salt)), tokenizer


def source_of(count: Callable[[str], int], folder: Path, name: str) -> TextSource:
    return TextSource(count_tokens=FakeTokenizer(count), tokenizer=name, cache=PromptCache(folder))


def replayed(
    kind: str, *, cache: CacheMode, concurrency: int, turns: int, salt: str = "s", workload_class: str = "code"
) -> Workload:
    load = LoadPoint(
        workload_class=workload_class,
        context_tokens=2048,
        concurrency=concurrency,
        output=OutputLength(tokens=64),
        cache=cache,
    )
    source = TextSource(count_tokens=FakeTokenizer(TOKENIZERS[kind]))
    return run(build_workload(source, load, turns=turns, seed=3, salt=salt))


def body(prompt: Prompt) -> str:
    return prompt.text.partition("\n\n")[2]


def common_start(one: str, two: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
