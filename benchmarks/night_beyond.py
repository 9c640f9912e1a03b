"""Tables of benchmarks.nightly that are not about noise alone: slow rigs, rolling baselines, floors, speed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean, median

import numpy as np

from benchmarks.night_draw import NIGHTS, STEP, TOKENS, Drawn, Step, World
from benchmarks.night_worlds import FROM, QUIET, Worlds, dropped, episodes, first, rate, row, within
from benchmarks.verdicts import Table, at_least, share
from harness.records.nightly import Night
from harness.stats import gate
from harness.stats.baseline import baseline_of
from harness.stats.gate import BASELINE_NIGHTS, FLOOR_RATIO
from harness.stats.night import HEADLINE
from harness.stats.nights import judge_night, wants_second_launch
from harness.stats.paired import SECONDS

WORDS = {SECONDS: "seconds", TOKENS: "tokens per step", STEP: "step time"}


def slow_table(worlds: Worlds) -> Table:
    """Return what slow boots that the canary sees are called."""
    table = Table(
        title=f"Slow boots that the canary sees, {worlds.series} series a row",
        head=("nights in a row", "asked", "said so"),
    )
    for count, asked in ((1, "never regressed, doubtful"), (2, "never regressed, doubtful")):
        found = worlds.of(_slow_world(count))
        hits = sum(all(said.verdict == "doubtful" for said in series[FROM : FROM + count]) for series in found)
        row(table, [count, asked, share(hits, len(found))], kept=hits == len(found))
    found = worlds.of(_slow_world(6))
    hits = sum(
        all(said.verdict == "doubtful" for said in series[FROM : FROM + 2])
        and all(
            said.verdict == "regressed" and said.cause.startswith("the canary") for said in series[FROM + 2 : FROM + 6]
        )
        for series in found
    )
    row(
        table,
        [6, "doubtful twice, then regressed, and the canary is the cause", share(hits, len(found))],
        kept=at_least(hits, len(found), 0.97),
    )
    return table


def _slow_world(nights: int) -> World:
    # No other bad night may touch them: a third one in a row would count.
    return World(launch_sd=0.02, bad_share=0.0, slow_nights=(FROM, FROM + nights))


def rolling_table(worlds: Worlds) -> Table:
    """Return what a baseline that rolls along says of a regression that stays."""
    table = Table(
        title=f"Why the baseline is pinned: is a drop that stays still called one? {worlds.series} series a row",
        head=("baseline", "drop", "said within 3 nights", "still said after 20", "still said after 40"),
        judged=False,
    )
    for ratio in (0.05, 0.1):
        for words, rolling in (("pinned", False), ("rolling, 14 nights", True)):
            found = worlds.of(dropped(ratio, rolling=rolling))
            early = within([first(series, lambda said: said.verdict == "regressed") for series in found], 3)
            still = [fmean(series[FROM + after].verdict == "regressed" for series in found) for after in (20, 40)]
            row(table, [words, f"{ratio:.0%}", share(early, len(found)), *(f"{one:.2f}" for one in still)])
    return table


def unseen_table(worlds: Worlds) -> Table:
    """Return what bad nights do that no canary marks."""
    table = Table(
        title=f"Beyond the promise: 2 % bad nights that no canary marks, {worlds.series} series a row",
        head=("launches differ by", "gate, alarms a series", "change point, alarms a series"),
        judged=False,
    )
    for sd in QUIET:
        found = worlds.of(World(launch_sd=sd, bad="unseen"))
        tripped = sum(episodes(one, lambda said: said.gate) for one in found)
        changed = sum(episodes(one, lambda said: said.change) for one in found)
        row(table, [f"{sd:.1%}", rate(tripped, len(found)), rate(changed, len(found))])
    return table


def floor_table(worlds: Worlds) -> Table:
    """Return the gate's false alarms by floor, which is how the floors were chosen."""
    floors = (0.03, 0.04, 0.045, 0.05, 0.06, 0.08)
    table = Table(
        title=f"The floors: alarms of the gate a series in {NIGHTS} nights, {worlds.series} series a row",
        head=("figure", "launches differ by", "nights lie apart by", *(f"{floor:.1%}" for floor in floors), "chosen"),
        judged=False,
    )
    for sd in (0.005, 0.02, 0.035):
        run, seeds = partial(_twice, World(launch_sd=sd, bad="none")), range(worlds.series)
        drawn = list(worlds.pool.map(run, seeds, chunksize=5) if worlds.pool else map(run, seeds))
        for figure in (SECONDS, STEP, TOKENS):
            for words, spread in (("most nights", gate.scatter), ("median deviation", _median_deviation)):
                cells = [fmean(_alarms(one[figure], spread, floor) for one in drawn) for floor in floors]
                chosen = f"{FLOOR_RATIO[figure]:.1%}"
                row(table, [WORDS[figure], f"{sd:.1%}", words, *(f"{cell:.3f}" for cell in cells), chosen])
    return table


Launches = list[tuple[float, ...]]


def _twice(world: World, seed: int) -> dict[str, Launches]:
    """Every night launched twice: what the gate would see if it asked."""
    drawn = Drawn(world, seed)
    nights = [drawn.night(number, 2) for number in range(world.nights)]
    return {figure: [night.figures[figure] for night in nights] for figure in HEADLINE}


def _alarms(nights: Launches, spread: Callable[[Sequence[float]], float], floor: float) -> int:
    accepted = [night[0] for night in nights[:BASELINE_NIGHTS]]
    limit = max(gate.DEVIATIONS * spread(accepted), -math.log1p(-floor))
    return sum(max(night) < median(accepted) - limit for night in nights[BASELINE_NIGHTS:])


def _median_deviation(values: Sequence[float]) -> float:
    center = median(values)
    return 1.4826 * median(abs(value - center) for value in values)


YEARS_NIGHTS, CELLS = 1095, 20
MOST_S = 2.0


def speed_table(worlds: Worlds) -> Table:
    """Return how long a morning takes after three years."""
    table = Table(
        title=f"Speed: a morning after {YEARS_NIGHTS:,} nights of {CELLS} cells",
        head=("what", "seconds", "asked"),
    )
    history = list(_years())
    baseline = baseline_of(
        history[:BASELINE_NIGHTS], name="shipped", author="nobody", reason="proof", accepted_at=history[0].at
    )
    tonight = history.pop()
    began_s = time.perf_counter()
    wants_second_launch(tonight, history, baseline)
    judge_night(tonight, history, baseline)
    took_s = time.perf_counter() - began_s
    row(
        table,
        [
            "whether a second launch is wanted, verdict, change points, every cell",
            f"{took_s:.2f}",
            f"at most {MOST_S:g}",
        ],
        kept=took_s <= MOST_S,
    )
    return table


def _years() -> Iterator[Night]:
    names = ("ttft_s", "worst_stream_tokens_per_s", "decode_tokens_per_s", "acceptance_length", "step_s")
    world = World(launch_sd=0.02, bad="none", moves=Step(figure=STEP, log_ratio=-0.06, night=500))
    drawn, rng = Drawn(world, 1), np.random.default_rng(1)
    for number in range(YEARS_NIGHTS):
        values = np.exp(0.02 * rng.standard_normal((CELLS, len(names))))
        cells = {f"load {cell}": dict(zip(names, values[cell].tolist(), strict=True)) for cell in range(CELLS)}
        yield replace(drawn.night(number, 1), cells=cells, boot_s=300.0)
