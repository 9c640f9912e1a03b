"""How good is the pick of a search on a real vLLM? Against every configuration launched once, in the same hour.

    python -m benchmarks.regret_vllm --root DIR           # 31 launches and 4 to check, half an hour on two quiet cores
    python -m benchmarks.regret_vllm --root DIR --engine simulated

The truth is one launch of each, and so as noisy as a launch is: the best of 21 is partly lucky. What the grid calls
best and what the search picked are therefore launched twice more at the end, in turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.cli.comparing import stored_confirmation
from harness.cli.loading import summaries_of
from harness.records.cell import Configuration
from harness.records.journal import RunData
from harness.stats.objective import workload_seconds
from harness.store.layout import RunFolder, list_runs, resolve_run
from harness.store.reader import read_run

SWEEP = Path(__file__).with_suffix(".yaml")
MOST_REGRET_RATIO, MOST_LAUNCHES_RATIO = 0.08, 0.5
_SIMULATED = ("--engine", "simulated", "--set", "method=draft_model")  # whose truth knows no other
_FINE, _CANNOT_TELL = 0, 4
_CHECKING_LAUNCHES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A grid and a search of the same space."""

    seconds: Mapping[str, float]  # of the workload by configuration id, as the grid measured it
    labels: Mapping[str, str]
    grid_launches: int
    search_launches: int
    pick: Configuration
    best: Configuration

    @property
    def regret_ratio(self) -> float:
        """How much slower the pick is than the best of the grid."""
        return self.seconds[self.pick.configuration_id] / self.seconds[self.best.configuration_id] - 1


def ran(words: Sequence[str], root: Path) -> RunFolder:
    """Return what a command of the harness measured; what an earlier call of this left unfinished is carried on with.

    Raises:
        CalledProcessError: it failed.
    """
    begun = [run for run in list_runs(root) if read_run(run).manifest.command[1:3] == tuple(words[:2])]
    if begun and [end.outcome for end in read_run(begun[-1]).ends][-1:] == ["finished"]:
        return begun[-1]
    resumed = ["--resume", begun[-1].run_id] if begun else []
    command = [sys.executable, "-m", "harness", *words, "--root", str(root), *resumed]
    done = subprocess.run(command, check=False)
    if done.returncode not in (_FINE, _CANNOT_TELL):
        raise subprocess.CalledProcessError(done.returncode, command)
    return begun[-1] if begun else resolve_run("latest", root=root)


def grid_and_search(root: Path, engine: Sequence[str]) -> Found:
    """Launch everything once, then search."""
    grid = read_run(ran(["sweep", str(SWEEP), *engine], root))
    folder = ran(["tune", str(SWEEP), *engine], root)
    search = read_run(folder)
    known = [one for one in workload_seconds(summaries_of(grid), {}) if one.seconds is not None]
    return Found(
        seconds={one.configuration.configuration_id: one.seconds or 0.0 for one in known},
        labels={one.configuration.configuration_id: _label(one.configuration) for one in known},
        grid_launches=len(grid.launches),
        search_launches=len(search.launches),
        pick=_picked(folder, search),
        best=known[0].configuration,
    )


def checked(found: Found, root: Path, engine: Sequence[str]) -> dict[str, float]:
    """Return the seconds of both by their labels, from launches in turn that neither of them was chosen by."""
    document = yaml.safe_load(SWEEP.read_text())
    for name in ("num_speculative_tokens", "method"):
        del document["knobs"][name]
    both = {"best_of_the_grid": found.best, "picked": found.pick}
    document |= {
        "sweep": "regret_vllm_check",
        "configurations": {name: dict(one.knobs) for name, one in both.items()},
        "incumbent": "best_of_the_grid",
    }
    path = root / "check.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    run = read_run(ran(["sweep", str(path), *engine, "--launches", str(_CHECKING_LAUNCHES)], root))
    return {_label(one.configuration): one.seconds or 0.0 for one in workload_seconds(summaries_of(run), {})}


def tables(found: Found, again: Mapping[str, float]) -> str:
    """Return what was found as Markdown."""
    place = sorted(found.seconds.values()).index(found.seconds[found.pick.configuration_id]) + 1
    share = found.search_launches / found.grid_launches
    lines = [
        "| | configuration | seconds of a request, grid | launched again |",
        "|---|---|---|---|",
        *(_row(name, one, found, again) for name, one in (("best of the grid", found.best), ("pick", found.pick))),
        "",
        f"The grid took {found.grid_launches} launches, the search {found.search_launches} ({share:.0%}), those that "
        f"confirm included. Regret of the pick: {found.regret_ratio:.1%} by the grid, where it is number {place} of "
        f"{len(found.seconds)}.",
    ]
    if len(again) > 1:
        picked, best = (again[_label(one)] for one in (found.pick, found.best))
        lines.append(f"By {_CHECKING_LAUNCHES} more launches of each, in turn: {picked / best - 1:+.1%}.")
    lines += ["", "Seconds by the grid: " + "; ".join(f"{found.labels[n]} {s:.3f}" for n, s in found.seconds.items())]
    return "\n".join(lines)


def _row(name: str, one: Configuration, found: Found, again: Mapping[str, float]) -> str:
    seconds = again.get(_label(one))
    relaunched = "–" if seconds is None else f"{seconds:.3f}"
    return f"| {name} | {_label(one)} | {found.seconds[one.configuration_id]:.3f} | {relaunched} |"


def _picked(folder: RunFolder, run: RunData) -> Configuration:
    assert run.plan is not None and run.plan.tune is not None
    confirmed = stored_confirmation(folder, run, summaries_of(run))
    if confirmed is not None and confirmed.pick is not None:
        return confirmed.pick.candidate.configuration
    reference_id = run.plan.tune.reference_id
    return next(one for one in run.plan.configurations if one.configuration_id == reference_id)


def _label(one: Configuration) -> str:
    k = one.num_speculative_tokens
    return f"k={k} {one.knobs.get('method', '')}".rstrip() if k else "no speculation"


def main() -> int:
    """Return 0 where both limits are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="where runs and reports are kept")
    parser.add_argument("--engine", choices=("real", "simulated"), default="real")
    arguments = parser.parse_args()
    arguments.root.mkdir(parents=True, exist_ok=True)
    engine = _SIMULATED if arguments.engine == "simulated" else ()
    found = grid_and_search(arguments.root, engine)
    same = found.pick.configuration_id == found.best.configuration_id
    print(tables(found, {} if same else checked(found, arguments.root, engine)))
    kept = found.regret_ratio <= MOST_REGRET_RATIO and (
        found.search_launches <= MOST_LAUNCHES_RATIO * found.grid_launches
    )
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
