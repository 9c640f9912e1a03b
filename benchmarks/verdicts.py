"""Does the method of verdicts keep its promises? Simulated comparisons, as Markdown tables for docs/verdicts.md.

    python -m benchmarks.verdicts                 # all tables, 1,000 comparisons a row (20 minutes on two quiet cores)
    python -m benchmarks.verdicts --comparisons 100 --only alarms

Series are drawn by the simulator's noise law (benchmarks.series) and fed to the pure functions that the commands use.
The table of two levels makes comparisons with the real `harness ab` in virtual time (benchmarks.commanded), and the
same number from series as noisy as those.
A limit fails where the exact binomial 95 % bound of the observed rate lies wholly beyond it.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

import numpy as np
from scipy import stats

from benchmarks.commanded import Asked, Said, launch_sd, said_by_command
from benchmarks.series import Draw, Rig, Tables, true_floor
from harness.records.verdict import Effect, NoiseFloor, Verdict
from harness.stats.compare import BLOCK_LAUNCHES
from harness.stats.effect import Basis, weighted_effect
from harness.stats.power import equivalence_power, smallest_visible_ratio
from harness.stats.sequential import levels_of
from harness.stats.verdict import verdict_of

MARGIN_RATIO = 0.03
A_A_DEGREES = 5.0
PROCESSES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One simulated comparison to make."""

    rig: Rig
    launches: int  # of each arm, at most
    sequential: bool = False
    stored_floor: bool = True  # from an A/A of six launches, drawn anew for each comparison
    gain_ratio: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What it said."""

    verdict: Verdict
    covered: bool  # the interval holds the true effect
    launches: int
    naive_better: bool  # one launch an arm, a mean over requests, and the margin
    naive_test: bool  # the same with Welch's t-test over requests

    @property
    def alarm(self) -> bool:
        """Better or worse."""
        return self.verdict in ("better", "worse")


def compare_once(trial: Trial, seed: int) -> Outcome:
    """Return what one comparison says; the same seed draws the same launches."""
    draw = Draw(trial.rig, seed=seed, name=f"{trial.rig.words}/{trial.launches}/{trial.gain_ratio:.5f}")
    floor = draw.floor() if trial.stored_floor else None
    base, candidate = draw.arm(trial.launches), draw.arm(trial.launches, gain_ratio=trial.gain_ratio)
    effect, verdict, launches = _judged(trial, base, candidate, floor)
    truth = math.log1p(trial.gain_ratio)
    naive = _naive(base, candidate)
    return Outcome(
        verdict=verdict,
        covered=effect.low <= truth <= effect.high,
        launches=launches,
        naive_better=naive[0],
        naive_test=naive[1],
    )


def _judged(trial: Trial, base: Tables, candidate: Tables, floor: NoiseFloor | None) -> tuple[Effect, Verdict, int]:
    looks = range(BLOCK_LAUNCHES, trial.launches + 1, BLOCK_LAUNCHES) if trial.sequential else [trial.launches]
    most = trial.launches if trial.sequential else None
    for count in looks:
        levels = levels_of(count, most, step=BLOCK_LAUNCHES)
        effect = weighted_effect(
            [table[:count] for table in base],
            [table[:count] for table in candidate],
            [1 / len(base)] * len(base),
            basis=Basis(floor=floor, levels=levels),
        )
        verdict = verdict_of(effect, MARGIN_RATIO)
        if verdict != "cannot tell":
            break
    return effect, verdict, count


def _naive(base: Tables, candidate: Tables) -> tuple[bool, bool]:
    """What the field does with the first launch of each arm."""
    first = [np.exp(-np.concatenate([table[0] for table in arm])) for arm in (base, candidate)]
    ratio = float(first[0].mean() / first[1].mean())
    paired = stats.ttest_rel(np.log(first[0]), np.log(first[1]))
    return abs(math.log(ratio)) >= math.log1p(MARGIN_RATIO), bool(paired.pvalue < 0.05)


def outcomes(trial: Trial, comparisons: int, pool: ProcessPoolExecutor | None = None) -> list[Outcome]:
    """Return many of them."""
    run = partial(compare_once, trial)
    seeds = range(comparisons)
    return list(pool.map(run, seeds, chunksize=50) if pool else map(run, seeds))


def bounds(hits: int, of: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a share (Clopper and Pearson)."""
    interval = stats.binomtest(hits, of).proportion_ci(confidence_level=0.95, method="exact")
    return float(interval.low), float(interval.high)


def at_most(hits: int, of: int, limit: float) -> bool:
    """Return whether a share keeps an upper limit."""
    return bounds(hits, of)[0] <= limit


def at_least(hits: int, of: int, limit: float) -> bool:
    """Return whether a share keeps a lower limit."""
    return bounds(hits, of)[1] >= limit


# -- tables ------------------------------------------------------------------------------------------------------------

RIGS = tuple(Rig(launch_sd=sd, slow=slow) for sd in (0.02, 0.03) for slow in ("none", "seen", "unseen"))
DESIGNS = ((2, False), (3, False), (4, False), (6, False), (6, True))  # launches of each arm, looks on the way
ALARM_DESIGNS = ((1, False), *DESIGNS)  # one launch an arm has to keep the promise too; it detects next to nothing


@dataclass(slots=True)
class Table:
    """A Markdown table that remembers whether every limit held."""

    title: str
    head: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    kept: bool = True
    judged: bool = True  # False: for information

    def add(self, cells: Iterable[object], *, kept: bool = True) -> None:
        """Append a row."""
        self.rows.append([*map(str, cells), *(["kept" if kept else "**broken**"] if self.judged else [])])
        self.kept = self.kept and kept

    def __str__(self) -> str:
        head = [*self.head, *(["limit"] if self.judged else [])]
        lines = [f"### {self.title}", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in self.rows), ""])


_ARM_COLUMNS = ("launches differ by", "noise floor", "launches an arm")


def share(hits: int, of: int) -> str:
    """Return a share with its exact interval."""
    low, high = bounds(hits, of)
    return f"{hits / of:.3f} ({low:.3f} … {high:.3f})"


def alarm_table(comparisons: int, pool: ProcessPoolExecutor | None = None) -> Table:
    """Return false alarms and coverage of A/A comparisons, and what the field's way says of the same data."""
    table = Table(
        title=f"A/A: false alarms (at most 5 %) and coverage (93 to 98.5 %), {comparisons} comparisons a row",
        head=(*_ARM_COLUMNS, "better or worse", "coverage", "naive: 3 % apart", "naive: t-test"),
    )
    for rig in RIGS:
        for stored in (True, False):
            for launches, sequential in ALARM_DESIGNS:
                trial = Trial(rig=rig, launches=launches, sequential=sequential, stored_floor=stored)
                _add_alarms(table, trial, outcomes(trial, comparisons, pool))
    return table


def _add_alarms(table: Table, trial: Trial, found: list[Outcome]) -> None:
    of = len(found)
    alarms, covered = sum(one.alarm for one in found), sum(one.covered for one in found)
    # Wider than need be, by design: an unseen slow launch counts as noise, an assumption is careful, and the interval
    # of an early look is that of the whole procedure.
    careful = trial.rig.slow == "unseen" or not trial.stored_floor or trial.sequential or trial.launches == 1
    kept = at_most(alarms, of, 0.05) and at_least(covered, of, 0.93) and (careful or at_most(covered, of, 0.985))
    cells = [
        trial.rig.words,
        "A/A of 6" if trial.stored_floor else "assumed 3 %",
        f"up to {trial.launches}, sequential" if trial.sequential else trial.launches,
        share(alarms, of),
        share(covered, of),
        f"{sum(one.naive_better for one in found) / of:.2f}",
        f"{sum(one.naive_test for one in found) / of:.2f}",
    ]
    table.add(cells, kept=kept)


def detection_table(comparisons: int, pool: ProcessPoolExecutor | None = None) -> Table:
    """Return how often a true gain is found that `plan` calls detectable."""
    table = Table(
        title=f"Detection of the effect that plan calls detectable (at least 80 %), {comparisons} comparisons a row",
        head=("launches differ by", "launches an arm", "true gain", "called better", "launches used, mean"),
    )
    for rig in RIGS[::3]:  # without slow launches, as a plan assumes
        floor = true_floor(rig, degrees=A_A_DEGREES)
        for launches, sequential in DESIGNS:
            level = levels_of(launches, launches if sequential else None, step=BLOCK_LAUNCHES).interval
            gain = smallest_visible_ratio(launches, floor, margin_ratio=MARGIN_RATIO, level=level)
            found = outcomes(
                Trial(rig=rig, launches=launches, sequential=sequential, gain_ratio=gain), comparisons, pool
            )
            better = sum(one.verdict == "better" for one in found)
            cells = [
                rig.words,
                f"up to {launches}, sequential" if sequential else launches,
                f"{gain:.1%}",
                share(better, len(found)),
                f"{fmean(one.launches for one in found):.1f}",
            ]
            table.add(cells, kept=at_least(better, len(found), 0.8))
    return table


def equivalence_table(comparisons: int, pool: ProcessPoolExecutor | None = None) -> Table:
    """Return how often "no difference" is said: where there is none, and where the truth is the margin itself."""
    table = Table(
        title=f"No difference within 3 %, {comparisons} comparisons a row",
        head=("launches differ by", "launches an arm", "true effect", "said no difference", "asked", "as planned"),
    )
    for rig, launches in ((RIGS[0], 12), (RIGS[3], 24)):
        floor = true_floor(rig, degrees=A_A_DEGREES)
        for sequential in (False, True):
            level = levels_of(launches, launches if sequential else None, step=BLOCK_LAUNCHES).equivalence
            for gain, asked in ((0.0, "at least 80 %"), (MARGIN_RATIO, "at most 5 %")):
                trial = Trial(rig=rig, launches=launches, sequential=sequential, gain_ratio=gain)
                found = outcomes(trial, comparisons, pool)
                said, of = sum(one.verdict == "no difference" for one in found), len(found)
                kept = at_most(said, of, 0.05) if gain else at_least(said, of, 0.8)
                planned = equivalence_power(launches, floor, margin_ratio=MARGIN_RATIO, level=level)
                number = f"up to {launches}, sequential" if sequential else launches
                cells = [rig.words, number, f"{gain:.0%}", share(said, of), asked, "" if gain else f"{planned:.2f}"]
                table.add(cells, kept=kept)
    return table


def beyond_table(comparisons: int, pool: ProcessPoolExecutor | None = None) -> Table:
    """Return what lies outside of the promise: a rig noisier than assumed, and effects that differ by prompt."""
    table = Table(
        title=f"Beyond the promise, for information, {comparisons} comparisons a row",
        head=("rig", "noise floor", "launches an arm", "better or worse", "coverage"),
        judged=False,
    )
    for rig, stored, words in (
        (Rig(launch_sd=0.045), False, "4.5 %, no slow launch"),
        (Rig(launch_sd=0.045), True, "4.5 %, no slow launch"),
        (Rig(launch_sd=0.02, interaction_sd=0.1), True, "2 %, effects differ by 10 % from prompt to prompt"),
    ):
        for launches in (2, 4):
            gain = 1e-9 if rig.interaction_sd else 0.0
            found = outcomes(Trial(rig=rig, launches=launches, stored_floor=stored, gain_ratio=gain), comparisons, pool)
            alarms, covered = sum(one.alarm for one in found), sum(one.covered for one in found)
            floor = "A/A of 6" if stored else "assumed 3 %"
            table.add([words, floor, launches, share(alarms, len(found)), share(covered, len(found))])
    return table


COMMANDED = 50  # comparisons of a row through the command, at most
SIX = "num_speculative_tokens=6"
ROWS = (  # what is compared, in words; arms; launches of each, looks on the way; A/A of six before it
    ("nothing", f"{SIX} swa_prefix=1", 2, False, True),
    ("nothing", f"{SIX} swa_prefix=1", 4, True, False),
    ("k = 3 for 6", "num_speculative_tokens=3", 4, True, False),
)


def command_table(comparisons: int, pool: ProcessPoolExecutor | None = None) -> Table:
    """Return rates of comparisons through the real command beside those of series that are as noisy."""
    count = min(comparisons, COMMANDED)
    table = Table(
        title=f"Two levels: {count} comparisons through `harness ab` in virtual time, and {comparisons} from series",
        head=("differs", "noise floor", "launches an arm", "level", "estimate", "better or worse", "coverage"),
    )
    with contextlib.ExitStack() as stack:
        pool = pool or stack.enter_context(ProcessPoolExecutor(PROCESSES))
        for words, candidate, launches, sequential, measured in ROWS:
            asked = Asked(
                base=SIX, candidate=candidate, launches=launches, sequential=sequential, measured_floor=measured
            )
            said = said_by_command(asked, range(1, count + 1), pool)
            _add_levels(table, words, asked, said, _series_like(asked, said, comparisons, pool, words == "nothing"))
    return table


def _series_like(
    asked: Asked, said: Sequence[Said], comparisons: int, pool: ProcessPoolExecutor, nothing: bool
) -> list[Outcome]:
    """Comparisons of series with the launches' law of the scenario, and requests as noisy as the command's."""
    within = {c: math.sqrt(fmean(one.within[c] ** 2 for one in said)) for c in said[0].within}
    rig = Rig(launch_sd=launch_sd(), within=within, prompts=said[0].prompts, tail_ratio=0.0)
    gain = 0.0 if nothing else math.expm1(fmean(_estimate(one) for one in said))
    trial = Trial(
        rig=rig,
        launches=asked.launches,
        sequential=asked.sequential,
        stored_floor=asked.measured_floor,
        gain_ratio=gain,
    )
    return outcomes(trial, comparisons, pool)


def _estimate(one: Said) -> float:
    assert one.comparison.effect is not None
    return one.comparison.effect.log_ratio


def _add_levels(table: Table, words: str, asked: Asked, said: Sequence[Said], series: Sequence[Outcome]) -> None:
    estimates = [_estimate(one) for one in said]
    mean = 0.0 if words == "nothing" else fmean(estimates)
    # Of a difference nobody knows the truth: each interval is held against the mean of all the other estimates.
    truths = [0.0 if words == "nothing" else (sum(estimates) - own) / (len(said) - 1) for own in estimates]
    effects = [one.comparison.effect for one in said]
    covered = sum(e is not None and e.low <= t <= e.high for e, t in zip(effects, truths, strict=True))
    alarms = sum(one.comparison.verdict in ("better", "worse") for one in said)
    alike = sum(one.alarm for one in series), sum(one.covered for one in series)
    kept = _overlap((alarms, len(said)), (alike[0], len(series)))
    kept = kept and _overlap((covered, len(said)), (alike[1], len(series)))
    floor = "A/A of 6" if asked.measured_floor else "assumed 3 %"
    number = f"up to {asked.launches}, sequential" if asked.sequential else str(asked.launches)
    spread = f"{math.expm1(fmean(estimates)):+.1%}"
    table.add([words, floor, number, "command", spread, share(alarms, len(said)), share(covered, len(said))], kept=kept)
    rates = (share(alike[0], len(series)), share(alike[1], len(series)))
    table.add([words, floor, number, "series", f"{math.expm1(mean):+.1%}", *rates], kept=kept)


def _overlap(one: tuple[int, int], two: tuple[int, int]) -> bool:
    """Whether the exact intervals of two shares have a value in common."""
    first, second = bounds(*one), bounds(*two)
    return first[0] <= second[1] and second[0] <= first[1]


TABLES: dict[str, Callable[[int, ProcessPoolExecutor | None], Table]] = {
    "alarms": alarm_table,
    "detection": detection_table,
    "equivalence": equivalence_table,
    "beyond": beyond_table,
    "command": command_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=1000)
    parser.add_argument("--only", choices=TABLES, nargs="*", default=list(TABLES))
    arguments = parser.parse_args()
    kept = True
    with ProcessPoolExecutor(PROCESSES) as pool:
        for name in arguments.only:
            table = TABLES[name](arguments.comparisons, pool)
            print(table, flush=True)
            kept = kept and table.kept
    print("every limit is kept" if kept else "a limit is broken")
    raise SystemExit(not kept)


if __name__ == "__main__":
    main()
