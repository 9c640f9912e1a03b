"""The env file of a checkout: what is read from it, what is written, and that bash reads the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.engine.pair.envfile import normalised, parse_env, problems_of, with_values
from harness.errors import InputError

VALUES = st.text(st.characters(codec="utf-8", exclude_characters="'\n\r\0", exclude_categories=("Cs",)), max_size=30)
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,12}", fullmatch=True).filter(lambda name: name not in ("PATH", "IFS", "UID"))


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=5", "5"),
        ("A=", ""),
        ("A='x y'", "x y"),
        ('A="x \\"y\\" # z"', 'x "y" # z'),
        ("A=x # a comment", "x"),
        ("A=x#y", "x#y"),
        ("export A=5", "5"),
        ("  A=5  ", "5"),
        ("A=${HOME}/.cache", "${HOME}/.cache"),
        ("A==dev0,dev1", "=dev0,dev1"),
        ("A=1\nA=2", "2"),
        ("\ufeffA=5\r", "5"),
        ("#A=5", None),
    ],
)
def test_what_a_line_assigns(line: str, value: str | None) -> None:
    assert parse_env(line).get("A") == value


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_what_is_written_is_read_back(values: dict[str, str]) -> None:
    assert parse_env(with_values("A=operator\n", values)) == {"A": "operator"} | values


@settings(max_examples=25, deadline=None)
@given(value=VALUES)
def test_bash_reads_the_value_and_runs_none_of_it(value: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("env") / "file"
    file.write_bytes(with_values("MARK=before\n", {"TUNED": value}).encode())

    script = 'set -a; source "$1"; printf "%s\\0%s" "$MARK" "$TUNED"'
    done = subprocess.run(["bash", "-c", script, "bash", str(file)], capture_output=True, check=True)

    assert done.stdout.decode() == f"before\0{value}"
    assert done.stderr == b""


@pytest.mark.parametrize("value", ["it's", "two\nlines", "nul\0", "carriage\rreturn"])
def test_what_bash_and_compose_would_read_differently_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="TUNED"):
        with_values("", {"TUNED": value})


def test_a_name_that_is_code_is_refused() -> None:
    with pytest.raises(InputError, match="name of a variable"):
        with_values("", {"A; rm -rf": "x"})


def test_the_operators_lines_stay_as_they_are() -> None:
    text = "# my pair\nA=${HOME}/x # why\n\nB='b'\n"

    assert with_values(text, {"A": "y"}).startswith(text.rstrip("\n"))


def test_marks_that_break_the_scripts_are_gone() -> None:
    assert normalised("\ufeffA=1\r\nB=2\r\n") == "A=1\nB=2\n"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("NAME=my model", "NAME holds a space"),
        ("echo hello", "no NAME=VALUE"),
        ("A-B=1", "no NAME=VALUE"),
        ('A="x', "not closed"),
        ("A='x", "not closed"),
        ('A="x\\"', "not closed"),
        ('A="x" y', "followed by a word"),
        ("A='x' y", "followed by a word"),
        ("A=x\\", "backslash"),
    ],
)
def test_lines_that_the_scripts_would_run_are_named(line: str, what: str) -> None:
    problems = problems_of(f"A=1\n# comment\n{line}\n")

    assert [(problem.line, what in problem.what) for problem in problems] == [(3, True)]


@pytest.mark.parametrize(
    "line",
    [
        "A=x # comment",
        "A='x y' # z",
        'A="x" # "',
        "A=''",
        'A="\\""',
        'A="x"y',
        "A=x\\\\",
        "A='x y'",
        'A="x y"',
        "A=x\\ y",
        "A=",
        "export A=1",
        "",
    ],
)
def test_lines_that_bash_reads_are_no_problem(line: str) -> None:
    assert problems_of(line) == []


def test_a_file_of_nothing_but_our_values(tmp_path: Path) -> None:
    assert parse_env(with_values("", {"A": "1"})) == {"A": "1"}
