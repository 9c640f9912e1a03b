"""Hashes and the loop figure."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.client.digest import repeated_tail_ratio, sha256_of_ids, sha256_of_text


def test_the_answer_alone_hashes_as_itself() -> None:
    assert sha256_of_text("", "abc") == hashlib.sha256(b"abc").hexdigest()
    assert sha256_of_text("a", "bc") != sha256_of_text("ab", "c")
    assert sha256_of_text("", "\ud83d") != sha256_of_text("", "")


def test_ids_hash_by_value() -> None:
    assert sha256_of_ids([1, 23]) == hashlib.sha256(b"1,23").hexdigest()
    assert sha256_of_ids([12, 3]) != sha256_of_ids([1, 23])


@pytest.mark.parametrize(
    ("items", "ratio"),
    [
        ("", None),
        ("a", 0.0),
        ("abcdef", 0.0),
        ("abca", 0.0),  # one that recurs is no loop
        ("aaaa", 0.75),
        ("xyabab", 2 / 6),
        ("abcabcabc", 6 / 9),
        ("aaaab", 0.0),  # it got out of the loop
    ],
)
def test_the_repeated_tail(items: str, ratio: float | None) -> None:
    assert repeated_tail_ratio(items) == ratio


@given(st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(10, 99), min_size=1, max_size=16, unique=True))
def test_a_loop_is_found_whatever_came_before(head: list[int], period: list[int]) -> None:
    items = head + period * 20
    assert repeated_tail_ratio(items) == pytest.approx(19 * len(period) / len(items))
