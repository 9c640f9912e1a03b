"""The table of doubts is the same in the code and in the documentation."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import harness.stats
from harness.stats.kinds import KINDS, as_markdown, doubt

DOCS = Path(__file__).parents[3] / "docs" / "doubts.md"


def test_docs_hold_the_table_of_the_code() -> None:
    assert as_markdown() in DOCS.read_text()


def test_every_kind_is_raised_by_some_check() -> None:
    literals = {
        node.value
        for file in Path(harness.stats.__path__[0]).glob("*.py")
        if file.name != "kinds.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(KINDS) <= literals


def test_a_kind_that_is_not_declared_is_a_bug() -> None:
    with pytest.raises(KeyError):
        doubt("unheard_of", "", "")


def test_void_comes_from_the_kind() -> None:
    assert doubt("engine_restarted", "", "").void
    assert not doubt("too_few_drafts", "", "").void
