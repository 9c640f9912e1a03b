"""Knobs -> the environment variables by which an engine's scripts read them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from harness.errors import InputError
from harness.recipe.knob import Knob, shown
from harness.recipe.schema import ENV_PREFIX, Recipe
from harness.recipe.template import fill
from harness.records.cell import NUM_SPECULATIVE_TOKENS, KnobValue

# What a shell, or a script that puts a value between quotes, would run or end a word at.
_CODE = re.compile("[`$\"'\\\\;&|<>()\x00-\x1f\x7f]")
_PLAIN = "Write a value without control characters and without ` $ \" ' \\ ; & | < > ( )."


class Assignment(NamedTuple):
    """One variable, and the knob that it comes from."""

    knob: str  # by its neutral name, or env.NAME
    variable: str
    text: str


def assignments(recipe: Recipe, knobs: Mapping[str, KnobValue]) -> Iterator[Assignment]:
    """Yield the variables that carry these knobs, in the recipe's order, then those that env.NAME names.

    k = 0 is carried by none: no engine takes it as a value, and a launch leaves the speculative config out instead.
    A knob that no variable carries is left out.
    """
    for name, knob in recipe.launch_knobs.items():
        if name in knobs and not (name == NUM_SPECULATIVE_TOKENS and knobs[name] == 0):
            for variable, text in _of_knob(knob, knobs[name]):
                yield Assignment(name, variable, text)
    for name, value in knobs.items():
        if name.startswith(ENV_PREFIX):
            yield Assignment(name, name.removeprefix(ENV_PREFIX), _text(value))


def engine_variables(recipe: Recipe, knobs: Mapping[str, KnobValue]) -> dict[str, str]:
    """Return the variables that carry these knobs. See assignments."""
    return {each.variable: each.text for each in assignments(recipe, knobs)}


def spelled_out(recipe: Recipe, name: str, knobs: Mapping[str, KnobValue]) -> str | None:
    """Return a text knob's value with a short name written out; None where it has no value."""
    value = knobs.get(name)
    return None if value is None else _meaning(recipe.knobs[name], value)


def require_no_code(recipe: Recipe, knobs: Mapping[str, KnobValue]) -> None:
    """Refuse what a checkout's scripts would run: they execute the env file, and quote values for another shell.

    Raises:
        InputError: names the knob.
    """
    for each in assignments(recipe, knobs):
        match = _CODE.search(each.text)
        if match is not None:
            what = f"{each.knob} = {shown(each.text)}: the recipe's scripts would run what stands after {match[0]!r}"
            raise InputError(what, where=recipe.recipe, hint=_PLAIN)


def _of_knob(knob: Knob, value: KnobValue) -> Iterator[tuple[str, str]]:
    if knob.sets is None:
        return
    text = _meaning(knob, value)
    if knob.sets.environment is not None:
        yield knob.sets.environment, text
    repository, _, revision = text.partition("@")
    parts = {
        "value": text,
        "repository": repository,
        "revision": revision,
        "model": repository.rpartition("/")[2].lower(),
    }
    for variable, template in knob.sets.variables.items():
        yield variable, fill(template, parts)


def _meaning(knob: Knob, value: KnobValue) -> str:
    return knob.names.get(value, value) if isinstance(value, str) else _text(value)


def _text(value: KnobValue) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
