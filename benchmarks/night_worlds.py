"""Series of nights for the tables of benchmarks.nightly: each world drawn once, and what of its mornings they need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from benchmarks.night_draw import FROM, STEP, Drift, Step, World, mornings
from benchmarks.verdicts import Table, share
from harness.records.nightly import NightVerdict
from harness.stats.morning import Morning


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What of a morning the tables need."""

    verdict: NightVerdict
    launches: int
    gate: bool  # a series fell out of the baseline, and the night counts
    gate_above: bool
    shapes: dict[str, tuple[str, bool]]  # of the changes that stand, by figure: step or drift, and whether it is worse
    cause: str

    @property
    def change(self) -> bool:
        """A change for the worse stands."""
        return any(worse for _, worse in self.shapes.values())


Series = list[Said]


def said(world: World, seed: int) -> Series:
    """Return a series of mornings in short."""
    return [_short(one) for one in mornings(world, seed)]


def _short(morning: Morning) -> Said:
    judged = morning.verdict != "doubtful"
    return Said(
        verdict=morning.verdict,
        launches=max(len(values) for values in morning.night.figures.values()),
        gate=judged and any(one.regressed for one in morning.figures),
        gate_above=judged and any(one.improved for one in morning.figures),
        shapes={
            one.name: (one.change.shape, one.change.log_ratio < 0) for one in morning.figures if one.change is not None
        },
        cause=morning.cause,
    )


@dataclass(slots=True)
class Worlds:
    """Series by world, each drawn once for all tables."""

    series: int
    pool: ProcessPoolExecutor | None = None
    known: dict[World, list[Series]] = field(default_factory=dict)

    def of(self, world: World) -> list[Series]:
        """Return the mornings of every series of a world."""
        self.draw(world)
        return self.known[world]

    def draw(self, *worlds: World) -> None:
        """Draw series of worlds, each seed in all of them at once: their first nights are the same."""
        missing = [world for world in dict.fromkeys(worlds) if world not in self.known]
        run, seeds = partial(_in_each, missing), range(self.series)
        drawn = list(self.pool.map(run, seeds) if self.pool else map(run, seeds)) if missing else []
        for at, world in enumerate(missing):
            self.known[world] = [series[at] for series in drawn]


def _in_each(worlds: Sequence[World], seed: int) -> list[Series]:
    return [said(world, seed) for world in worlds]


QUIET = {sd: World(launch_sd=sd) for sd in (0.02, 0.035)}


def dropped(ratio: float, *, figure: str = STEP, sd: float = 0.02, **changes: object) -> World:
    """Return a world in which a figure is worse by a share from one night on."""
    step = Step(figure=figure, log_ratio=math.log(1 - ratio), night=FROM)
    return replace(World(launch_sd=sd, moves=step), **changes)  # type: ignore[arg-type] # fields by name


DRIFTING = World(launch_sd=0.02, moves=Drift(figure=STEP, per_night=math.log(1 - 0.003), night=FROM))


def first(series: Series, true: Callable[[Said], bool], *, start: int = FROM) -> int | None:
    """Return how many nights after ``start`` something is said, 0 for that night; None where it never is."""
    return next((at for at, one in enumerate(series[start:]) if true(one)), None)


def within(found: Sequence[int | None], nights: int) -> int:
    """Return in how many series it was said within so many nights."""
    return sum(at is not None and at < nights for at in found)


def episodes(series: Series, true: Callable[[Said], bool]) -> int:
    """Return how often something begins to be said."""
    flags = [true(one) for one in series]
    return sum(now and not before for before, now in zip([False, *flags], flags, strict=False))


def row(table: Table, cells: Sequence[object], *, kept: bool | None = None) -> None:
    """Add a row to a table.

    Args:
        table: to add to.
        cells: without that of the limit.
        kept: None: no limit holds for it.
    """
    if kept is None and table.judged:
        table.rows.append([*map(str, cells), ""])
    else:
        table.add(cells, kept=kept is not False)


def rate(count: int, of: int) -> str:
    """Alarms a series, with the exact interval where each series has one at most."""
    return share(count, of) if count <= of else f"{count / of:.3f}"
