"""Plain data with places -> a pydantic model, or one InputError that says where, what and what was meant."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from harness.errors import InputError
from harness.yaml_source import KeyPath, Source, raise_all

DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
_SHARED = "x-shared"


class FileModel(BaseModel):
    """A part of a file that people write: unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], source: Source) -> Model:
    """Return ``source`` as ``model``. Raises InputError that names every problem with its place."""
    try:
        # Through JSON, since strict mode takes no list for a tuple otherwise.
        return model.model_validate_json(json.dumps(source.data))
    except ValidationError as problem:
        # A list whose items are wrong is also reported as too short, which is no second problem.
        errors = [error for error in problem.errors() if error["type"] != "too_short" or not error["input"]]
        problems = [_problem(model, source, error) for error in errors]
        raise_all(list({str(each): each for each in problems}.values()))
        raise  # unreachable: there is at least one


def shared(name: str) -> dict[str, Any]:
    """Return a JSON Schema that stands for the shared definition ``name`` until editor_schema puts it in."""
    return {_SHARED: name}


def editor_schema(model: type[BaseModel], *, title: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file, as small as an editor needs it, with shared definitions."""
    schema = model.model_json_schema(by_alias=True)
    schema["$defs"] = {**schema.get("$defs", {}), **definitions}
    return {"$schema": DRAFT_2020_12, "title": title, **_for_editors(schema)}


def did_you_mean(word: str, known: Iterable[str], *, limit: int = 24) -> str:
    """Return a hint: the nearest of ``known``, and what else there is."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    listed = ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
    guess = f'Did you mean "{close[0]}"? ' if close else ""
    return f"{guess}Known here: {listed or 'nothing'}."


def _for_editors(schema: Any) -> Any:
    """Without the titles that only repeat a key, and with references to shared definitions."""
    if isinstance(schema, list):
        return [_for_editors(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            cleaned[key] = {name: _for_editors(inner) for name, inner in value.items()}
        elif key == _SHARED:
            cleaned["$ref"] = f"#/$defs/{value}"
        elif key != "title":
            cleaned[key] = _for_editors(value)
    return cleaned


def _problem(model: type[BaseModel], source: Source, error: ErrorDetails) -> InputError:
    path = _path_in(source.data, error["loc"])
    inside = _dotted(path[:-1])
    if error["type"] == "extra_forbidden":
        what = f'unknown key "{path[-1]}"' + (f" in {inside}" if inside else "")
        return source.error(path, what, hint=did_you_mean(str(path[-1]), _known_at(model, path[:-1])), value=False)
    if error["type"] == "missing":
        missing = str(error["loc"][-1])
        parent = _dotted(path)
        return source.error(path, f'"{missing}" is missing' + (f" in {parent}" if parent else ""), value=False)
    name = _dotted(path)
    said = _plain_words(error)
    return source.error(path, f"{name}: {said}" if name else said)


def _plain_words(error: ErrorDetails) -> str:
    """pydantic's message in the words of a YAML file."""
    shown = _shown(error["input"])
    expected = _EXPECTED.get(error["type"])
    if expected is not None:
        return f"expected {expected}, not {shown}"
    bound = _BOUNDS.get(error["type"])
    if bound is not None:
        return f"{shown} is not allowed ({bound.format(**error.get('ctx', {}))})"
    message = error["msg"].removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


_BOUNDS = {
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
    "literal_error": "allowed: {expected}",
    "string_pattern_mismatch": "form: {pattern}",
    "string_too_short": "it must not be empty",
    "too_short": "it must not be empty",
}
_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _path_in(tree: Any, loc: tuple[str | int, ...]) -> KeyPath:
    """The part of ``loc`` that exists in the file: pydantic also names union branches and "[key]"."""
    path: list[str | int] = []
    for step in loc:
        if isinstance(tree, dict) and step in tree:
            tree = tree[str(step)]
        elif isinstance(tree, list) and isinstance(step, int) and step < len(tree):
            tree = tree[step]
        else:
            continue
        path.append(step)
    return tuple(path)


def _dotted(path: KeyPath) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _known_at(model: type[BaseModel], path: KeyPath) -> set[str]:
    """The keys that are allowed at ``path``, over every model that may stand there."""
    places: list[Any] = [model]
    for step in path:
        places = [inner for place in places for inner in _below(place, step)]
    return {field.alias or name for place in places for name, field in _fields(place).items()}


def _fields(annotation: Any) -> dict[str, Any]:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation.model_fields if is_model else {}


def _below(annotation: Any, step: str | int) -> list[Any]:
    for name, field in _fields(annotation).items():
        if step in (name, field.alias):
            return _unwrapped(field.annotation)
    arguments = [argument for argument in get_args(annotation) if argument is not ...]
    return _unwrapped(arguments[-1]) if arguments else []


def _unwrapped(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return [inner for argument in get_args(annotation) for inner in _unwrapped(argument)]
    if hasattr(annotation, "__metadata__"):
        return _unwrapped(get_args(annotation)[0])
    return [annotation]
