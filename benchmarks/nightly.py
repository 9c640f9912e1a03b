"""Does a nightly run keep its promises? Simulated series of nights, as Markdown tables for docs/nightly.md.

    python -m benchmarks.nightly                            # every table, 300 series of 90 nights a row (half an hour)
    python -m benchmarks.nightly --write docs/nightly.md    # puts them into the page
    python -m benchmarks.nightly --series 50 --only quiet drift

Launches are drawn by the simulator's noise law (benchmarks.night_draw) and fed to the pure functions that the command
uses; a second launch is drawn where they ask for it. A limit fails where the exact binomial 95 % bound of the observed
rate lies wholly beyond it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean, median

from benchmarks.night_beyond import floor_table, rolling_table, slow_table, speed_table, unseen_table
from benchmarks.night_draw import NIGHTS, TOKENS, Drawn, World
from benchmarks.night_worlds import (
    DRIFTING,
    FROM,
    QUIET,
    Said,
    Series,
    Worlds,
    dropped,
    episodes,
    first,
    rate,
    row,
    within,
)
from benchmarks.verdicts import Table, at_least, at_most, share
from harness.stats.gate import BASELINE_NIGHTS

PROCESSES = 2


def quiet_table(worlds: Worlds) -> Table:
    """Return false alarms of series in which nothing happens but noise and bad nights that the canary marks."""
    table = Table(
        title=f"Nothing happens: false alarms over {NIGHTS} nights, {worlds.series} series a row",
        head=("launches differ by", "alarm", "alarms a series", "asked"),
    )
    asked = {("gate", 0.02): 0.02, ("gate", 0.035): 0.1, ("change point", 0.02): 0.1}
    for sd, world in QUIET.items():
        found = worlds.of(world)
        counts = {
            "gate": sum(episodes(one, lambda said: said.gate) for one in found),
            "change point": sum(episodes(one, lambda said: bool(said.shapes)) for one in found),
            "change point for the worse": sum(episodes(one, lambda said: said.change) for one in found),
            "regressed, by either": sum(episodes(one, lambda said: said.verdict == "regressed") for one in found),
            "improved, by either": sum(episodes(one, lambda said: said.verdict == "improved") for one in found),
        }
        for words, count in counts.items():
            limit = asked.get((words, sd))
            kept = None if limit is None else at_most(min(count, len(found)), len(found), limit)
            row(
                table,
                [f"{sd:.1%}", words, rate(count, len(found)), "" if limit is None else f"at most {limit:g}"],
                kept=kept,
            )
    return table


def cost_table(worlds: Worlds) -> Table:
    """Return what nights cost in launches, and how many say nothing."""
    table = Table(
        title=f"What it costs: nights of the series above, from the {BASELINE_NIGHTS + 1}th on",
        head=("launches differ by", "nights launched twice", "doubtful nights", "of these by the canary"),
        judged=False,
    )
    for sd, world in QUIET.items():
        nights = [said for series in worlds.of(world) for said in series[BASELINE_NIGHTS:]]
        marked = [night for series in range(worlds.series) for night in _slow(world, series)[BASELINE_NIGHTS:]]
        doubtful = fmean(one.verdict == "doubtful" for one in nights)
        row(
            table,
            [
                f"{sd:.1%}",
                f"{fmean(one.launches > 1 for one in nights):.1%}",
                f"{doubtful:.1%}",
                f"{fmean(marked):.1%}",
            ],
        )
    return table


def _slow(world: World, seed: int) -> list[bool]:
    drawn = Drawn(world, seed)
    return [drawn.is_slow(number) for number in range(world.nights)]


def drop_table(worlds: Worlds) -> Table:
    """Return how soon a drop is found."""
    table = Table(
        title=f"A drop from one night on, {worlds.series} series a row",
        head=("launches differ by", "drop", "found by", "the same night", "within 3", "within 7", "asked"),
    )
    asked: dict[tuple[float, float, str], tuple[tuple[int, float], ...]] = {
        (0.02, 0.1, "gate"): ((1, 0.85),),
        (0.02, 0.05, "change point"): ((3, 0.85), (7, 0.97)),
    }
    for sd in QUIET:
        for ratio in (0.1, 0.05):
            found = worlds.of(dropped(ratio, sd=sd))
            for words, true in _FOUND_BY.items():
                nights = [first(series, true) for series in found]
                limits = asked.get((sd, ratio, words), ())
                kept = all(at_least(within(nights, after), len(nights), limit) for after, limit in limits)
                judged = kept if limits else None
                row(
                    table,
                    [
                        f"{sd:.1%}",
                        f"{ratio:.0%} in step time",
                        words,
                        *(share(within(nights, after), len(nights)) for after in (1, 3, 7)),
                        "; ".join(f"within {after}: at least {limit:g}" for after, limit in limits),
                    ],
                    kept=judged,
                )
    return table


_FOUND_BY: dict[str, Callable[[Said], bool]] = {
    "gate": lambda said: said.gate,
    "change point": lambda said: said.change,
    "either": lambda said: said.verdict == "regressed",
}


def drift_table(worlds: Worlds) -> Table:
    """Return how soon a drift is found, before or after the gate fires."""
    table = Table(
        title=f"A drift of 0.3 % a night at 2 % noise, {worlds.series} series",
        head=("what", "share", "asked"),
    )
    found = worlds.of(DRIFTING)
    of = len(found)
    change = [first(series, lambda said: said.change) for series in found]
    tripped = [first(series, lambda said: said.gate) for series in found]
    pairs = list(zip(change, tripped, strict=True))
    in_time = within(change, 20)
    before = sum(one is not None and one < 20 and (two is None or one <= two) for one, two in pairs)
    some_night = within([first(series, _says_drift) for series in found], 20)
    twentieth = sum(_says_drift(series[FROM + 19]) for series in found)
    for words, hits in (
        ("a change point within 20 nights", in_time),
        ("the same, and not after the gate", before),
        ("called a drift on some night of the 20", some_night),
        ("called a drift on the 20th night", twentieth),
    ):
        row(table, [words, share(hits, of), "at least 0.8"], kept=at_least(hits, of, 0.8))
    known = [at for at in change if at is not None]
    row(table, ["night on which half of them were found", f"{median(known) + 1:.0f}" if known else "never", ""])
    return table


def shape_table(worlds: Worlds) -> Table:
    """Return what drifts and steps are called as evidence grows."""
    nights = (10, 15, 20, 25, 30)
    table = Table(
        title=f"Drift or step: what the change is called, by nights since it began, {worlds.series} series a row",
        head=("truth", "called", *(f"night {night}" for night in nights)),
        judged=False,
    )
    for words, world in (
        ("drift of 0.3 % a night", DRIFTING),
        ("step of 5 %", dropped(0.05)),
        ("step of 10 %", dropped(0.1)),
    ):
        for shape in ("drift", "step", "nothing yet"):
            cells = [
                fmean(_called(series[FROM + night - 1]) == shape for series in worlds.of(world)) for night in nights
            ]
            row(table, [words, shape, *(f"{cell:.2f}" for cell in cells)])
    return table


def _called(said: Said) -> str:
    """By the first figure whose change for the worse stands."""
    return next((shape for shape, worse in said.shapes.values() if worse), "nothing yet")


def _says_drift(said: Said) -> bool:
    return _called(said) == "drift"


CAUSES = (  # what moved, its world, what should be said
    ("acceptance, 5 %", dropped(0.05, figure=TOKENS), "acceptance moved and step time did not"),
    ("acceptance, 10 %", dropped(0.1, figure=TOKENS), "acceptance moved and step time did not"),
    ("step time, 5 %", dropped(0.05), "step time moved and acceptance did not"),
    ("step time, 10 %", dropped(0.1), "step time moved and acceptance did not"),
    ("the rig, 10 %", dropped(0.1, rig_moves=True), "the canary itself became slower"),
)


def cause_table(worlds: Worlds) -> Table:
    """Return which cause is named on the first morning that says regressed, and a week later."""
    table = Table(
        title=f"The cause that is named, {worlds.series} series a row",
        head=("what moved", "said", "on the first morning", "after a week more", "asked"),
    )
    for words, world, start in CAUSES:
        mornings_of = [_causes(series) for series in worlds.of(world)]
        known = [causes for causes in mornings_of if causes]
        early = sum(causes[0].startswith(start) for causes in known)
        late = sum(causes[min(7, len(causes) - 1)].startswith(start) for causes in known)
        row(
            table,
            [words, start, share(early, len(known)), share(late, len(known)), "at least 0.9"],
            kept=at_least(early, len(known), 0.9) and at_least(late, len(known), 0.9),
        )
    return table


def _causes(series: Series) -> list[str]:
    return [said.cause for said in series[FROM:] if said.verdict == "regressed"]


# By table, so that all worlds of a noise are drawn together.
WORLDS: dict[str, tuple[World, ...]] = {
    "quiet": tuple(QUIET.values()),
    "cost": tuple(QUIET.values()),
    "drop": tuple(dropped(ratio, sd=sd) for sd in QUIET for ratio in (0.1, 0.05)),
    "drift": (DRIFTING,),
    "shape": (DRIFTING, dropped(0.05), dropped(0.1)),
    "cause": tuple(world for _, world, _ in CAUSES),
    "rolling": tuple(dropped(ratio, rolling=rolling) for ratio in (0.05, 0.1) for rolling in (False, True)),
}
TABLES: dict[str, Callable[[Worlds], Table]] = {
    "quiet": quiet_table,
    "cost": cost_table,
    "drop": drop_table,
    "drift": drift_table,
    "shape": shape_table,
    "cause": cause_table,
    "slow": slow_table,
    "rolling": rolling_table,
    "floors": floor_table,
    "unseen": unseen_table,
    "speed": speed_table,
}


def written(page: str, name: str, table: Table) -> str:
    """Return a page with a table between its two marks. Raises ValueError: the page has no such place."""
    place = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    text, count = place.subn(lambda match: f"{match[1]}\n{table}\n{match[2]}", page)
    if count != 1:
        raise ValueError(f"the page has no place for the table {name}")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=300)
    parser.add_argument("--only", choices=TABLES, nargs="*", default=list(TABLES))
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page that the tables are put into")
    arguments = parser.parse_args()
    kept = True
    with ProcessPoolExecutor(PROCESSES) as pool:
        worlds = Worlds(series=arguments.series, pool=pool)
        worlds.draw(*(world for name in arguments.only for world in WORLDS.get(name, ())))
        for name in arguments.only:
            table = TABLES[name](worlds)
            print(table, flush=True)
            kept = kept and table.kept
            if arguments.write:
                page = arguments.write.read_text(encoding="utf-8")
                arguments.write.write_text(written(page, name, table), encoding="utf-8")
    print("every limit is kept" if kept else "a limit is broken")
    raise SystemExit(not kept)


if __name__ == "__main__":
    main()
