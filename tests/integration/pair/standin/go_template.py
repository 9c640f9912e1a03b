"""The part of Go's templates that people write after ``--format``: fields, index, json, join, len, range, if, with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_ACTION = re.compile(r"\{\{(-)?\s*(.*?)\s*(-)?\}\}", re.DOTALL)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|\(|\)|\||,|:=|[^\s()|,:]+|:')
_MISSING = "<no value>"


class TemplateError(Exception):
    """The template cannot be parsed, or asks for what is not there."""


@dataclass(slots=True)
class _Node:
    kind: str  # text, value, range, if, with
    text: str = ""
    body: list[_Node] = field(default_factory=list)
    otherwise: list[_Node] = field(default_factory=list)


def render(template: str, data: Any) -> str:
    """Return the template filled in from a tree of JSON.

    Raises:
        TemplateError: it is written wrong, or uses what is not known here.
    """
    return _rendered(_parsed(template), data, {"$": data})


def _parsed(template: str) -> list[_Node]:
    root = _Node("with")
    open_blocks = [root]
    targets = [root.body]
    for kind, text in _pieces(template):
        word = text.split(maxsplit=1)[0] if kind == "action" and text else ""
        if word in ("range", "if", "with"):
            node = _Node(word, text[len(word) :].strip())
            targets[-1].append(node)
            open_blocks.append(node)
            targets.append(node.body)
        elif word == "else":
            targets[-1] = open_blocks[-1].otherwise
        elif word == "end":
            open_blocks.pop()
            targets.pop()
            if not targets:
                raise TemplateError("template parsing error: unexpected {{end}}")
        elif not text.startswith("/*"):
            targets[-1].append(_Node("value" if kind == "action" else "text", text))
    if len(targets) != 1:
        raise TemplateError("template parsing error: unexpected EOF")
    return root.body


def _pieces(template: str) -> Iterator[tuple[str, str]]:
    at = 0
    trim = False
    for match in _ACTION.finditer(template):
        text = template[at : match.start()]
        text = text.lstrip() if trim else text
        yield "text", text.rstrip() if match[1] else text
        yield "action", match[2]
        trim, at = match[3] is not None, match.end()
    rest = template[at:]
    if "{{" in rest:
        raise TemplateError("template parsing error: unclosed action")
    yield "text", rest.lstrip() if trim else rest


def _rendered(nodes: Sequence[_Node], dot: Any, variables: dict[str, Any]) -> str:
    return "".join(_one(node, dot, variables) for node in nodes)


def _one(node: _Node, dot: Any, variables: dict[str, Any]) -> str:
    if node.kind == "text":
        return node.text
    if node.kind == "value":
        name, value = _assigned(node.text, dot, variables)
        if name:
            variables[name] = value
            return ""
        return _shown(value)
    if node.kind == "range":
        return _ranged(node, dot, variables)
    value = _pipeline(node.text, dot, variables)
    inner = value if node.kind == "with" else dot
    return _rendered(node.body, inner, variables) if value else _rendered(node.otherwise, dot, variables)


def _assigned(text: str, dot: Any, variables: dict[str, Any]) -> tuple[str, Any]:
    name, sign, rest = text.partition(":=")
    if sign and name.strip().startswith("$"):
        return name.strip(), _pipeline(rest, dot, variables)
    return "", _pipeline(text, dot, variables)


def _ranged(node: _Node, dot: Any, variables: dict[str, Any]) -> str:
    names, sign, rest = node.text.partition(":=")
    over = _pipeline(rest if sign else node.text, dot, variables)
    if not over:
        return _rendered(node.otherwise, dot, variables)
    pairs = sorted(over.items()) if isinstance(over, dict) else enumerate(over)
    wanted = [name.strip() for name in names.split(",")] if sign else []
    parts = []
    for key, value in pairs:
        inner = dict(variables)
        inner.update(zip(reversed(wanted), (value, key), strict=False))
        parts.append(_rendered(node.body, value, inner))
    return "".join(parts)


def _pipeline(text: str, dot: Any, variables: dict[str, Any]) -> Any:
    words = _WORD.findall(text)
    value: list[Any] = []
    stage: list[str] = []
    depth = 0
    for word in [*words, "|"]:
        depth += {"(": 1, ")": -1}.get(word, 0)
        if word == "|" and depth == 0:
            value = [_command(stage, dot, variables, value)]
            stage = []
        else:
            stage.append(word)
    return value[0]


def _command(words: list[str], dot: Any, variables: dict[str, Any], piped: list[Any]) -> Any:
    if not words:
        raise TemplateError("template parsing error: missing value for command")
    if words[0] == "(":
        return _operands(words, dot, variables)[0]
    arguments = _operands(words[1:], dot, variables) + piped
    if words[0] in _FUNCTIONS:
        try:
            return _FUNCTIONS[words[0]](*arguments)
        except (LookupError, TypeError, ValueError) as problem:
            raise TemplateError(f"template: error calling {words[0]}: {problem}") from None
    value = _operand(words[0], dot, variables)
    return value(*arguments) if callable(value) else value


def _operands(words: Sequence[str], dot: Any, variables: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    inner: list[str] = []
    depth = 0
    for word in words:
        if word == ")":
            depth -= 1
        if depth > 0:
            inner.append(word)
        elif word == ")":
            found.append(_pipeline(" ".join(inner), dot, variables))
            inner = []
        elif word != "(":
            found.append(_operand(word, dot, variables))
        if word == "(":
            depth += 1
    return found


def _operand(word: str, dot: Any, variables: dict[str, Any]) -> Any:
    if word[0] in '"`':
        return json.loads(word) if word[0] == '"' else word[1:-1]
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    if word in ("true", "false", "nil"):
        return {"true": True, "false": False, "nil": None}[word]
    name, _, path = word.partition(".")
    if name and name not in variables:
        raise TemplateError(f'template parsing error: function "{name}" not defined')
    value = variables[name] if name else dot
    for step in filter(None, path.split(".")):
        if not isinstance(value, dict) or step not in value:
            raise TemplateError(f"template: can't evaluate field {step}: map has no entry for key")
        value = value[step]
    return value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return _MISSING
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_shown(each)}' for key, each in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_shown, value))}]"
    return str(value)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        value = value.get(key, "") if isinstance(value, dict) else value[key]
    return value


def _json(value: Any) -> str:
    plain = {key: each for key, each in value.items() if not callable(each)} if isinstance(value, dict) else value
    return json.dumps(plain, separators=(",", ":"))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "json": _json,
    "index": _index,
    "len": len,
    "join": lambda values, separator: separator.join(values),
    "split": lambda text, separator: text.split(separator),
    "println": lambda *values: " ".join(map(_shown, values)) + "\n",
    "print": lambda *values: "".join(map(_shown, values)),
    "printf": lambda form, *values: form.replace("%s", "{}").replace("%d", "{}").replace("%v", "{}").format(*values),
    "lower": lambda text: text.lower(),
    "upper": lambda text: text.upper(),
    "eq": lambda first, *others: first in others,
    "ne": lambda first, second: first != second,
    "not": lambda value: not value,
    "and": lambda *values: next((each for each in values if not each), values[-1]),
    "or": lambda *values: next((each for each in values if each), values[-1]),
}
