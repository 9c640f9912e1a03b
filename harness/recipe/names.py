"""Every spelling of a knob -> its neutral name, and a written value -> its one form. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from harness.errors import InputError
from harness.recipe.knob import shown
from harness.recipe.schema import ENV_PREFIX, EnvironmentVariable, Recipe
from harness.records.cell import KnobValue
from harness.yaml_model import did_you_mean

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"(^|_)(KEYS?|TOKEN|SECRET|PASSWORD)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """What a spelling stands for."""

    neutral: str
    warning: str | None = None


class KnobNames:
    """The spellings of one recipe, indexed once."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._spellings = {name: Naming(neutral=name) for name in recipe.knobs}
        for name, knob in recipe.knobs.items():
            self._spellings |= {_bare(spelling): Naming(neutral=name) for spelling in knob.spelled}
            for spelling, warning in knob.deprecated.items():
                self._spellings[_bare(spelling)] = Naming(neutral=name, warning=f"{spelling}: {warning}")

    def find(self, written: str) -> Naming:
        """Return what ``written`` stands for.

        Raises:
            InputError: no knob of the recipe, and no variable that it lets a sweep set; with the nearest names.
        """
        naming = self._spellings.get(_bare(written))
        if naming is not None:
            return naming
        recipe = self._recipe
        if written.startswith(ENV_PREFIX) and recipe.environment_variables.allowed:
            return Naming(neutral=_variable(written, recipe.environment_variables.never))
        if recipe.launch.style == "attach":
            what = f'{recipe.recipe} cannot set "{written}": the server is already running'
            raise InputError(what, hint="Only load knobs can be varied on a server that is not launched here.")
        raise InputError(f'unknown knob "{written}" in recipe {recipe.recipe}', hint=self.hint(written))

    def hint(self, written: str, *, beside: tuple[str, ...] = ()) -> str:
        """Return the nearest spelling of ``written``, and the knobs that there are (``beside`` others)."""
        close = did_you_mean(written, {*self._spellings, *beside}, limit=0).partition("?")
        guess = f"{close[0]}? " if close[1] else ""
        known = sorted({*self._recipe.knobs, *beside})
        free = ", env.NAME" if self._recipe.environment_variables.allowed else ""
        return f"{guess}Known here: {', '.join(known)}{free}."

    def read(self, neutral: str, raw: Any) -> KnobValue:
        """Return a value of a neutral name in its one form. Raises ValueError that says what is allowed."""
        knob = self._recipe.knobs.get(neutral)
        return read_variable(raw) if knob is None else knob.read(raw)

    def canonical(self, knobs: Mapping[str, Any]) -> tuple[dict[str, KnobValue], tuple[str, ...]]:
        """Return knobs by neutral name with values in their one form, and warnings. Raises InputError."""
        values: dict[str, KnobValue] = {}
        warnings: list[str] = []
        for written, raw in knobs.items():
            naming = self.find(written)
            if naming.neutral in values:
                raise InputError(f'"{written}" is {naming.neutral}, which is set already')
            try:
                values[naming.neutral] = self.read(naming.neutral, raw)
            except ValueError as problem:
                raise InputError(f"{written}: {problem}") from problem
            warnings += [naming.warning] if naming.warning else []
        return values, tuple(warnings)


def known_variable(recipe: Recipe, name: str) -> EnvironmentVariable | None:
    """Return what the recipe knows of a variable that is no knob; ``name`` without "env."."""
    known = recipe.environment_variables.known
    if name in known:
        return known[name]
    return next((about for pattern, about in known.items() if fnmatchcase(name, pattern)), None)


def looks_secret(name: str) -> bool:
    """Return whether a variable of this name holds what nobody may read."""
    return _SECRET.search(name.upper()) is not None


def read_variable(raw: Any) -> KnobValue:
    """Return the value of a free variable; "1" and 1 are one value. Raises ValueError."""
    if isinstance(raw, bool):
        raise ValueError(f'a variable holds text: write 1 or 0, or "{shown(raw)}" in quotes')
    if isinstance(raw, int | float):
        return raw
    if not isinstance(raw, str):
        raise ValueError(f"expected one value, not {shown(raw)}")
    if "\n" in raw or "\r" in raw:
        raise ValueError("a variable holds one line")
    return int(raw) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", raw) else raw


def _variable(written: str, never: Mapping[str, str]) -> str:
    name = _bare(written)
    if not _VARIABLE.fullmatch(name):
        raise InputError(f'"{name}" cannot be the name of an environment variable')
    for pattern, because in never.items():
        if fnmatchcase(name, pattern):
            raise InputError(f"a sweep cannot set {name}: {because}")
    if looks_secret(name):
        hint = "Export it in the shell: what a sweep sets is written to records and reports."
        raise InputError(f"{name} looks like a secret, which has no place in a sweep", hint=hint)
    return written


def _bare(spelling: str) -> str:
    return spelling.removeprefix(ENV_PREFIX)
