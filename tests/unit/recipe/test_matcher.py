"""Conditions as data."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from harness.recipe.matcher import Matcher, Matchers, all_match, matches, same_value

MATCHER: TypeAdapter[Any] = TypeAdapter(Matcher)
MATCHERS: TypeAdapter[Any] = TypeAdapter(Matchers)


@pytest.mark.parametrize(
    ("matcher", "fits", "does_not"),
    [
        (3, [3], [4, None, "3", True]),
        (1, [1], [True, 0]),
        ("greedy", ["greedy"], ["Greedy", None]),
        ([3, "x"], [3, "x"], [4, None]),
        ({"multiple_of": 3}, [0, 3, 9], [4, "3", True, None]),
        ({"multiple_of": 3, "at_least": 5}, [6, 9], [3, 7, None]),
        ({"at_least": 0.5, "at_most": 1}, [0.5, 1], [0.4, 2, "1", None]),
        ({"not": 0}, [1, "x"], [0, None]),
        ({"not": [0, {"at_least": 5}]}, [1, 4], [0, 5, None]),
        ({"set": True}, [0, "x"], [None]),
        ({"set": False}, [None], [0, "x"]),
        ([{"set": False}, 0], [None, 0], [1]),
    ],
)
def test_matchers(matcher: Any, fits: list[Any], does_not: list[Any]) -> None:
    read = MATCHER.validate_python(matcher)
    assert [matches(read, value) for value in fits] == [True] * len(fits)
    assert [matches(read, value) for value in does_not] == [False] * len(does_not)


@pytest.mark.parametrize("raw", [{}, {"multiple": 3}, {"at_least": "x"}, {"multiple_of": 0}, {"not": {}}, [{"a": 1}]])
def test_a_wrong_matcher_is_refused(raw: Any) -> None:
    with pytest.raises(ValidationError, match="matcher"):
        MATCHER.validate_python(raw)


def test_every_knob_must_match() -> None:
    condition = MATCHERS.validate_python({"k": [3, 5], "image": {"not": "a"}})
    assert all_match(condition, {"k": 3, "image": "b", "other": 1})
    assert not all_match(condition, {"k": 3, "image": "a"})
    assert not all_match(condition, {"k": 3})
    assert all_match({}, {})


@given(st.integers(1, 50), st.integers(-50, 50), st.integers(-50, 50), st.integers(-200, 200))
def test_number_tests_agree_with_arithmetic(multiple: int, low: int, high: int, value: int) -> None:
    read = MATCHER.validate_python({"multiple_of": multiple, "at_least": low, "at_most": high})
    assert matches(read, value) == (value % multiple == 0 and low <= value <= high)


def test_true_is_not_one() -> None:
    assert same_value(1, 1.0)
    assert not same_value(True, 1)
