"""Every command that the READMEs show is one that the program takes, on files that are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from harness.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("recipes/*/README.md")))
_COMMAND = re.compile(r"^(?:    |`)?(?:\.venv/bin/)?harness [a-z].*$", re.MULTILINE)
_INLINE = re.compile(r"`(harness [a-z][^`]*)`")


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [match[0].strip() for match in _COMMAND.finditer(text) if match[0].startswith(("    ", "harness"))]
        for line in dict.fromkeys([*lines, *_INLINE.findall(text.replace("\n", " "))]):
            yield str(page.relative_to(ROOT)), line.split("  #")[0].strip()


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_a_command_of_a_readme_is_one(page: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(line)[1:]
    group: click.Command = cli
    names: list[str] = []
    while isinstance(group, click.Group) and words:
        found = group.get_command(click.Context(group), words[0])
        if found is None and "|" in words[0]:
            return  # a list of sub-commands
        assert found is not None, f"{page}: no command {' '.join([*names, words[0]])}"
        names.append(words.pop(0))
        group = found
    if words:
        group.make_context(" ".join(names), list(words), resilient_parsing=False)
    files = [word for word in words if word.startswith(("sweeps/", "recipes/"))]
    assert all((ROOT / file).exists() for file in files), files
