"""The env file of a checkout: read as data, never executed here; and the file of one launch made from it.

The scripts of the checkout source the file with bash, and compose reads it again in its own dialect. A value that both
read alike, whatever it holds, is one in single quotes without a single quote in it: that is the only form written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import InputError

_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED = re.compile(r"\\([\"\\$`])")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # as bytes are decoded that are none
_NEVER = ("'", "\n", "\r", "\0")
_HEADER = "# Written by harness for one launch; these override the lines above."


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvProblem:
    """A line that the scripts of the checkout would stumble over."""

    line: int  # from 1
    what: str


def normalised(text: str) -> str:
    """Return the file without byte order mark and carriage returns: all scripts but one fail on those."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def parse_env(text: str) -> dict[str, str]:
    """Return the assignments; the last one of a name wins. References such as ``${HOME}`` stay as they are written."""
    matches = (_ASSIGNMENT.match(line) for line in normalised(text).split("\n"))
    return {match[1]: _unquoted(match[2].strip()) for match in matches if match}


def problems_of(text: str) -> list[EnvProblem]:
    """Return what would make bash run part of the file as a command instead of reading it."""
    found = []
    for number, line in enumerate(normalised(text).split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _ASSIGNMENT.match(line)
        if _NOT_UTF8.search(line):
            found.append(EnvProblem(line=number, what="it is not UTF-8, as compose reads it"))
        elif match is None:
            found.append(EnvProblem(line=number, what="it is no NAME=VALUE; the scripts would run it as a command"))
        elif problem := _problem(match[2].strip()):
            found.append(EnvProblem(line=number, what=f"the value of {match[1]} {problem}"))
    return found


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return the file of a launch: the operator's lines as they are, then ``values``, which win.

    Raises:
        InputError: a name or value cannot be written so that bash and compose read the same.
    """
    lines = [f"{_checked_name(name)}={_quoted(name, value)}" for name, value in values.items()]
    body = normalised(text).rstrip("\n")
    return "\n".join([*([body] if body else []), _HEADER, *lines, ""])


def _quoted(name: str, value: str) -> str:
    if any(character in value for character in _NEVER):
        raise InputError(
            f"{name} cannot be set to a value with a quote or a line break",
            hint="The env file is read by bash and by compose; no spelling of it means the same to both.",
        )
    return f"'{value}'"


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(f"not the name of a variable: {name!r}", hint="Letters, digits and underscores.")
    return name


def _unquoted(value: str) -> str:
    if value.startswith("'"):
        return value[1:].partition("'")[0]
    if value.startswith('"'):
        end = _closing_quote(value)
        return _ESCAPED.sub(r"\1", value[1:end])
    return re.split(r"\s+#", value, maxsplit=1)[0].rstrip()


def _closing_quote(value: str) -> int:
    position = 1
    while position < len(value) and value[position] != '"':
        position += 2 if value[position] == "\\" else 1
    return min(position, len(value))


def _problem(value: str) -> str | None:
    if value[:1] in ("'", '"'):
        end = value.find("'", 1) if value[0] == "'" else _closing_quote(value)
        if not 0 < end < len(value):
            return "has a quote that is not closed on its line"
        return "is followed by a word that the scripts would run" if _second_word(value[end + 1 :]) else None
    if _second_word(value):
        return "holds a space and no quotes; the scripts would run its second word"
    if (len(value) - len(value.rstrip("\\"))) % 2:
        return "ends with a backslash, which takes in the next line"
    return None


def _second_word(text: str) -> bool:
    """Unquoted text goes on after a space, and not with a comment."""
    words = re.split(r"(?<!\\)\s+", text)
    return len(words) > 1 and not words[1].startswith("#")
