"""Numbers to text and text to numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.units import (
    MISSING,
    format_bytes,
    format_change,
    format_number,
    format_rate,
    format_ratio,
    format_seconds,
    format_tokens,
    parse_ratio,
    parse_seconds,
    parse_tokens,
)

POSITIVE = st.floats(0, 1e12, allow_nan=False)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, MISSING),
        (0, "0.00 ms"),
        (0.0139, "13.9 ms"),
        (0.00042, "0.42 ms"),
        (0.25, "250 ms"),
        (1, "1.00 s"),
        (12.34, "12.3 s"),
        (75, "1 min 15 s"),
        (120, "2 min"),
        (1700, "28 min"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (-0.0139, "-13.9 ms"),
    ],
)
def test_a_duration_has_the_precision_that_a_reader_can_use(seconds: float | None, text: str) -> None:
    assert format_seconds(seconds) == text


@given(st.floats(0.0001, 1e6))
def test_a_duration_reads_back_within_its_precision(seconds: float) -> None:
    text = format_seconds(seconds)

    # From a minute on whole seconds are shown, from ten minutes on whole minutes.
    precision = 31 if seconds >= 599 else 0.51 if seconds >= 59 else 0.0051 * seconds + 6e-6
    assert parse_seconds(text) == pytest.approx(seconds, abs=precision)


@given(st.floats(1e-9, 1e6), st.floats(1e-9, 1e6))
def test_durations_never_change_their_order(one: float, two: float) -> None:
    short, long = sorted((one, two))

    assert parse_seconds(format_seconds(short)) <= parse_seconds(format_seconds(long)) + 1e-9


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, MISSING),
        (0, "0.00"),
        (0.0312, "0.031"),
        (0.31, "0.31"),
        (9.99, "9.99"),
        (9.996, "10.0"),
        (12.34, "12.3"),
        (99.96, "100"),
        (1234.5, "1234"),
    ],
)
def test_numbers_and_rates_have_three_digits(value: float | None, text: str) -> None:
    assert format_number(value) == text
    assert format_rate(value) == text


@given(POSITIVE)
def test_no_number_is_written_with_an_exponent(value: float) -> None:
    assert re.fullmatch(r"\d+(\.\d+)?", format_number(value))


def test_shares_and_changes_are_percentages() -> None:
    assert format_ratio(None) == format_change(None) == MISSING
    assert format_ratio(0.0312) == "3.1 %"
    assert format_change(1.12) == "+12.0 %"
    assert format_change(0.86) == "-14.0 %"


@pytest.mark.parametrize(
    ("tokens", "text"), [(None, MISSING), (0, "0"), (256, "256"), (1024, "1K"), (131072, "128K"), (1500, "1500")]
)
def test_token_counts_are_spelled_as_in_sweeps(tokens: int | None, text: str) -> None:
    assert format_tokens(tokens) == text


@given(st.integers(0, 10**9))
def test_token_counts_read_back(tokens: int) -> None:
    assert parse_tokens(format_tokens(tokens)) == tokens


def test_sizes_are_binary() -> None:
    assert format_bytes(None) == MISSING
    assert format_bytes(512) == "512 B"
    assert format_bytes(2048) == "2.00 KiB"
    assert format_bytes(3650722201) == "3.40 GiB"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("10m", 600), ("12h", 43200), ("1h30m", 5400), ("250ms", 0.25), ("2 min", 120), ("1d", 86400)],
)
def test_durations_of_sweeps(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "m", "ten minutes", "10 apples", "-5m", "5m!"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["", "8k", "1.5K", "K", "-1", "8 KB"])
def test_what_is_no_token_count(text: str) -> None:
    with pytest.raises(ValueError, match="not a token count"):
        parse_tokens(text)


def test_shares_of_sweeps() -> None:
    assert parse_ratio("3%") == pytest.approx(0.03)
    assert parse_ratio("0.03") == pytest.approx(0.03)
    for text in ("", "three", "-3%", "3%%"):
        with pytest.raises(ValueError, match="not a share"):
            parse_ratio(text)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_seconds, parse_tokens, parse_ratio):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert "not a" in str(error)
