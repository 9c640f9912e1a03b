"""Do nights through the real command say what the pure functions promise? Ten series in virtual time.

    python -m benchmarks.nightly_command                            # 10 series of 32 nights, a quarter of an hour
    python -m benchmarks.nightly_command --write docs/nightly.md    # puts the table into the page

A series is quiet for 24 nights, of which the first 14 are accepted, and then every step takes 8 % longer
(--scenario slower_kernels). The same is drawn 300 times for the pure functions by the noise of that scenario. Both say
on which night the regression was found; they agree where the counts of the command lie within what 300 series allow.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from scipy.stats import binomtest

from benchmarks.night_draw import STEP, Drawn, Step, World
from benchmarks.nightly import written
from benchmarks.verdicts import Table, share
from harness.cli.main import main as harness
from harness.records.nightly import Baseline, Night
from harness.simulator.scenario import load_scenario
from harness.stats.baseline import baseline_of
from harness.stats.gate import BASELINE_NIGHTS
from harness.stats.nights import judge_night, wants_second_launch

SERIES, PURE_SERIES, PROCESSES = 10, 300, 2
CHANGED, NIGHTS = 24, 32  # the night from which steps are slower, and how many nights there are
SWEEP = "laptop_nightly"
SCENARIO = load_scenario("slower_kernels")
WORLD = World(
    launch_sd=SCENARIO.noise.launch_sd,
    bad="none",
    moves=Step(
        figure=STEP,
        log_ratio=-math.log(SCENARIO.faults.slow_state.factor if SCENARIO.faults.slow_state else 1.0),
        night=CHANGED,
    ),
    rig_moves=True,
    nights=NIGHTS,
)
REGRESSED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a series said, night by night."""

    regressed: tuple[bool, ...]

    @property
    def false_alarms(self) -> int:
        """Nights that were called a regression before anything happened."""
        return sum(self.regressed[:CHANGED])

    def within(self, nights: int) -> bool:
        """It was found within so many nights."""
        return any(self.regressed[CHANGED : CHANGED + nights])


def of_command(number: int) -> Heard:
    """Return a series through the real command. Its nights are other ones than those of another number."""
    begin = datetime(2026, 1, 1, 2, 30, tzinfo=UTC) + timedelta(days=100 * number)
    with tempfile.TemporaryDirectory() as folder:
        root = ("--root", folder)
        codes = []
        for night in range(NIGHTS):
            at = (begin + timedelta(days=night)).isoformat()
            scenario = SCENARIO.name if night >= CHANGED else "default"
            codes.append(_run("nightly", SWEEP, "--engine", "simulated", "--scenario", scenario, "--as-of", at, *root))
            if night == BASELINE_NIGHTS - 1:
                name = f"simulated_{SWEEP}"
                _run("baseline", "accept", "latest", "--name", name, "--reason", "proof", "--author", "nobody", *root)
        return Heard(regressed=tuple(code == REGRESSED for code in codes))


def _run(*words: str) -> int:
    """Run a command in this process, unheard. Raises RuntimeError where it could not run."""
    said = io.StringIO()
    sys.argv = ["harness", *words]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            harness(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    if code not in (0, REGRESSED, 4):
        raise RuntimeError(f"harness {' '.join(words)} ended with {code}: {said.getvalue()}")
    return code


def of_functions(seed: int) -> Heard:
    """Return a series of the pure functions."""
    drawn = Drawn(WORLD, seed)
    history: list[Night] = []
    baseline: Baseline | None = None
    regressed = []
    for number in range(NIGHTS):
        night = drawn.night(number, 1)
        if wants_second_launch(night, history, baseline):
            night = drawn.night(number, 2)
        regressed.append(judge_night(night, history, baseline).verdict == "regressed")
        history.append(night)
        if number == BASELINE_NIGHTS - 1:
            baseline = baseline_of(history, name="b", author="nobody", reason="proof", accepted_at=night.at)
    return Heard(regressed=tuple(regressed))


def table(command: Sequence[Heard], functions: Sequence[Heard]) -> Table:
    """Return both levels side by side. The command's counts may not be too unlikely for the functions' rates."""
    found = Table(
        title=f"{len(command)} series through the command beside {len(functions)} of the functions: steps 8 % slower",
        head=("what", "command", "functions"),
    )
    rows: list[tuple[str, Callable[[Heard], bool]]] = [
        ("a regression is called on one of the quiet nights", lambda one: one.false_alarms > 0),
        ("found the same night", lambda one: one.within(1)),
        ("found within 3 nights", lambda one: one.within(3)),
        ("found within 7 nights", lambda one: one.within(7)),
    ]
    for words, true in rows:
        here, there = sum(map(true, command)), sum(map(true, functions))
        rate = (there + 0.5) / (len(functions) + 1)  # of no hits among 300 nobody knows that the rate is 0
        kept = binomtest(here, len(command), rate).pvalue > 0.05
        found.add([words, share(here, len(command)), share(there, len(functions))], kept=bool(kept))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=SERIES)
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page that the table is put into")
    arguments = parser.parse_args()
    with ProcessPoolExecutor(PROCESSES) as pool:
        command = list(pool.map(of_command, range(arguments.series)))
        functions = list(pool.map(of_functions, range(PURE_SERIES)))
    found = table(command, functions)
    print(found)
    if arguments.write:
        page = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(written(page, "command", found), encoding="utf-8")
    raise SystemExit(not found.kept)


if __name__ == "__main__":
    main()
