"""`{name}` in a recipe's text. Strict: an unknown name, a lone brace or a format specifier is an error. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PART = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")


def names_in(template: str) -> tuple[str, ...]:
    """Return the names that a template uses. Raises ValueError for a brace that is no part of one."""
    return tuple(match[1] for match in _parts(template) if match[1])


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return the template with each ``{name}`` replaced. Raises ValueError for a name that has no value."""
    text, at = "", 0
    for match in _parts(template):
        text += template[at : match.start()] + _replacement(match, values)
        at = match.end()
    return text + template[at:]


def only_name(template: str) -> str | None:
    """Return the name if the template is one ``{name}`` and nothing else: there a list may be spliced in."""
    match = _PART.fullmatch(template)
    return match[1] if match else None


def _replacement(match: re.Match[str], values: Mapping[str, str]) -> str:
    if match[1] is None:
        return match[0][0]  # {{ or }}
    if match[1] not in values:
        raise ValueError(f'"{match[1]}" has no value')
    return values[match[1]]


def _parts(template: str) -> list[re.Match[str]]:
    parts = list(_PART.finditer(template))
    for match in parts:
        if match[0] in ("{", "}"):
            raise ValueError(f"a lone {match[0]} in {template!r} (write {match[0] * 2} for the character itself)")
    return parts
