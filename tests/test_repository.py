"""Tests of the repository itself: sizes, names, homes of side effects, and what a released project must not contain."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "harness").rglob("*.py"))
PYTHON = sorted(
    path for folder in ("harness", "tests", "benchmarks", "recipes") for path in (ROOT / folder).rglob("*.py")
)
SWEEPS = sorted((ROOT / "sweeps").glob("*.yaml"))
RECIPES = sorted((ROOT / "recipes").glob("*/recipe.yaml"))
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*"))

MOST_LINES = 400
MOST_FUNCTION_LINES = 60
MOST_PARAMETERS = 6
VAGUE_NAMES = re.compile(r"^(utils?|common|helpers?|core|misc|managers?)$")
PRINTING = ("harness/cli/", "harness/report/terminal.py")
TEXT_SUFFIXES = {".py", ".md", ".yaml", ".yml", ".toml", ".json", ".txt", ".j2", ".html", ".cfg", ".sh", ""}
TEXT_FOLDERS = ("harness", "tests", "benchmarks", "recipes", "sweeps", "schemas", "docs", ".ci", ".github")
UNRELEASABLE = {
    "a path of one person's machine": re.compile(
        r"(?<![\w.$~}<-])/(?:home/(?!(?:someone|you|me)\b)|Users/|root/|work/|workspace/)[\w.-]+"
    ),
    "a file address": re.compile(r"file:///\w"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
    "a token of a service": re.compile(r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16})\b"),
    "an unfinished place": re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b"),
    "a merge conflict": re.compile(r"^(?:<{7} |>{7} )", re.MULTILINE),
    "who typed it": re.compile(
        r"\b(?:claude|copilot|chatgpt|language model assistant)\b|co-authored-by", re.IGNORECASE
    ),
}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_source_files_are_within_the_limits() -> None:
    assert not [relative(path) for path in SOURCES if len(path.read_text().splitlines()) > MOST_LINES]


def test_functions_are_within_the_limits() -> None:
    too_long = [named for named, function in all_functions() if lines_of(function) > MOST_FUNCTION_LINES]
    too_many_parameters = [
        named
        for named, function in all_functions()
        # A command has one parameter per option.
        if parameters_of(function) > MOST_PARAMETERS and not named.startswith("harness/cli/")
    ]

    assert not too_long
    assert not too_many_parameters


def test_imports_stand_at_the_top() -> None:
    hidden = [
        f"{named}: {ast.unparse(node)}"
        for named, function in all_functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]

    # A command imports what it runs when it runs, so that --help answers at once.
    assert not [place for place in hidden if not place.startswith("harness/cli/")]


def test_names_say_what_is_inside() -> None:
    vague = [relative(path) for path in SOURCES if any(VAGUE_NAMES.match(Path(part).stem) for part in path.parts)]

    assert not vague


def test_package_markers_are_empty() -> None:
    assert not [relative(path) for path in SOURCES if path.name == "__init__.py" and path.read_text()]


def test_printing_has_two_homes() -> None:
    printing = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        if not relative(path).startswith(PRINTING)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]

    assert not printing


def test_each_public_module_says_its_job() -> None:
    silent = [
        relative(path)
        for path in PYTHON
        if path.name not in ("__init__.py", "conftest.py") and ast.get_docstring(tree_of(path)) is None
    ]

    assert not silent


def test_nothing_unreleasable_is_inside() -> None:
    found = [
        f"{relative(path)}: {what}: {match[0]}"
        for path in texts()
        if path != Path(__file__)
        for what, pattern in UNRELEASABLE.items()
        if (match := pattern.search(path.read_text(errors="replace"))) is not None
    ]

    assert not found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("see /home/ada/models", "a path of one person's machine"),
        ('open("/root/.cache")', "a path of one person's machine"),
        ("index-url file:///srv/simple", "a file address"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "a private key"),
        ("# TODO later", "an unfinished place"),
        ("Co-Authored-By: a tool", "who typed it"),
    ],
)
def test_the_search_finds_what_it_looks_for(text: str, what: str) -> None:
    assert UNRELEASABLE[what].search(text)
    assert not UNRELEASABLE["a path of one person's machine"].search("~/models, $HOME/x, docs/root/x, /home/you/x")


@pytest.mark.parametrize("path", SWEEPS, ids=relative)
def test_a_sweep_points_editors_to_its_schema(path: Path) -> None:
    first = path.read_text().splitlines()[0]

    assert first == "# yaml-language-server: $schema=../schemas/sweep.json"
    assert (ROOT / "schemas" / "sweep.json").exists()


@pytest.mark.parametrize("path", RECIPES, ids=relative)
def test_a_recipe_points_editors_to_its_schema(path: Path) -> None:
    assert path.read_text().splitlines()[0] == "# yaml-language-server: $schema=../../schemas/recipe.json"


def test_decisions_are_numbered_and_say_four_things() -> None:
    assert DECISIONS
    for number, path in enumerate(DECISIONS, start=1):
        assert re.fullmatch(rf"{number:04}-[a-z0-9]+(-[a-z0-9]+)*\.md", path.name), path.name
        headings = re.findall(r"^## (.+)$", path.read_text(), re.MULTILINE)
        assert headings == ["Problem", "Measured consequence", "Fix", "What guards it"], path.name


def test_the_change_log_has_a_place_for_the_next_release() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text()


def all_functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{relative(path)}:{node.lineno} {node.name}", node


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines without the docstring: explaining more is no fault."""
    docstring = ast.get_docstring(function, clean=False)
    explained = 0 if docstring is None else docstring.count("\n") + 1
    return (function.end_lineno or function.lineno) - function.lineno + 1 - explained


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def texts() -> list[Path]:
    found = [path for path in ROOT.iterdir() if path.is_file() and path.suffix in TEXT_SUFFIXES and path.name != ".git"]
    for folder in TEXT_FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in TEXT_SUFFIXES and "__pycache__" not in path.parts:
                found.append(path)
    return found
