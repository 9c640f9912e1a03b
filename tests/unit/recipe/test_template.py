"""Templates: strict substitution."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.recipe.template import fill, names_in, only_name


def test_names_are_filled_and_doubled_braces_are_braces() -> None:
    assert fill('{a}/{b} {{"k": {k}}}', {"a": "x", "b": "{a}", "k": "3"}) == 'x/{a} {"k": 3}'
    assert names_in("{a}{b}{{c}}") == ("a", "b")


@pytest.mark.parametrize("template", ["{", "}", "a}", "{a!r}", "{a:x}", "{}", "{0}", "{a.b}", "{ a }"])
def test_anything_else_in_braces_is_an_error(template: str) -> None:
    with pytest.raises(ValueError, match="a lone"):
        names_in(template)


def test_a_name_without_a_value_is_an_error() -> None:
    with pytest.raises(ValueError, match='"b" has no value'):
        fill("{a}{b}", {"a": ""})


def test_a_list_may_stand_only_where_the_name_stands_alone() -> None:
    assert only_name("{args}") == "args"
    assert only_name("x{args}") is None
    assert only_name("{{args}}") is None


@given(st.text(max_size=40))
def test_text_with_doubled_braces_comes_back(text: str) -> None:
    assert fill(text.replace("{", "{{").replace("}", "}}"), {}) == text
