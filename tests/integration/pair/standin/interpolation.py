"""Variables in compose files and their env files, as compose has them: ``$A``, ``${A:-x}``, ``${A:?why}``, ``$$``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATORS = (":-", ":+", ":?", "-", "+", "?")

Unset = Callable[[str], None]


class InterpolationError(Exception):
    """The text has no meaning, or a variable that it requires is missing."""


def interpolate(text: str, variables: Mapping[str, str], *, on_unset: Unset = lambda name: None) -> str:
    """Return the text with its variables replaced. What replaces them is not looked at again.

    Args:
        text: of one scalar.
        variables: what is set.
        on_unset: called with each name that is neither set nor has a default.

    Raises:
        InterpolationError: a lone dollar, an open brace, or a required variable that is not set.
    """
    parts: list[str] = []
    at = 0
    while (dollar := text.find("$", at)) >= 0:
        parts.append(text[at:dollar])
        value, at = _one(text, dollar, variables, on_unset)
        parts.append(value)
    return "".join([*parts, text[at:]])


def _one(text: str, dollar: int, variables: Mapping[str, str], on_unset: Unset) -> tuple[str, int]:
    """The value of what stands at ``dollar``, and where it ends."""
    following = text[dollar + 1 : dollar + 2]
    if following == "$":
        return "$", dollar + 2
    if following == "{":
        end = _closing(text, dollar + 2)
        return _braced(text[dollar + 2 : end], variables, on_unset), end + 1
    if match := _NAME.match(text, dollar + 1):
        return _plain(match[0], variables, on_unset), match.end()
    raise InterpolationError(
        f'invalid interpolation format: "{text[dollar : dollar + 40]}". You may need to escape any $ with another $'
    )


def _closing(text: str, at: int) -> int:
    """Where the brace ends that was opened before ``at``."""
    depth = 1
    while at < len(text):
        if text.startswith("$$", at):
            at += 2
            continue
        if text.startswith("${", at):
            depth += 1
            at += 2
            continue
        if text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise InterpolationError(f'invalid interpolation format: "${{{text[:40]}" is not closed')


def _braced(inside: str, variables: Mapping[str, str], on_unset: Unset) -> str:
    match = _NAME.match(inside)
    if match is None:
        raise InterpolationError(f'invalid interpolation format: "${{{inside}}}"')
    name, rest = match[0], inside[match.end() :]
    if not rest:
        return _plain(name, variables, on_unset)
    operator = next((each for each in _OPERATORS if rest.startswith(each)), None)
    if operator is None:
        raise InterpolationError(f'invalid interpolation format: "${{{inside}}}"')
    word = rest[len(operator) :]
    value = variables.get(name)
    is_there = value is not None and not (operator.startswith(":") and value == "")
    return _operated(operator[-1], name, word, value if is_there else None, variables, on_unset)


def _operated(
    operator: str, name: str, word: str, value: str | None, variables: Mapping[str, str], on_unset: Unset
) -> str:
    if operator == "+":
        return "" if value is None else interpolate(word, variables, on_unset=on_unset)
    if value is not None:
        return value
    said = interpolate(word, variables, on_unset=on_unset)
    if operator == "?":
        raise InterpolationError(f"required variable {name} is missing a value: {said}")
    return said


def _plain(name: str, variables: Mapping[str, str], on_unset: Unset) -> str:
    if name not in variables:
        on_unset(name)
    return variables.get(name, "")
