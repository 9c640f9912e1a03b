"""Knobs as a sweep writes them -> named values, against the recipe. Every problem is collected with its place. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import InputError
from harness.recipe.knob import Knob, shown
from harness.recipe.names import KnobNames
from harness.recipe.schema import Recipe
from harness.sweep.load import Sweep
from harness.sweep.load_knobs import AS_RECORDED, LoadValue, load_knobs_of, read_load_value
from harness.sweep.ranges import range_values
from harness.sweep.schema import SweepFile
from harness.yaml_source import KeyPath, Source, plain_scalar, raise_all

Choice = Mapping[str, LoadValue]  # values of the knobs that vary together
Weights = Mapping[str, Mapping[LoadValue, float]]  # of the values of load knobs; what is not named counts 1
_RANGE_KEYS = frozenset(("from", "to", "step", "factor"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One knob, or several that vary together (zip). One choice is a fixed value."""

    names: tuple[str, ...]
    choices: tuple[Choice, ...]
    path: KeyPath  # where it stands
    varies: bool  # written as a list or range, even if of one value


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Knobs under a name, or a condition of `exclude`: a knob may have several values there."""

    name: str
    values: Mapping[str, tuple[LoadValue, ...]]
    path: KeyPath

    @property
    def single(self) -> dict[str, LoadValue]:
        """The one value of each knob."""
        return {knob: values[0] for knob, values in self.values.items()}


class Reader:
    """Reads the knobs of one sweep against one recipe; collects problems and warnings."""

    def __init__(self, sweep: Sweep, recipe: Recipe) -> None:
        self._sweep = sweep
        self._source: Source = sweep.source
        self._names = KnobNames(recipe)
        self._launch_knobs = recipe.launch_knobs
        self._load_knobs = load_knobs_of(recipe)
        self.problems: list[InputError] = []
        self.warnings: list[str] = []

    def axes(self) -> list[Axis]:
        """The axes in the order of the file: `knobs`, then the groups of `zip`."""
        file = self._sweep.file
        written = {path: raw for path, raw in self._knob_entries(file)}
        neutral = self._neutral_names(written)
        axes = [self._axis(path, neutral[path], raw) for path, raw in written.items() if path in neutral]
        groups: dict[str, list[Axis]] = {}
        for axis in axes:
            if axis is not None and axis.path[0] == "zip":
                groups.setdefault(str(axis.path[1]), []).append(axis)
        single = [axis for axis in axes if axis is not None and axis.path[0] == "knobs"]
        zipped = [self._zipped(name, members) for name, members in groups.items()]
        return single + [axis for axis in zipped if axis is not None]

    def configurations(self) -> list[Named]:
        """The named configurations, without the fixed knobs."""
        file = self._sweep.file
        named = [self.condition(name, ("configurations", name), raw) for name, raw in file.configurations.items()]
        for each in named:
            self._require_single(each)
            self._require_launch_knobs(each)
        return named

    def excluded(self) -> list[Named]:
        """The lines of `exclude`."""
        lines = enumerate(self._sweep.file.exclude)
        return [self.condition(f"exclude[{index}]", ("exclude", index), raw) for index, raw in lines]

    def arm(self, path: KeyPath, raw: Any) -> Named:
        """Knobs where a name could stand too (`incumbent`, `compare`)."""
        named = self.condition(".".join(map(str, path)), path, raw)
        self._require_single(named)
        self._require_launch_knobs(named)
        return named

    def condition(self, name: str, path: KeyPath, raw: Mapping[str, Any]) -> Named:
        """A map of knobs to a value or several."""
        neutral = self._neutral_names({(*path, written): value for written, value in raw.items()})
        values: dict[str, tuple[LoadValue, ...]] = {}
        for knob_path, knob in neutral.items():
            written = raw[str(knob_path[-1])]
            items = written if isinstance(written, list) and not self._takes_list(knob) else [written]
            paths = [(*knob_path, at) if items is written else knob_path for at in range(len(items))]
            read = [self._value(knob, item, at) for item, at in zip(items, paths, strict=True)]
            values[knob] = tuple(value for value in read if value is not None)
            if not items:
                self.problems.append(self._source.error(knob_path, f"{knob_path[-1]}: an empty list matches nothing"))
        return Named(name=name, values={knob: each for knob, each in values.items() if each}, path=path)

    def weights(self) -> Weights:
        """What `mix` says: for each knob of the load, the weight of each value."""
        found: dict[str, dict[LoadValue, float]] = {}
        for written, weights in (self._sweep.file.mix or {}).items():
            if written == "by":
                continue
            with self._collected(("mix", written), value=False):
                name = self._neutral(written)
                if self.is_launch(name):
                    raise InputError(f"{name} is a launch knob: it makes arms, which no mix weighs")
                for raw, weight in weights.items():
                    value = self._value(name, plain_scalar(raw), ("mix", written, raw), value=False)
                    if value is not None:
                        found.setdefault(name, {})[value] = float(weight)
        return found

    def is_launch(self, name: str) -> bool:
        """Whether a change of this knob needs a restart; a free variable does."""
        return name not in self._load_knobs

    def _knob_entries(self, file: SweepFile) -> Iterator[tuple[KeyPath, Any]]:
        for written, raw in file.knobs.items():
            yield ("knobs", written), raw
        for group, members in file.zip.items():
            for written, raw in members.items():
                yield ("zip", group, written), raw

    def _neutral_names(self, written: Mapping[KeyPath, Any]) -> dict[KeyPath, str]:
        """Path -> neutral name. A knob that stands twice is a problem, unless --set says it again."""
        found: dict[str, KeyPath] = {}
        for path in written:
            with self._collected(path, value=False):
                name = self._neutral(str(path[-1]))
                first = found.get(name)
                if first is None or (self._is_set(path) and not self._is_set(first)):
                    found[name] = path
                elif not (self._is_set(first) and not self._is_set(path)):
                    raise InputError(_twice(name, path, first, self._source))
        return {path: name for name, path in sorted(found.items(), key=lambda item: list(written).index(item[1]))}

    def _is_set(self, path: KeyPath) -> bool:
        return path[0] == "knobs" and path[1] in self._sweep.set_knobs

    def _neutral(self, written: str) -> str:
        if written in self._load_knobs:
            return written
        try:
            naming = self._names.find(written)
        except InputError as problem:
            if problem.what.startswith("unknown knob"):
                hint = self._names.hint(written, beside=tuple(self._load_knobs))
                raise InputError(problem.what, hint=hint) from problem
            raise
        if naming.warning and naming.warning not in self.warnings:
            self.warnings.append(naming.warning)
        return naming.neutral

    def _axis(self, path: KeyPath, name: str, raw: Any) -> Axis | None:
        written = self._items(path, name, raw)
        values: list[LoadValue] = []
        for item, at in written.items:
            value = self._value(name, item, at)
            if value is not None and value in values and path[0] != "zip":
                self.problems.append(self._source.error(at, f"{path[-1]}: {_written(item)} stands twice"))
            elif value is not None:
                values.append(value)
        choices = tuple({name: value} for value in values)
        return Axis(names=(name,), choices=choices, path=path, varies=written.varies) if choices else None

    def _items(self, path: KeyPath, name: str, raw: Any) -> _Items:
        if isinstance(raw, dict) and not _RANGE_KEYS.isdisjoint(raw):
            with self._collected(path, about=str(path[-1])):
                return _Items([(item, path) for item in range_values(raw)], varies=True)
            return _Items([], varies=True)
        if not isinstance(raw, list) or self._takes_list(name, raw):
            return _Items([(raw, path)], varies=False)
        if not raw:
            self.problems.append(self._source.error(path, f"{path[-1]}: the axis is empty"))
        return _Items([(item, (*path, at)) for at, item in enumerate(raw)], varies=True)

    def _zipped(self, group: str, members: list[Axis]) -> Axis | None:
        path: KeyPath = ("zip", group)
        lengths = {axis.names[0]: len(axis.choices) for axis in members}
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            self.problems.append(
                self._source.error(path, f"zip.{group}: values that vary together differ in number: {said}")
            )
            return None
        rows = zip(*(axis.choices for axis in members), strict=True)
        choices = tuple({name: value for choice in row for name, value in choice.items()} for row in rows)
        if any(choice in choices[:at] for at, choice in enumerate(choices)):
            self.problems.append(self._source.error(path, f"zip.{group}: one combination stands twice"))
        return Axis(names=tuple(lengths), choices=choices, path=path, varies=True)

    def _value(self, name: str, raw: Any, path: KeyPath, *, value: bool = True) -> LoadValue | None:
        about = name if path[0] == "mix" else self._shown_name(path, name)
        with self._collected(path, about=about, value=value):
            if raw is None:
                raise ValueError("there is no value (leave the key out to keep what is)")
            if raw == AS_RECORDED and name in self._load_knobs and not self._sweep.replays_trace:
                raise ValueError("as_recorded needs a trace: name one in `workload`")
            return self._read(name, raw)
        return None

    def _read(self, name: str, raw: Any) -> LoadValue:
        knob = self._load_knobs.get(name)
        return self._names.read(name, raw) if knob is None else read_load_value(name, knob, raw)

    def _shown_name(self, path: KeyPath, name: str) -> str:
        written = next((str(step) for step in reversed(path) if isinstance(step, str)), name)
        return written if written == name else f"{written} ({name})"

    def _takes_list(self, name: str, raw: Any = None) -> bool:
        """A knob whose one value is a list of words: only a list of lists is an axis there."""
        knob: Knob | None = self._launch_knobs.get(name)
        is_list = knob is not None and knob.type == "list"
        return is_list and not (isinstance(raw, list) and any(isinstance(item, list) for item in raw))

    def _require_single(self, named: Named) -> None:
        for knob, values in named.values.items():
            if len(values) > 1:
                self.problems.append(self._source.error((*named.path,), f"{named.name}: {knob} has several values"))

    def _require_launch_knobs(self, named: Named) -> None:
        for knob in named.values:
            if not self.is_launch(knob):
                what = f"{named.name}: {knob} is a load knob, which is no part of a configuration"
                self.problems.append(self._source.error((*named.path, knob), what, value=False))

    def _collected(self, path: KeyPath, *, about: str | None = None, value: bool = True) -> _Collected:
        return _Collected(
            self, lambda problem: self._source.error(path, _said(problem, about), hint=_hint(problem), value=value)
        )


@dataclass(frozen=True, slots=True)
class _Items:
    items: list[tuple[Any, KeyPath]]
    varies: bool


class _Collected:
    """Takes an InputError or ValueError of its block down as a problem, and goes on."""

    def __init__(self, reader: Reader, placed: Callable[[Exception], InputError]) -> None:
        self._reader = reader
        self._placed = placed

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> bool:
        if not isinstance(problem, InputError | ValueError):
            return False
        self._reader.problems.append(self._placed(problem))
        return True


def _said(problem: Exception, about: str | None) -> str:
    if isinstance(problem, InputError):
        return problem.what
    return f"{about}: {problem}" if about else str(problem)


def _hint(problem: Exception) -> str | None:
    return problem.hint if isinstance(problem, InputError) else None


def raise_problems(reader: Reader) -> None:
    """Raise what the reader has collected, in the order in which it was found."""
    raise_all(reader.problems)


def _twice(name: str, path: KeyPath, first: KeyPath, source: Source) -> str:
    spelled = f' as "{path[-1]}"' if path[-1] != name else ""
    return f'{name} is set twice: here{spelled}, and as "{first[-1]}" at {source.where(first)}'


def _written(item: Any) -> str:
    return shown(item) if not isinstance(item, dict | list) else str(item)
