"""How good is the pick of a search on a real vLLM? Against every configuration launched once, in the same hour.

    python -m benchmarks.regret_vllm --root DIR           # 31 launches and 4 to check, half an hour on two quiet cores
    python -m benchmarks.regret_vllm --root DIR --engine simulated

One launch of each is as noisy as a launch is, and the best of 21 is the lucky one, by up to 13 % when launched again.
So what the grid calls best and what the search picked are launched twice more at the end, in turn, and only these
launches judge: would the user of a grid have got something faster? What a search would have picked that began with
another incumbent is played on the launches of the grid.
"""

from __future__ import annotations

import argparse
import math
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
from harness.records.observation import Candidate, Observation
from harness.search.choice import best_launched, is_worth_it, next_choice
from harness.search.space import Space
from harness.stats.objective import workload_seconds
from harness.stats.observe import observation_of, search_cells
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
    replays: Sequence[Replay]

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
        replays=replayed(grid, search.plan.tune.max_launches if search.plan and search.plan.tune else 0),
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
    return {_label(one.configuration): one.seconds or math.nan for one in workload_seconds(summaries_of(run), {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a search picks that begins with an incumbent, where every launch shows what the grid's did."""

    incumbent: str
    launched: tuple[str, ...]
    pick: str
    regret_ratio: float


def replayed(grid: RunData, most_launches: int) -> list[Replay]:
    """Return a search from every configuration, without its confirmation."""
    cells = summaries_of(grid)
    seconds = {one.configuration.configuration_id: one.seconds for one in workload_seconds(cells, {})}
    seen = {one.configuration.configuration_id: observation_of([one], cells) for one in grid.launches}
    assert grid.plan is not None
    candidates = tuple(_candidate(one) for one in grid.plan.configurations)
    labels = {one.configuration_id: _label(one) for one in grid.plan.configurations}
    loads = {cell.cell.load.load_id: cell.cell.load for cell in cells}
    found = []
    for one in candidates:
        space = Space(candidates=candidates, cells=search_cells(loads.values(), {}), reference_id=one.configuration_id)
        names = _searched(space, seen, most_launches, grid.plan.margin_ratio)
        (pick,) = best_launched(space, [seen[name] for name in names])
        regret = (seconds[pick] or math.nan) / min(value for value in seconds.values() if value) - 1
        launched = tuple(labels[name] for name in names)
        found.append(Replay(incumbent=launched[0], launched=launched, pick=labels[pick], regret_ratio=regret))
    return found


def _searched(space: Space, seen: Mapping[str, Observation], most: int, margin_ratio: float) -> list[str]:
    off = next(one.configuration_id for one in space.candidates if not one.num_speculative_tokens)
    names = list(dict.fromkeys([space.reference_id, off]))
    while len(names) < most:
        choice = next_choice(space, [seen[name] for name in names])
        if choice is None or not is_worth_it(choice, margin_ratio):
            break
        names.append(choice.configuration_id)
    return names


def _candidate(one: Configuration) -> Candidate:
    k = one.num_speculative_tokens or 0
    knobs = {name: one.knobs[name] for name in ("num_speculative_tokens", "method") if name in one.knobs and k}
    return Candidate(
        configuration_id=one.configuration_id, knobs=knobs or {"num_speculative_tokens": 0}, num_speculative_tokens=k
    )


def replay_table(replays: Sequence[Replay]) -> str:
    """Return the searches as Markdown."""
    fine = sum(one.regret_ratio <= MOST_REGRET_RATIO for one in replays)
    return "\n".join(
        [
            "| incumbent | then launched | pick | regret |",
            "|---|---|---|---|",
            *(
                f"| {one.incumbent} | {', '.join(one.launched[1:])} | {one.pick} | {one.regret_ratio:.1%} |"
                for one in replays
            ),
            "",
            f"Regret of at most {MOST_REGRET_RATIO:.0%} from {fine} of {len(replays)} incumbents.",
        ]
    )


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
    again = {} if same else checked(found, arguments.root, engine)
    print(tables(found, again))
    print(f"\n{replay_table(found.replays)}")
    regret_ratio = 0.0 if same else again[_label(found.pick)] / again[_label(found.best)] - 1
    kept = regret_ratio <= MOST_REGRET_RATIO and found.search_launches <= MOST_LAUNCHES_RATIO * found.grid_launches
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
