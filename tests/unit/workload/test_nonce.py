"""The head: always the same words, in an order that its identity decides."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.workload.nonce import WORDS, nonce_head, shuffled, without_nonce
from tests.fakes.tokenizers import by_bytes, by_pieces, by_sentence_pieces, by_words

IDENTITIES = st.lists(st.text(max_size=5) | st.integers(), min_size=1, max_size=3)


@given(IDENTITIES, IDENTITIES)
def test_any_two_heads_take_the_same_tokens(one: list[str | int], two: list[str | int]) -> None:
    for count in (by_words, by_bytes, by_pieces, by_sentence_pieces):
        assert count(nonce_head(*one)) == count(nonce_head(*two))


@given(st.lists(st.integers()), st.text())
def test_shuffling_keeps_the_items_and_repeats(items: list[int], label: str) -> None:
    assert sorted(shuffled(items, label)) == sorted(items)
    assert shuffled(items, label) == shuffled(items, label)


def test_the_order_is_the_same_on_every_machine() -> None:
    assert nonce_head("run", 1) == f"Label: {' '.join(shuffled(WORDS, 'run', 1))}\n\n"
    assert shuffled(range(6), "fixed") == [2, 5, 0, 3, 1, 4]


def test_heads_differ_at_once() -> None:
    heads = [nonce_head("run", index) for index in range(2000)]

    assert len(set(heads)) == 2000
    # A prefix cache reuses whole blocks: two heads must part within the first of them.
    assert len({head[: len("Label: ") + 9 * 4] for head in heads}) > 1990


def test_the_head_comes_off() -> None:
    assert without_nonce(nonce_head("a") + "one\n\ntwo") == "one\n\ntwo"
