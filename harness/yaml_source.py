"""YAML text -> plain data that remembers where each value stands. The YAML 1.2 core schema, and nothing beyond it.

PyYAML's own loaders read ``no`` as False, ``010`` as 8 and keep the last of two equal keys, so only its parser is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

from harness.errors import InputError

Scalar = None | bool | int | float | str
KeyPath = tuple[str | int, ...]

MAX_BYTES = 1 << 20
_MAX_DEPTH = 32
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_PLACE = re.compile(r":(\d+):(\d+)$")
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A mapping read from a file, with the place of every key and list item."""

    name: str  # of the file, as the user wrote it
    text: str
    data: dict[str, Any]
    keys: Mapping[KeyPath, str] = field(repr=False)  # path -> "file:line:column" of the key, or of the list item
    values: Mapping[KeyPath, str] = field(repr=False)  # path -> the same of the value

    @property
    def sha256(self) -> str:
        """Of the text as it was read."""
        return sha256(self.text.encode()).hexdigest()

    def where(self, path: KeyPath, *, value: bool = False) -> str:
        """Return "file:line:column" of a key (of its value on request), or of its nearest parent that exists."""
        places = self.values if value else self.keys
        for length in range(len(path), -1, -1):
            place = places.get(path[:length])
            if place is not None:
                return place
        return self.name

    def error(self, path: KeyPath, what: str, *, hint: str | None = None, value: bool = True) -> InputError:
        """Return an InputError that points at ``path``: at its value, or at its key."""
        return InputError(what, where=self.where(path, value=value), hint=hint)

    def with_value(self, path: KeyPath, data: Any, place: str) -> Source:
        """Return a copy in which ``path`` holds ``data``, said at ``place`` (a command-line option)."""
        tree = _replaced(self.data, path, data)
        places = {known: where for known, where in self.keys.items() if known[: len(path)] != path}
        values = {known: where for known, where in self.values.items() if known[: len(path)] != path}
        return replace(self, data=tree, keys={**places, path: place}, values={**values, path: place})


def read_source(path: Path) -> Source:
    """Return the mapping in a YAML file.

    Raises:
        InputError: it cannot be read, is not UTF-8, is not one YAML mapping, or uses what this loader refuses.
    """
    name = str(path)
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", where=name) from problem
    if size > MAX_BYTES:
        raise InputError(f"{size} bytes are too many for a hand-written file", where=name, hint="At most 1 MiB.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        column = problem.start - (content.rfind(b"\n", 0, problem.start) + 1) + 1
        raise InputError("not UTF-8 text", where=f"{name}:{line}:{column}", hint="Save the file as UTF-8.") from problem
    return parse_source(text, name=name)


def parse_source(text: str, *, name: str) -> Source:
    """Return the mapping in ``text``; ``name`` is what errors call the file. Raises InputError as read_source does."""
    node = _compose(text, name)
    if node is None:
        raise InputError("the file is empty", where=name)
    if not isinstance(node, yaml.MappingNode):
        where = _place(name, node.start_mark)
        raise InputError("expected a mapping", where=where, hint="Write keys and values: `key: value`.")
    reading = _Reading(name)
    data = reading.read(node, ())
    raise_all(reading.problems)
    return Source(name=name, text=text, data=data, keys=reading.keys, values=reading.values)


def parse_value(text: str, *, place: str) -> Any:
    """Return one YAML value written on a command line. Raises InputError at ``place``."""
    node = _compose(text, place, fixed_place=place)
    if node is None:
        return None
    reading = _Reading(place, fixed_place=place)
    value = reading.read(node, ())
    raise_all(reading.problems)
    return value


def raise_all(problems: list[InputError], *, limit: int = 10) -> None:
    """Raise one InputError that names every problem, in the order of the file; return if there is none."""
    if not problems:
        return
    first, *rest = sorted(problems, key=_line_and_column)
    lines = [first.hint] if first.hint else []
    lines += [_also(problem) for problem in rest[: limit - 1]]
    if len(problems) > limit:
        lines.append(f"And {len(problems) - limit} more.")
    raise InputError(first.what, where=first.where, hint="\n  ".join(lines) or None)


def _also(problem: InputError) -> str:
    """A further problem; what is known in its place is said for the first one only."""
    said = f"Also: {problem.where}: {problem.what}" if problem.where else f"Also: {problem.what}"
    hint = (problem.hint or "").partition("Known here:")[0].strip().replace("\n", "\n  ")
    return f"{said}\n    {hint}" if hint else said


def _line_and_column(problem: InputError) -> tuple[int, int]:
    place = _PLACE.search(problem.where or "")
    return (int(place[1]), int(place[2])) if place else (0, 0)


def _replaced(tree: Any, path: KeyPath, data: Any) -> Any:
    if not path:
        return data
    head, rest = path[0], path[1:]
    branch = dict(tree) if isinstance(tree, dict) else {}
    branch[str(head)] = _replaced(branch.get(str(head)), rest, data)
    return branch


def _compose(text: str, name: str, *, fixed_place: str | None = None) -> yaml.Node | None:
    def place(mark: yaml.Mark | None) -> str:
        return fixed_place or (_place(name, mark) if mark else name)

    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except _RefusedError as problem:
        raise InputError(problem.what, where=place(problem.mark), hint=problem.hint) from None
    except yaml.reader.ReaderError as problem:
        line = text.count("\n", 0, problem.position) + 1
        column = problem.position - text.rfind("\n", 0, problem.position)
        where = fixed_place or f"{name}:{line}:{column}"
        raise InputError("a control character that YAML does not allow", where=where) from problem
    except yaml.MarkedYAMLError as problem:
        what, hint = _syntax_problem(problem)
        raise InputError(what, where=place(problem.problem_mark or problem.context_mark), hint=hint) from problem
    except (ValueError, OverflowError) as problem:  # "\UFFFFFFFF" and the like reach chr() unchecked
        raise InputError("an escape that is no character", where=fixed_place or name) from problem


def _syntax_problem(problem: yaml.MarkedYAMLError) -> tuple[str, str | None]:
    said = " ".join(part for part in (problem.context, problem.problem) if part)
    if "'\\t'" in said:
        return "a tab where YAML wants spaces", "Indent with spaces."
    if "expected a single document" in said:
        return "more than one YAML document", "Keep one document in a file: remove the `---` between them."
    return f"not valid YAML: {said}", None


def _place(name: str, mark: yaml.Mark) -> str:
    return f"{name}:{mark.line + 1}:{mark.column + 1}"


class _RefusedError(Exception):
    def __init__(self, what: str, mark: yaml.Mark, hint: str) -> None:
        super().__init__(what)
        self.what, self.mark, self.hint = what, mark, hint


class _Loader(yaml.SafeLoader):
    """PyYAML's parser; refuses anchors, tags and depth before anything is built from them."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # untyped in the stubs
        mark = event.start_mark
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _RefusedError("anchors and aliases (& and *) are not used here", mark, "Write the value out.")
        if getattr(event, "tag", None) is not None:
            raise _RefusedError(
                "tags (!) are not used here", mark, "Put text that looks like a tag or number in quotes."
            )
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _RefusedError(f"nested deeper than {_MAX_DEPTH} levels", mark, "No key needs that.")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Reading:
    """One walk over the nodes: collects data, places and problems."""

    def __init__(self, name: str, *, fixed_place: str | None = None) -> None:
        self.name = name
        self.fixed_place = fixed_place
        self.keys: dict[KeyPath, str] = {}
        self.values: dict[KeyPath, str] = {}
        self.problems: list[InputError] = []

    def read(self, node: yaml.Node, path: KeyPath) -> Any:
        self.values[path] = self._at(node)
        self.keys.setdefault(path, self._at(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return self._guarded(lambda: _scalar(node), node)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key is None:
                continue
            if key in tree:
                first = self.keys[(*path, key)].removeprefix(f"{self.name}:")
                self._problem(key_node, f'duplicate key "{key}"', f"First written at {first}.")
                continue
            self.keys[(*path, key)] = self._at(key_node)
            tree[key] = self.read(value_node, (*path, key))
        return tree

    def _key(self, node: yaml.Node) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._problem(node, "a key must be plain text", "Quote it if it holds brackets or braces.")
        elif node.value == "<<" and node.style is None:
            self._problem(node, "merge keys (<<) are not used here", "Write the values out.")
        elif not node.value:
            self._problem(node, "a key is empty", None)
        elif _UNUSABLE.search(node.value):
            self._problem(node, "a key holds a character that no program accepts", None)
        else:
            return str(node.value)
        return None

    def _guarded(self, read: Callable[[], Scalar], node: yaml.Node) -> Scalar:
        try:
            return read()
        except ValueError as problem:
            self._problem(node, str(problem), None)
            return None

    def _problem(self, node: yaml.Node, what: str, hint: str | None) -> None:
        self.problems.append(InputError(what, where=self._at(node), hint=hint))

    def _at(self, node: yaml.Node) -> str:
        return self.fixed_place or _place(self.name, node.start_mark)


def _scalar(node: yaml.ScalarNode) -> Scalar:
    text = str(node.value)
    if _UNUSABLE.search(text):
        raise ValueError("the text holds a character that no program accepts")
    if node.style is not None:
        return text
    return plain_scalar(text)


def plain_scalar(text: str) -> Scalar:
    """Return what unquoted text means in the YAML 1.2 core schema. Raises ValueError if it is no finite number."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not isfinite(number):
            raise ValueError(f"{text[:20]} is too large for a number")
        return number
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a number to work with")
    return text


def _integer(text: str) -> int:
    if len(text) > 300:
        raise ValueError(f"a number of {len(text)} digits is too large")
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text, base)
