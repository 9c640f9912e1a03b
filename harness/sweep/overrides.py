"""`--set KEY=VALUE`: a knob, or a key of the sweep such as budget.time, on top of what the file says. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from harness.errors import InputError
from harness.recipe.names import looks_secret
from harness.sweep.schema import SweepFile
from harness.yaml_model import did_you_mean
from harness.yaml_source import KeyPath, Source, parse_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    """A source with what the command line says, and the knobs that it set."""

    source: Source
    knobs: frozenset[str]  # as written


def apply_overrides(source: Source, overrides: Sequence[str]) -> Overridden:
    """Return the source with each KEY=VALUE applied; a later one wins. Raises InputError that names the option."""
    knobs: set[str] = set()
    for override in overrides:
        key, equals, text = override.partition("=")
        place = f"--set {key}=***" if looks_secret(key.strip()) else f"--set {override}"
        if not equals or not key.strip():
            raise InputError("expected KEY=VALUE", where=place, hint="For example --set num_speculative_tokens=5.")
        path = _path(key.strip(), place)
        source = source.with_value(path, parse_value(text, place=place), place)
        if path[0] == "knobs" and len(path) == 2:
            knobs.add(str(path[1]))
    return Overridden(source=source, knobs=frozenset(knobs))


def _path(key: str, place: str) -> KeyPath:
    head, _, rest = key.partition(".")
    if head == "knobs" and rest:
        return ("knobs", rest)
    if head in SweepFile.model_fields:
        return tuple(key.split("."))
    if rest and get_close_matches(head, SweepFile.model_fields, n=1):
        hint = did_you_mean(head, SweepFile.model_fields)
        raise InputError(f'unknown key "{head}"', where=place, hint=hint)
    return ("knobs", key)
