"""Is each doubt raised by its own fault, and by nothing where nothing is wrong? As a table for docs/doubts_proof.md.

    python -m benchmarks.doubts                           # 200 runs of each fault, 1,000 clean runs (15 minutes)
    python -m benchmarks.doubts --faults 20 --clean 50 --only canary_moved

Runs are whole sweeps on simulated engines in virtual time, with the whole client, or such runs whose records were
spoilt. A limit fails where the exact binomial 95 % bound of the observed rate lies wholly beyond it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from scipy.stats import binomtest

from benchmarks.doubt_faults import LAPTOP, SIMULATED, kinds_of
from benchmarks.doubt_records import RECORDS, clean_loads, clean_run

LEAST_CAUGHT_RATIO = 0.95
MOST_ALARMS_RATIO = 0.01
ANY = "any"
FAULTS = SIMULATED | RECORDS
# These follow from how a comparison was planned, by a rule and not by a measurement.
OF_COMPARISONS = (
    "noise_assumed",
    "not_alternating",
    "one_launch_an_arm",
    "fingerprints_differ",
    "workload_incomplete",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What became of one kind of doubt."""

    kind: str
    fault: str
    records: bool  # the records of a clean run were spoilt
    caught: int
    faults: int
    alarms: int
    clean: int

    @property
    def holds(self) -> bool:
        """Neither rate is beyond its limit."""
        return not _below(self.caught, self.faults, LEAST_CAUGHT_RATIO) and not _above(
            self.alarms, self.clean, MOST_ALARMS_RATIO
        )


def _below(count: int, runs: int, limit: float) -> bool:
    return runs > 0 and float(binomtest(count, runs).proportion_ci(method="exact").high) < limit


def _above(count: int, runs: int, limit: float) -> bool:
    return runs > 0 and float(binomtest(count, runs).proportion_ci(method="exact").low) > limit


def proof(kinds: Sequence[str], *, faults: int, clean: int, processes: int) -> list[Row]:
    """Return a row for each kind.

    Args:
        kinds: of doubts.
        faults: runs of each fault.
        clean: runs without any.
        processes: at once.
    """
    caught: Counter[str] = Counter()
    alarms: Counter[str] = Counter()
    with ProcessPoolExecutor(processes) as pool:
        simulated = [(kind,) for kind in kinds if not FAULTS[kind].records]
        spoilt = [tuple(kind for kind in kinds if FAULTS[kind].records)]  # together: they begin with the same runs
        jobs = [(group, seed) for group in simulated + spoilt for seed in range(faults)]
        for found in pool.map(_caught, *zip(*jobs, strict=True), chunksize=max(1, faults // (2 * processes))):
            caught.update(found)
        for seen in pool.map(_alarms, range(clean), chunksize=7):
            alarms.update(seen)
            alarms[ANY] += bool(seen)
    rows = [_row(kind, caught[kind], faults, alarms[kind], clean) for kind in kinds]
    surprises = sorted(set(alarms) - set(kinds) - {ANY})
    return [*rows, *(_row(kind, 0, 0, alarms[kind], clean) for kind in (*surprises, ANY))]


def _row(kind: str, caught: int, faults: int, alarms: int, clean: int) -> Row:
    fault = FAULTS.get(kind)
    words = fault.words if fault else "any of them, for information" if kind == ANY else "none"
    return Row(
        kind=kind,
        fault=words,
        records=fault is not None and fault.records,
        caught=caught,
        faults=faults,
        alarms=alarms,
        clean=clean,
    )


def _caught(kinds: Sequence[str], seed: int) -> list[str]:
    return [kind for kind in kinds if kind in kinds_of(FAULTS[kind].run(seed), limits=FAULTS[kind].limits)]


def _alarms(seed: int) -> frozenset[str]:
    return kinds_of(clean_run(seed))


def table(rows: Sequence[Row]) -> str:
    """Return the rows as Markdown."""
    lines = ["| doubt | its fault | raised | in clean runs | holds |", "|---|---|---|---|---|"]
    for row in rows:
        how = " (records)" if row.records else ""
        raised = f"{row.caught} of {row.faults}" if row.faults else "–"
        holds = "–" if row.kind == ANY else "yes" if row.holds else "**no**"
        lines.append(f"| {_name(row)} | {row.fault}{how} | {raised} | {row.alarms} of {row.clean} | {holds} |")
    return "\n".join(lines)


def _name(row: Row) -> str:
    return "all together" if row.kind == ANY else f"`{row.kind}`"


def main() -> int:
    """Print the table and return 1 if a limit fails."""
    parser = argparse.ArgumentParser(description="Prove the doubts.")
    parser.add_argument("--faults", type=int, default=200, help="runs of each fault")
    parser.add_argument("--clean", type=int, default=1000, help="runs without a fault")
    parser.add_argument("--only", nargs="*", default=list(FAULTS), choices=list(FAULTS), metavar="KIND")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    rows = proof(asked.only, faults=asked.faults, clean=asked.clean, processes=asked.processes)
    print(table(rows))
    print("\nClean runs, with noise as measured and without any:\n")
    print("\n".join(f"- {load.words}" for load in clean_loads()))
    print(f"- {LAPTOP}, a trace of 36 requests at its own times, k = 0 and 2")
    failed = [row.kind for row in rows if row.kind != ANY and not row.holds]
    if failed:
        print(f"beyond their limit: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
