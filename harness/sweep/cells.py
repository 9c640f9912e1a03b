"""Sweep and recipe -> what is measured: cells grouped by configuration, and what is not, with reasons. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from harness.errors import InputError
from harness.recipe.rules import Verdict, check, same_server_key
from harness.recipe.schema import Recipe
from harness.records.cell import CellGroup, Configuration, KnobValue, LoadPoint, Refusal
from harness.records.plan import CollapsedConfigurations
from harness.sweep.axes import Named, Reader, Weights, raise_problems
from harness.sweep.exclusion import CellRules, Exclusion
from harness.sweep.load import Sweep
from harness.sweep.load_knobs import FROM_TRACE, LoadValue, load_knobs_of, read_load_value
from harness.sweep.points import Grid, LaunchPoint, Load

TODAY = "today"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """A sweep worked out. The loads of one that replays a trace are patterns: class and length come from the trace."""

    groups: tuple[CellGroup, ...]  # each configuration once, in the order of the file
    refusals: tuple[Refusal, ...]
    collapsed: tuple[CollapsedConfigurations, ...]
    excluded_configurations: int
    excluded_cells: int
    notes: tuple[str, ...]
    incumbent: Configuration | None  # None: the sweep names none, and has no `today`
    weights: Weights = field(default_factory=dict)  # of `mix`, by knob and value

    @property
    def cells(self) -> int:
        """Number of cells."""
        return sum(len(group.loads) for group in self.groups)


def expand(sweep: Sweep, recipe: Recipe, *, arms_only: bool = False) -> Expansion:
    """Return what a sweep asks for, as far as the recipe allows it.

    Args:
        sweep: as loaded.
        recipe: the one that it names.
        arms_only: the arms of `compare` alone, over the fixed knobs; both must boot.

    Raises:
        InputError: a knob or value is wrong, nothing is left to measure, every arm would be the same server,
            or something is refused under `on_refused: stop`.
    """
    reader = Reader(sweep, recipe)
    axes = reader.axes()
    configurations = reader.configurations()
    lines = reader.excluded()
    arms = _arms(sweep, reader)
    weights = reader.weights()
    raise_problems(reader)
    grid = Grid(axes, reader, _defaults(recipe) | (FROM_TRACE if sweep.replays_trace else {}))
    grid.require_size(len(configurations), where=sweep.source.where(("knobs",)))
    work = _Work(sweep, recipe, Exclusion(lines))
    if arms_only:
        named = _compared(sweep, configurations, arms)
        work.add_all([replace(grid.named(arm), name=name) for arm, name in named])
        work.require_every()
        notes = [*reader.warnings, *_left_to_the_arms(grid, [arm for arm, _ in named])]
    else:
        work.add_all(_points(grid, configurations))
        work.require_something()
        notes = [*reader.warnings, *_notes(grid, configurations), *work.unused()]
    return work.expansion(incumbent=work.incumbent(arms.get("incumbent"), grid), notes=notes, weights=weights)


def _left_to_the_arms(grid: Grid, arms: Sequence[Named]) -> list[str]:
    unsaid = [name for name in grid.launch_axes if any(name not in arm.single for arm in arms)]
    if not unsaid:
        return []
    names = ", ".join(unsaid)
    return [f"an arm has what it names itself, else what the recipe has, of what the sweep varies: {names}"]


@dataclass(slots=True)
class _Server:
    """Points that are one server, as they come up."""

    verdict: Verdict
    same_as: list[Configuration] = field(default_factory=list)
    inert: list[str] = field(default_factory=list)
    loads: dict[LoadPoint, None] = field(default_factory=dict)


class _Work:
    """Collects servers, refusals and counts, point by point."""

    def __init__(self, sweep: Sweep, recipe: Recipe, exclusion: Exclusion) -> None:
        self._sweep = sweep
        self._recipe = recipe
        self._exclusion = exclusion
        self._rules = CellRules(recipe)
        self._servers: dict[object, _Server] = {}
        self._refusals: list[Refusal] = []
        self._warnings: dict[str, list[str]] = {}  # said once, with the configurations that it is about
        self._excluded_configurations = 0
        self._excluded_cells = 0

    def add_all(self, points: Sequence[LaunchPoint]) -> None:
        """Take every point."""
        for point in points:
            self._add(point)

    def require_something(self) -> None:
        """Raise InputError where a launch would be pointless."""
        first = self._refusals[0] if self._refusals else None
        where = self._sweep.source.where(("knobs",))
        if first is not None and (self._sweep.file.on_refused == "stop" or not self._servers):
            count = len(self._refusals)
            some = f"{count} of the configurations or cells" if self._servers else "every configuration"
            hint = "\n  ".join(_reasons(self._refusals))
            raise InputError(f"refused before anything is launched: {some}", where=first.where, hint=hint)
        if not self._servers:
            raise InputError("nothing is left to measure", where=where, hint="`exclude` leaves everything out.")
        only = next(iter(self._servers.values()))
        if len(self._servers) == 1 and only.same_as and first is None:
            what = f"all {len(only.same_as) + 1} configurations would be the same server"
            raise InputError(what, where=where, hint=_because(only) + ".")

    def require_every(self) -> None:
        """Raise InputError where one of two arms cannot boot."""
        if self._refusals:
            first = self._refusals[0]
            raise InputError(f"an arm cannot boot: {first.because}", where=first.where, hint=first.source)

    def unused(self) -> list[str]:
        """Lines of `exclude` that match nothing, in words."""
        return [f"exclude matches nothing: {self._at(line)}" for line in self._exclusion.unused()]

    def expansion(self, *, incumbent: Configuration | None, notes: Sequence[str], weights: Weights) -> Expansion:
        """What was collected."""
        servers = list(self._servers.values())
        return Expansion(
            groups=tuple(CellGroup(configuration=_kept(each), loads=tuple(each.loads)) for each in servers),
            refusals=tuple(self._refusals),
            collapsed=tuple(
                CollapsedConfigurations(kept=_kept(each), same_as=tuple(each.same_as), because=_because(each))
                for each in servers
                if each.same_as
            ),
            excluded_configurations=self._excluded_configurations,
            excluded_cells=self._excluded_cells,
            notes=(*notes, *(f"{_listed(labels)}: {said}" for said, labels in self._warnings.items())),
            incumbent=incumbent,
            weights=weights,
        )

    def incumbent(self, arm: Named | None, grid: Grid) -> Configuration | None:
        """The configuration that gains are measured against, measured here or not. Raises InputError if unclear."""
        if arm is None:
            return self._named(str(self._sweep.file.incumbent))
        knobs = cast(dict[str, KnobValue], arm.single)
        fits = [each for each in self._servers.values() if self._fits(each, knobs)]
        if len(fits) > 1:
            what = f"the incumbent fits {len(fits)} configurations"
            raise self._sweep.source.error(arm.path, what, hint="Name more of the knobs that vary.")
        if fits:
            return _kept(fits[0])
        wanted = Configuration(recipe=self._recipe.recipe, knobs=grid.fixed | knobs, name="incumbent")
        self._warn("it is none of the configurations that are measured, so gains have no reference", "incumbent")
        return check(self._recipe, wanted).configuration

    def _named(self, name: str) -> Configuration | None:
        for server in self._servers.values():
            if name in (server.verdict.configuration.name, *(same.name for same in server.same_as)):
                return _kept(server)
        return None

    def _fits(self, server: _Server, knobs: dict[str, KnobValue]) -> bool:
        """Whether the knobs are this server's, those that do nothing beside them left out."""
        verdict = server.verdict
        own = verdict.configuration.knobs
        if any(own.get(name, value) != value for name, value in knobs.items()):
            return False  # a depth does nothing beside a server without a drafter, which is no server of that depth
        beside = check(
            self._recipe, Configuration(recipe=self._recipe.recipe, knobs=verdict.configuration.knobs | knobs)
        )
        return same_server_key(self._recipe, beside) == same_server_key(self._recipe, verdict)

    def _add(self, point: LaunchPoint) -> None:
        written = Configuration(recipe=self._recipe.recipe, knobs=point.knobs, name=point.name)
        verdict = check(self._recipe, written)
        matched = verdict.configuration.knobs | point.knobs
        if self._exclusion.leaves_out(matched):
            self._excluded_configurations += 1
        elif verdict.because is not None:
            self._refuse(verdict, point, verdict.because, verdict.source)
        else:
            self._measure(written, verdict, point, self._exclusion.dropped(matched, point.loads))

    def _measure(self, written: Configuration, verdict: Verdict, point: LaunchPoint, dropped: frozenset[int]) -> None:
        for warning in verdict.warnings:
            self._warn(warning, written.label)
        against = {} if self._sweep.replays_trace else self._refused_cells(verdict, point, dropped)
        gone = dropped.union(*against.values()) if against else dropped
        loads = point.loads.loads
        self._excluded_cells += len(dropped)
        kept = (
            [load.point for at, load in enumerate(loads) if at not in gone] if gone else [each.point for each in loads]
        )
        if not kept:
            self._excluded_configurations += 0 if against else 1
            return
        self._take(written, verdict, kept)

    def _refused_cells(
        self, verdict: Verdict, point: LaunchPoint, dropped: frozenset[int]
    ) -> dict[str, frozenset[int]]:
        against: dict[str, frozenset[int]] = {}
        for rule, indices in self._rules.refused(verdict.effective, point.loads):
            left = indices - dropped
            if rule.level == "warn" and left:
                self._warn(rule.because, verdict.configuration.label)
            elif left:
                against[rule.because] = left
                everything = len(left) + len(dropped) == len(point.loads.loads)
                self._refuse(
                    verdict, point, rule.because, rule.source, () if everything else _at(point.loads.loads, left)
                )
        return against

    def _take(self, written: Configuration, verdict: Verdict, loads: list[LoadPoint]) -> None:
        key = same_server_key(self._recipe, verdict)
        server = self._servers.get(key)
        if server is None:
            server = self._servers[key] = _Server(verdict)
        elif verdict.configuration.name and not server.verdict.configuration.name:
            server.same_as.append(server.verdict.configuration)
            server.verdict = verdict
        else:
            server.same_as.append(written)
        server.inert += [name for name in verdict.inert if name not in server.inert]
        server.loads |= dict.fromkeys(loads)

    def _refuse(
        self, verdict: Verdict, point: LaunchPoint, because: str, source: str | None, loads: tuple[LoadPoint, ...] = ()
    ) -> None:
        self._refusals.append(
            Refusal(
                configuration=replace(verdict.configuration, name=point.name),
                because=because,
                source=source,
                where=self._sweep.source.where(point.path),
                loads=loads,
            )
        )

    def _warn(self, warning: str, label: str) -> None:
        self._warnings.setdefault(warning, []).append(label)

    def _at(self, line: Named) -> str:
        return self._sweep.source.where(line.path)


def _points(grid: Grid, configurations: Sequence[Named]) -> list[LaunchPoint]:
    """The grid where something varies in it, or where nothing else is asked for; then the named ones."""
    named = [grid.named(configuration) for configuration in configurations]
    return grid.points() + named if grid.has_launch_axis or not named else named


def _compared(
    sweep: Sweep, configurations: Sequence[Named], arms: Mapping[str, Named]
) -> list[tuple[Named, str | None]]:
    """The arms of `compare` with their names; one that is given as knobs has none."""
    named = {TODAY: Named(name=TODAY, values={}, path=("compare",))} | {one.name: one for one in configurations}
    compare = sweep.file.compare
    assert compare is not None  # sweep.arms.with_arms made it
    found: list[tuple[Named, str | None]] = []
    for arm, raw in (("base", compare.base), ("candidate", compare.candidate)):
        found.append((named[raw], raw) if isinstance(raw, str) else (arms[arm], None))
    return found


def _arms(sweep: Sweep, reader: Reader) -> dict[str, Named]:
    """What is given as knobs where a name could stand."""
    file = sweep.file
    written: dict[str, tuple[tuple[str, ...], Any]] = {"incumbent": (("incumbent",), file.incumbent)}
    if file.compare is not None:
        written["base"] = (("compare", "base"), file.compare.base)
        written["candidate"] = (("compare", "candidate"), file.compare.candidate)
    return {name: reader.arm(path, raw) for name, (path, raw) in written.items() if isinstance(raw, dict)}


def _defaults(recipe: Recipe) -> dict[str, LoadValue]:
    return {name: read_load_value(name, knob, knob.default_value) for name, knob in load_knobs_of(recipe).items()}


def _notes(grid: Grid, configurations: Sequence[Named]) -> list[str]:
    if grid.fixed and configurations and not grid.has_launch_axis:
        return ["no launch knob is a list or range: only the named configurations are measured"]
    return []


def _kept(server: _Server) -> Configuration:
    """The server's configuration, under the name that any of its spellings has."""
    configuration = server.verdict.configuration
    names = [configuration.name, *(same.name for same in server.same_as)]
    return replace(configuration, name=next((name for name in names if name), None))


def _because(server: _Server) -> str:
    if server.inert:
        said = ", ".join(server.inert)
        return f"{said} {'does' if len(server.inert) == 1 else 'do'} nothing in {server.verdict.configuration.label}"
    return "what differs is the recipe's default, or written twice"


def _reasons(refusals: Sequence[Refusal], limit: int = 5) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for refusal in refusals:
        reasons.setdefault(refusal.because, []).append(refusal.configuration.label)
    lines = [f"{_listed(labels)}: {because}" for because, labels in reasons.items()]
    return lines[:limit] + ([f"And {len(lines) - limit} more reasons."] if len(lines) > limit else [])


def _listed(labels: list[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} and {len(labels) - 1} more"


def _at(loads: Sequence[Load], indices: frozenset[int]) -> tuple[LoadPoint, ...]:
    return tuple(loads[at].point for at in sorted(indices))
