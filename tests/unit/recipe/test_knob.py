"""Values of knobs: one form for each, and a plain reason for every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from harness.recipe.knob import Knob, honoured_by
from harness.recipe.names import read_variable


def knob(**fields: Any) -> Knob:
    return Knob(help="test", **fields)


@pytest.mark.parametrize(
    ("fields", "raw", "value"),
    [
        ({"type": "int"}, 8, 8),
        ({"type": "int"}, "8K", 8192),
        ({"type": "int"}, "1M", 1024 * 1024),
        ({"type": "float"}, 1, 1.0),
        ({"type": "float"}, "90%", 0.9),
        ({"type": "bool"}, False, False),
        ({"type": "string"}, "010", "010"),
        ({"type": "choice", "values": (0, 1)}, 1, 1),
        ({"type": "choice", "values": ("off", "low")}, "off", "off"),
        ({"type": "list"}, ["--seed", 3, "a b"], "--seed 3 'a b'"),
        ({"type": "list"}, "--seed  3 'a b'", "--seed 3 'a b'"),
        ({"type": "list"}, [], ""),
        ({"type": "string", "names": {"tiny": "org/tiny"}}, "tiny", "tiny"),
        ({"type": "string", "names": {"tiny": "org/tiny"}}, "org/tiny", "tiny"),
        ({"type": "string", "names": {"tiny": "org/tiny"}}, "org/other", "org/other"),
        ({"type": "string", "names": {"tiny": "org/tiny:1@sha256:ab"}}, "org/tiny:1", "tiny"),
        ({"type": "string", "names": {"tiny": "org/tiny:1@sha256:ab"}}, "org/tiny:1@sha256:cd", "org/tiny:1@sha256:cd"),
        ({"type": "int", "values": (1, 2), "names": {}}, 2, 2),
    ],
)
def test_values_have_one_form(fields: dict[str, Any], raw: Any, value: object) -> None:
    read = knob(**fields).read(raw)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("fields", "raw", "reason"),
    [
        ({"type": "int"}, 1.5, "expected a whole number, not 1.5"),
        ({"type": "int"}, True, "expected a whole number, not true"),
        ({"type": "int"}, "8", 'expected a whole number, not "8"'),
        ({"type": "int"}, "8X", 'expected a whole number, not "8X"'),
        ({"type": "int"}, "xK", 'expected a whole number, not "xK"'),
        ({"type": "int"}, "", 'expected a whole number, not ""'),
        ({"type": "float"}, "x%", 'expected a number, not "x%"'),
        ({"type": "float"}, False, "expected a number, not false"),
        ({"type": "bool"}, "off", 'expected true or false, not "off"'),
        ({"type": "bool"}, 1, "expected true or false, not 1"),
        ({"type": "string"}, 5, "expected text, not 5"),
        ({"type": "choice", "values": (0, 1)}, True, "true is not allowed (allowed: 0, 1)"),
        ({"type": "choice", "values": ("a", "b")}, "c", '"c" is not allowed (allowed: "a", "b")'),
        ({"type": "choice"}, {"a": 1}, "expected one value, not {'a': 1}"),
        ({"type": "int", "at_least": 0}, -1, "-1 is too small (at least 0)"),
        ({"type": "float", "at_most": 1}, 1.5, "1.5 is too large (at most 1)"),
        ({"type": "list"}, "a 'b", "not the words of a command line: No closing quotation"),
        ({"type": "list"}, ["a", None], "expected the words of a command line, not ['a', None]"),
        ({"type": "list"}, {"a": 1}, "expected the words of a command line, not {'a': 1}"),
    ],
)
def test_reasons(fields: dict[str, Any], raw: Any, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        knob(**fields).read(raw)
    assert str(caught.value) == reason


def test_images_are_patterns() -> None:
    assert honoured_by((), "anything")
    assert honoured_by(("stage-*",), "stage-c")
    assert not honoured_by(("stage-*",), "anemll-0.1.1")


@pytest.mark.parametrize(
    ("raw", "value"), [(1, 1), ("1", 1), ("-3", -3), ("010", "010"), ("0.5", "0.5"), (0.5, 0.5), ("", "")]
)
def test_a_free_variable_reads_the_same_quoted_or_not(raw: Any, value: object) -> None:
    assert read_variable(raw) == value


@pytest.mark.parametrize("raw", [True, [1], {"a": 1}, "two\nlines"])
def test_what_no_variable_can_hold(raw: Any) -> None:
    with pytest.raises(ValueError, match=r"variable holds|one value"):
        read_variable(raw)
