"""The two arms of a comparison, as the command line or the sweep names them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import InputError
from harness.recipe.rules import check
from harness.recipe.schema import Recipe
from harness.records.cell import Configuration
from harness.sweep.load import Sweep, with_source
from harness.yaml_source import parse_value

BASE, CANDIDATE = "base", "candidate"
_EXAMPLE = "For example --base no_speculation --candidate num_speculative_tokens=5."


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmWords:
    """What the command line says of an arm: a name, or knobs; () leaves it to the sweep."""

    base: tuple[str, ...] = ()
    candidate: tuple[str, ...] = ()
    same: bool = False  # the base against itself


def with_arms(sweep: Sweep, words: ArmWords) -> Sweep:
    """Return the sweep with ``compare`` as the command line says.

    Raises:
        InputError: an arm is missing, or is neither one name nor knobs.
    """
    if words.same and words.candidate:
        raise InputError("--same compares the base with itself", hint="Leave --candidate out.")
    written = sweep.file.compare
    base = _read("--base", words.base) or (written.base if written else None)
    candidate = _read("--candidate", words.candidate) or (written.candidate if written else None)
    if base is None and words.same:
        base = sweep.file.incumbent
    if base is None or (candidate is None and not words.same):
        missing = BASE if base is None else CANDIDATE
        where = sweep.source.where(("compare",))
        raise InputError(f"the comparison has no {missing}", where=where, hint=f"Name it. {_EXAMPLE}")
    source = sweep.source
    if words.same:
        candidate = base
    if written is None or words.same:
        place = " ".join([*(f"--base {word}" for word in words.base), *(f"--candidate {w}" for w in words.candidate)])
        arms = {BASE: base, CANDIDATE: candidate}
        source = source.with_value(("compare",), arms, place or source.where(("incumbent",)))
    else:
        for name, said, raw in ((BASE, words.base, base), (CANDIDATE, words.candidate, candidate)):
            if said:
                source = source.with_value(("compare", name), raw, f"--{name} {' '.join(said)}")
    return with_source(sweep, source)


def factors_between(recipe: Recipe, base: Configuration, candidate: Configuration) -> tuple[str, ...]:
    """Return the knobs in which two configurations are different servers.

    A knob that does nothing in one of them, such as a draft method without speculation, is no factor of its own.
    """
    one, two = check(recipe, base), check(recipe, candidate)
    if recipe.launch.style == "local_process":
        first, second = dict(one.effective), dict(two.effective)
    else:
        first, second = dict(one.configuration.knobs), dict(two.configuration.knobs)
    differing = [name for name in dict.fromkeys((*first, *second)) if first.get(name) != second.get(name)]
    return tuple(
        name
        for name in differing
        if not (_is_inert(recipe, name, beside=one.configuration, value=second.get(name)))
        and not (_is_inert(recipe, name, beside=two.configuration, value=first.get(name)))
    )


def _is_inert(recipe: Recipe, name: str, *, beside: Configuration, value: Any) -> bool:
    if value is None or name in beside.knobs:
        return False
    return name in check(recipe, replace(beside, knobs=beside.knobs | {name: value})).inert


def _read(option: str, words: Sequence[str]) -> Any:
    """One name, or a map of knobs; None: nothing is said."""
    try:
        parts = [part for word in words for part in shlex.split(word)]
    except ValueError as error:
        raise InputError(f"a quote is not closed: {' '.join(words)}", where=option, hint=_EXAMPLE) from error
    if not parts:
        return None
    if len(parts) == 1 and "=" not in parts[0]:
        return parts[0]
    knobs: dict[str, Any] = {}
    for part in parts:
        key, equals, text = part.partition("=")
        if not equals or not key:
            raise InputError(f'neither one name nor KNOB=VALUE: "{part}"', where=option, hint=_EXAMPLE)
        knobs[key] = parse_value(text, place=f"{option} {part}")
    return knobs
