"""Env files as compose reads them: not shell, though they look like it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.integration.pair.standin.interpolation import interpolate

_KEY = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.\[\]-]*)[ \t]*(=|:|$)", re.MULTILINE)
_ESCAPES = {**{each: f"\\{each}".encode().decode("unicode_escape") for each in 'abfnrtv"\\'}, "$": "$$"}


class DotenvError(Exception):
    """The file cannot be read."""


def parse_dotenv(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an env file.

    Single quotes keep everything; in double quotes and without quotes variables of the environment and of earlier
    lines are replaced; without quotes a comment begins with a space and a hash.

    Args:
        text: of the file; a byte order mark and carriage returns before line ends are no part of it.
        environment: of the process. It wins over earlier lines, and a key alone takes its value from there.

    Raises:
        DotenvError: a line is no assignment, or a quote is not closed.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found: dict[str, str] = {}
    at = 0
    while (at := _next_key(text, at)) < len(text):
        match = _KEY.match(text, at)
        if match is None:
            raise DotenvError(f'unexpected character in variable name near "{text[at : at + 40]!r}"')
        key = match[1]
        if match[2] in ("=", ":"):
            found[key], at = _value(text, match.end(), {**found, **environment})
        else:
            at = match.end()
            if key in environment:
                found[key] = environment[key]
    return found


def _next_key(text: str, at: int) -> int:
    """Where the next line begins that is neither empty nor a comment."""
    while at < len(text):
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text) or text[at] != "#":
            break
        at = _line_end(text, at)
    return at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _value(text: str, at: int, variables: Mapping[str, str]) -> tuple[str, int]:
    while at < len(text) and text[at] in " \t":
        at += 1
    quote = text[at : at + 1]
    if quote in ("'", '"') and quote:
        return _quoted(text, at, quote, variables)
    end = _line_end(text, at)
    line = text[at:end]
    comment = re.search(r"(?:^|[ \t])#", line)
    plain = line[: comment.start()] if comment else line
    return interpolate(plain.rstrip(), variables), end


def _quoted(text: str, at: int, quote: str, variables: Mapping[str, str]) -> tuple[str, int]:
    """The value that begins at a quote. A backslash keeps a quote of either kind from ending it, unlike in a shell."""
    inside, end = "", at + 1
    while end < len(text) and text[end] != quote:
        pair = text[end : end + 2]
        if pair == f"\\{quote}":
            inside, end = inside + quote, end + 2
        elif pair.startswith("\\"):
            inside, end = inside + pair, end + 2
        else:
            inside, end = inside + pair[0], end + 1
    if end >= len(text):
        raise DotenvError(f"unterminated quoted value {text[at : _line_end(text, at)]}")
    if quote == "'":
        return inside, end + 1
    unescaped = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), inside, flags=re.DOTALL)
    return interpolate(unescaped, variables), end + 1
