"""A template of a compose document -> the document, and a document -> the text that docker compose reads. Pure.

A template is YAML. Names in braces are filled in after it was parsed, and text becomes YAML with every ``$`` doubled,
so a value stays one argument or one variable, whatever it holds. ``{if: x, then: y}`` is y where x holds, else nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from harness.recipe.template import fill, names_in

_IF, _THEN = "if", "then"
_ABSENT = object()
_ENVIRONMENT = "environment"


def filled(template: Any, texts: Mapping[str, str], conditions: Mapping[str, bool]) -> Any:
    """Return the template with its names filled in and its conditions decided.

    Args:
        template: parsed YAML.
        texts: by name.
        conditions: by name; a condition that is not here is a variable among the texts, and holds where it is on.

    Raises:
        ValueError: a name has no value, outside ``environment``, where the entry is left out.
    """
    document = _filled(template, texts, conditions)
    return {} if document is _ABSENT else document


def names_of(template: Any) -> frozenset[str]:
    """Return every name that the template uses, also in conditions."""
    if isinstance(template, str):
        return frozenset(names_in(template))
    if isinstance(template, list):
        return frozenset().union(*(names_of(item) for item in template))
    if isinstance(template, dict):
        names = frozenset().union(*(names_of(value) for value in template.values()))
        return names | {template[_IF]} if _is_conditional(template) else names
    return frozenset()


def compose_text(document: Mapping[str, Any]) -> str:
    """Return YAML that docker compose reads back as the document: text in quotes, and nothing to interpolate."""
    return yaml.dump(
        _doubled(document), Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=2**31, allow_unicode=False
    )


class _Dumper(yaml.SafeDumper):
    """All text in double quotes: YAML versions differ in what plain text is a number or a truth value."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


_Dumper.add_representer(str, _quoted)


def _filled(part: Any, texts: Mapping[str, str], conditions: Mapping[str, bool]) -> Any:
    if isinstance(part, str):
        return fill(part, texts)
    if isinstance(part, list):
        return _items(part, texts, conditions)
    if not isinstance(part, dict):
        return part
    if _is_conditional(part):
        return _filled(part[_THEN], texts, conditions) if _holds(part[_IF], texts, conditions) else _ABSENT
    pairs = {
        key: _environment(value, texts) if key == _ENVIRONMENT else _filled(value, texts, conditions)
        for key, value in part.items()
    }
    return {key: value for key, value in pairs.items() if value is not _ABSENT}


def _items(part: list[Any], texts: Mapping[str, str], conditions: Mapping[str, bool]) -> list[Any]:
    items: list[Any] = []
    for item in part:
        value = _filled(item, texts, conditions)
        if value is _ABSENT:
            continue
        spliced = isinstance(item, dict) and _is_conditional(item) and isinstance(value, list)
        items += value if spliced else [value]
    return items


def _environment(variables: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, str]:
    return {
        name: fill(template, texts)
        for name, template in variables.items()
        if all(each in texts for each in names_in(template))
    }


def _is_conditional(part: Mapping[str, Any]) -> bool:
    return set(part) == {_IF, _THEN}


def _holds(name: str, texts: Mapping[str, str], conditions: Mapping[str, bool]) -> bool:
    return conditions[name] if name in conditions else texts.get(name, "") not in ("", "0")


def _doubled(part: Any) -> Any:
    if isinstance(part, str):
        return part.replace("$", "$$")
    if isinstance(part, Mapping):
        return {key: _doubled(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_doubled(value) for value in part]
    return part
