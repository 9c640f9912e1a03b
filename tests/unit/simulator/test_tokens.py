"""The tokenizer, what a prompt is about, and the prefix cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.simulator.prefix import PrefixCache, common_bytes
from harness.simulator.tokens import (
    PICTURE_TOKENS,
    VOCABULARY,
    chat_prompt,
    content_class_of,
    content_key,
    opening_for,
    prompt_of_ids,
    token_ids,
    tokens_in,
    word,
)
from harness.workload.classes import CONTENT_CLASSES
from harness.workload.corpus import load_corpus
from harness.workload.nonce import nonce_head


@given(st.binary(max_size=400))
def test_every_prompt_has_as_many_ids_as_tokens(prompt: bytes) -> None:
    ids = token_ids(prompt)
    assert len(ids) == tokens_in(prompt)
    assert all(0 <= number < VOCABULARY for number in ids)


@given(st.lists(st.integers(0, VOCABULARY - 1), max_size=50))
def test_a_prompt_of_ids_keeps_them(ids: list[int]) -> None:
    assert token_ids(prompt_of_ids(ids)) == ids


@given(st.integers(0, 10**9))
def test_a_word_is_one_token(index: int) -> None:
    assert tokens_in(word(index).encode()) == 1


def test_the_chat_template_adds_a_few_tokens_and_one_more_for_thinking() -> None:
    message = {"role": "user", "content": "abcd" * 10}
    assert tokens_in(chat_prompt([message])) == 10 + 4
    assert tokens_in(chat_prompt([message], thinking=True)) == 10 + 5
    assert tokens_in(chat_prompt([message], generation_prompt=False)) == 10 + 3
    parts = {"role": "user", "content": [{"type": "text", "text": "abcd"}, {"type": "text", "text": "efgh"}]}
    assert tokens_in(chat_prompt([parts])) == 2 + 4


def test_a_picture_is_so_many_tokens_and_another_one_is_others() -> None:
    def prompt(url: str | None) -> bytes:
        parts: list[object] = [{"type": "text", "text": "What is this?"}]
        parts += [{"type": "image_url", "image_url": {"url": url}}] if url else []
        return chat_prompt([{"role": "user", "content": parts}])

    one, two = prompt("data:image/png;base64,AAAA"), prompt("data:image/png;base64,BBBB")
    assert tokens_in(one) == tokens_in(two) == tokens_in(prompt(None)) + PICTURE_TOKENS
    assert one != two


@pytest.mark.parametrize("name", list(CONTENT_CLASSES))
def test_a_prompt_of_this_tool_names_its_class_in_its_last_paragraph(name: str) -> None:
    body = load_corpus("prose").passages[0]
    assert content_class_of(f"{body}\n\n{CONTENT_CLASSES[name].instruction}") == name


@pytest.mark.parametrize("name", ["prose", "code", "structured", "agentic", "repetitive"])
def test_the_text_alone_tells_it_too(name: str) -> None:
    passages = [passage for passage in load_corpus(name).passages if len(passage) > 800]
    found = [content_class_of(passage[:4000]) for passage in passages[:40]]
    assert found.count(name) / len(found) > 0.8, found


def test_an_answer_depends_on_the_text_and_not_on_its_head() -> None:
    text = "the same story\n\nContinue."
    keys = {content_key(nonce_head(salt) + text) for salt in "abc"}
    assert keys == {content_key(text)}
    assert content_key("another story\n\nContinue.") not in keys


def test_a_question_that_tools_ask_has_its_answer() -> None:
    assert opening_for("What is the capital of France?") == " Paris."
    assert opening_for("What is the capital of Spain?") == ""


# The prefix cache.


@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=300))
def test_the_common_beginning_is_the_longest(common: bytes, one: bytes, other: bytes) -> None:
    first, second = common + one, common + other
    size = common_bytes(first, second)
    assert first[:size] == second[:size]
    assert size == min(len(first), len(second)) or first[size] != second[size]


@given(st.lists(st.text("ab", max_size=60), max_size=12), st.text("ab", max_size=60))
def test_hits_are_whole_blocks_of_the_longest_beginning(kept: list[str], prompt: str) -> None:
    cache = PrefixCache(block_tokens=2, capacity_tokens=10**6)
    for text in kept:
        cache.keep(text.encode())
    sent = prompt.encode()
    common = max((common_bytes(text.encode(), sent) for text in kept), default=0)
    expected = max(min(common // 4, tokens_in(sent) - 1), 0) // 2 * 2
    assert cache.look_up(sent) == expected


def test_what_was_not_used_for_longest_makes_room() -> None:
    cache = PrefixCache(block_tokens=1, capacity_tokens=20)
    for name in (b"a", b"b"):
        cache.keep(name * 40)
    assert cache.look_up(b"a" * 40) == 9
    cache.keep(b"c" * 40)
    assert [cache.look_up(name * 40) for name in (b"a", b"b", b"c")] == [9, 0, 9]


def test_a_longer_text_takes_the_place_of_its_own_beginning() -> None:
    cache = PrefixCache(block_tokens=1, capacity_tokens=20)
    cache.keep(b"a" * 40)
    cache.keep(b"a" * 48)
    cache.keep(b"b" * 32)
    assert cache.look_up(b"a" * 48) == 11


def test_no_capacity_keeps_nothing() -> None:
    cache = PrefixCache(block_tokens=1, capacity_tokens=0)
    cache.keep(b"a" * 40)
    assert cache.look_up(b"a" * 40) == 0
