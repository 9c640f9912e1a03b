"""Ranges as axes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sweep.ranges import MOST_VALUES, range_values


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        ({"from": 1, "to": 9, "step": 2}, [1, 3, 5, 7, 9]),
        ({"from": 1, "to": 8, "step": 2}, [1, 3, 5, 7]),
        ({"from": 3, "to": 3, "step": 1}, [3]),
        ({"from": 0, "to": 0.3, "step": 0.1}, [0, 0.1, 0.2, 0.3]),
        ({"from": -2, "to": 2, "step": 2}, [-2, 0, 2]),
        ({"from": "1K", "to": "4K", "step": "1K"}, [1024, 2048, 3072, 4096]),
        ({"from": "2K", "to": "128K", "factor": 4}, [2048, 8192, 32768, 131072]),
        ({"from": 1, "to": 10, "factor": 2}, [1, 2, 4, 8]),
        ({"from": 4, "to": 10, "factor": 1.5}, [4, 6, 9]),
        ({"from": 0.25, "to": 1, "factor": 2}, [0.25, 0.5, 1]),
    ],
)
def test_both_ends_belong_to_a_range(raw: dict[str, Any], values: list[float]) -> None:
    read = range_values(raw)
    assert read == values
    assert [type(value) for value in read] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"from": 1, "to": 3}, "a range needs either step or factor"),
        ({"from": 1, "to": 3, "step": 1, "factor": 2}, "a range needs either step or factor"),
        ({"from": 1, "step": 1}, "a range needs both from and to"),
        ({"from": 1, "to": 3, "by": 1}, 'a range knows from, to, step and factor, not "by"'),
        ({"from": 3, "to": 1, "step": 1}, "a range goes upwards: from is above to"),
        ({"from": 1, "to": 3, "step": 0}, "step must be above 0"),
        ({"from": 1, "to": 3, "factor": 1}, "factor must be above 1"),
        ({"from": 0, "to": 3, "factor": 2}, "a range with a factor starts above 0"),
        ({"from": 0, "to": 10**9, "step": 1}, "1000000001 values are too many (at most 1000)"),
        ({"from": 1, "to": 10**9, "factor": 1.001}, "more than 1000 values are too many"),
        ({"from": "x", "to": 3, "step": 1}, "not a token count: 'x' (write 256, 8K or 128K; K = 1024)"),
        ({"from": True, "to": 3, "step": 1}, "from: expected a number, not true"),
        ({"from": 1, "to": None, "step": 1}, "to: expected a number, not nothing"),
        ({"from": 1, "to": 3, "step": [1]}, "step: expected a number, not [1]"),
    ],
)
def test_reasons(raw: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        range_values(raw)
    assert str(caught.value) == reason


DECIMALS = st.decimals(min_value=-1000, max_value=1000, places=3).map(float)


@given(DECIMALS, DECIMALS, st.decimals(min_value="0.5", max_value=100, places=2).map(float))
def test_steps_are_even_and_end_within_one_step_of_the_end(one: float, other: float, step: float) -> None:
    first, last = min(one, other), max(one, other)
    exact = (Fraction(str(last)) - Fraction(str(first))) // Fraction(str(step)) + 1
    if exact > MOST_VALUES:
        with pytest.raises(ValueError, match="too many"):
            range_values({"from": first, "to": last, "step": step})
        return
    values = range_values({"from": first, "to": last, "step": step})
    assert len(values) == exact
    assert values[0] == first
    assert last - step < values[-1] <= last
    assert len(set(values)) == len(values)


@given(st.integers(1, 1000), st.integers(1, 10**6), st.integers(2, 9))
def test_factors_multiply(first: int, span: int, factor: int) -> None:
    values = range_values({"from": first, "to": first + span, "factor": factor})
    assert values == [first * factor**power for power in range(len(values))]
    assert values[-1] <= first + span < values[-1] * factor
