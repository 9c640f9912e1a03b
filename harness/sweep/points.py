"""Axes -> the combinations that a sweep asks for: launch points (configurations as written) and load points. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import cast

from harness.errors import InputError
from harness.records.cell import KnobValue, LoadPoint
from harness.sweep.axes import Axis, Choice, Named, Reader
from harness.sweep.load_knobs import LoadValue, load_point
from harness.yaml_source import KeyPath

MOST_POINTS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load point, and the values it was made from, for conditions to look at."""

    point: LoadPoint
    values: Mapping[str, LoadValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPoint:
    """One configuration as written, and the loads that it is measured under."""

    knobs: dict[str, KnobValue]
    name: str | None
    path: KeyPath
    loads: LoadSet


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSet:
    """Loads that many configurations share; ``key`` tells one set from another."""

    key: int
    loads: tuple[Load, ...]


class Grid:
    """The product of a sweep's axes, split into what needs a restart and what does not."""

    def __init__(self, axes: Sequence[Axis], reader: Reader, defaults: Mapping[str, LoadValue]) -> None:
        self._reader = reader
        self._defaults = defaults
        self._launch = [axis for axis in axes if all(reader.is_launch(name) for name in axis.names)]
        self._load = [axis for axis in axes if not any(reader.is_launch(name) for name in axis.names)]
        self._mixed = [axis for axis in axes if axis not in self._launch and axis not in self._load]
        self._sets: dict[tuple[int, ...], LoadSet] = {}

    @property
    def fixed(self) -> dict[str, KnobValue]:
        """Launch knobs of one value: named configurations are laid over them."""
        single = [axis for axis in self._launch if not axis.varies]
        return _launch_values(choice for axis in single for choice in axis.choices)

    @property
    def has_launch_axis(self) -> bool:
        """Something that needs a restart varies."""
        return bool(self._mixed) or any(axis.varies for axis in self._launch)

    @property
    def launch_axes(self) -> list[str]:
        """Names of the launch knobs that vary, which no named configuration takes over."""
        return [name for axis in self._launch if axis.varies for name in axis.names]

    def require_size(self, configurations: int, *, where: str) -> None:
        """Raise InputError where nobody could mean so many combinations."""
        launches = prod(len(axis.choices) for axis in self._launch + self._mixed)
        loads = prod(len(axis.choices) for axis in self._load)
        cells = (launches + configurations) * loads
        if cells > MOST_POINTS:
            what = f"the axes multiply to {cells} cells, more than {MOST_POINTS}"
            raise InputError(what, where=where, hint="Fewer values, or `zip` for knobs that vary together.")

    def points(self) -> list[LaunchPoint]:
        """Every combination of the launch knobs, in the order of the file."""
        axes = self._launch + self._mixed
        path = next((axis.path for axis in axes if axis.varies), ("knobs",))
        points = []
        for combination in product(*(range(len(axis.choices)) for axis in axes)):
            choices = [axis.choices[at] for axis, at in zip(axes, combination, strict=True)]
            mixed = combination[len(self._launch) :]
            loads = self._loads(mixed)
            points.append(LaunchPoint(knobs=self._knobs(choices), name=None, path=path, loads=loads))
        return points

    def named(self, configuration: Named) -> LaunchPoint:
        """A named configuration over the fixed knobs; one without knobs changes nothing at all."""
        own = cast(dict[str, KnobValue], configuration.single)
        knobs = self.fixed | own if own else {}
        return LaunchPoint(knobs=knobs, name=configuration.name, path=configuration.path, loads=self._every_load())

    def _knobs(self, choices: Iterable[Choice]) -> dict[str, KnobValue]:
        values = {name: value for choice in choices for name, value in choice.items()}
        return _launch_values([{name: value for name, value in values.items() if self._reader.is_launch(name)}])

    def _every_load(self) -> LoadSet:
        """All loads of the sweep: with mixed groups, those of each of their rows."""
        if not self._mixed:
            return self._loads(())
        rows = product(*(range(len(axis.choices)) for axis in self._mixed))
        loads = {load.point: load for row in rows for load in self._loads(row).loads}
        return LoadSet(key=-1, loads=tuple(loads.values()))

    def _loads(self, row: tuple[int, ...]) -> LoadSet:
        known = self._sets.get(row)
        if known is not None:
            return known
        beside = [axis.choices[at] for axis, at in zip(self._mixed, row, strict=True)]
        base = dict(self._defaults)
        for choice in beside:
            base |= {name: value for name, value in choice.items() if not self._reader.is_launch(name)}
        loads = []
        for choices in product(*(axis.choices for axis in self._load)):
            values = base.copy()
            for choice in choices:
                values.update(choice)
            loads.append(Load(point=load_point(values), values=values))
        made = LoadSet(key=len(self._sets), loads=tuple(loads))
        self._sets[row] = made
        return made


def _launch_values(choices: Iterable[Choice]) -> dict[str, KnobValue]:
    return cast(dict[str, KnobValue], {name: value for choice in choices for name, value in choice.items()})
