"""`exclude`, and rules about cells: which loads of a configuration are left out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from harness.recipe.matcher import all_match
from harness.recipe.rules import Values, with_derived
from harness.recipe.schema import LOAD_KNOBS, Recipe, Rule
from harness.records.cell import KnobValue, OutputLength
from harness.sweep.axes import Named
from harness.sweep.load_knobs import LoadValue
from harness.sweep.points import Load, LoadSet

Indices = frozenset[int]


@dataclass(slots=True)
class _Line:
    """A line of `exclude`, split by what it is about."""

    named: Named
    launch: dict[str, tuple[LoadValue, ...]]
    load: dict[str, tuple[LoadValue, ...]]
    used: bool = False


class Exclusion:
    """The lines of `exclude`. Load conditions are looked at once per set of loads, not once per cell."""

    def __init__(self, lines: Sequence[Named]) -> None:
        self._lines = [_split(line) for line in lines]
        self._matched: dict[tuple[int, int], Indices] = {}

    def leaves_out(self, knobs: Mapping[str, KnobValue]) -> bool:
        """Whether a whole configuration is left out."""
        hits = [line for line in self._lines if not line.load and _holds(line.launch, knobs)]
        for line in hits:
            line.used = True
        return bool(hits)

    def dropped(self, knobs: Mapping[str, KnobValue], loads: LoadSet) -> Indices:
        """The loads of a configuration that are left out, by position."""
        dropped: Indices = frozenset()
        for at, line in enumerate(self._lines):
            if line.load and _holds(line.launch, knobs):
                matched = self._loads(at, line, loads)
                line.used = line.used or bool(matched)
                dropped |= matched
        return dropped

    def unused(self) -> list[Named]:
        """Lines that matched nothing: probably a slip."""
        return [line.named for line in self._lines if not line.used]

    def _loads(self, at: int, line: _Line, loads: LoadSet) -> Indices:
        key = (at, loads.key)
        if key not in self._matched:
            found = (index for index, load in enumerate(loads.loads) if _holds(line.load, load.values))
            self._matched[key] = frozenset(found)
        return self._matched[key]


class CellRules:
    """Rules of the recipe that name load knobs."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._rules = recipe.cell_rules
        self._matched: dict[tuple[int, int], tuple[Indices, Indices]] = {}

    def refused(self, effective: Values, loads: LoadSet) -> list[tuple[Rule, Indices]]:
        """Each rule that is against some loads of a configuration, with their positions."""
        if not self._rules:
            return []
        values = with_derived(self._recipe, effective)
        found = ((rule, self._against(at, rule, values, loads)) for at, rule in enumerate(self._rules))
        return [(rule, indices) for rule, indices in found if indices]

    def _against(self, at: int, rule: Rule, values: Values, loads: LoadSet) -> Indices:
        if not all_match(_about(rule.when, load=False), values):
            return frozenset()
        when, required = self._loads(at, rule, loads)
        if rule.require and all_match(_about(rule.require, load=False), values):
            return when - required
        return when

    def _loads(self, at: int, rule: Rule, loads: LoadSet) -> tuple[Indices, Indices]:
        key = (at, loads.key)
        if key not in self._matched:
            self._matched[key] = (_matching(rule.when, loads.loads), _matching(rule.require, loads.loads))
        return self._matched[key]


def _matching(condition: Mapping[str, object], loads: Sequence[Load]) -> Indices:
    about = _about(condition, load=True)
    return frozenset(index for index, load in enumerate(loads) if all_match(about, _plain(load.values)))


def _about(condition: Mapping[str, object], *, load: bool) -> dict[str, object]:
    return {name: matcher for name, matcher in condition.items() if (name in LOAD_KNOBS) == load}


def _plain(values: Mapping[str, LoadValue]) -> dict[str, KnobValue]:
    """An answer's length counts as its tokens, natural or not."""
    tokens = {name: value.tokens for name, value in values.items() if isinstance(value, OutputLength)}
    return cast(dict[str, KnobValue], {**values, **tokens})


def _split(line: Named) -> _Line:
    launch = {name: values for name, values in line.values.items() if name not in LOAD_KNOBS}
    load = {name: values for name, values in line.values.items() if name in LOAD_KNOBS}
    return _Line(line, launch, load)


def _holds(condition: Mapping[str, tuple[LoadValue, ...]], values: Mapping[str, LoadValue]) -> bool:
    return all(values.get(name) in allowed for name, allowed in condition.items())
