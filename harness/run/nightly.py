"""What `nightly` adds to a plan: the configuration that decides, those beside it, and cells that fit the time. Pure.

The cells are the same every night, or the nights could not be compared: they are chosen by ``budget.time`` of the
sweep and by predictions, never by the time that a night happens to have left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.errors import InputError
from harness.records.cell import CellGroup, Configuration, LoadPoint
from harness.records.plan import Plan, PlannedLaunch, PlannedNightly
from harness.run.plan import PlanRequest, make_plan
from harness.store.layout import slug
from harness.store.nights import SIMULATED_NAME, require_name
from harness.sweep.cells import Expansion
from harness.sweep.load import Sweep
from harness.units import format_seconds, format_tokens

ROUNDS = 2  # the second on suspicion
_OVERHEAD_RATIO = 0.1  # of the budget: canaries, fixed prompts, what no prediction holds
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyWish:
    """What the command line says of a night."""

    baseline: str | None = None  # None: called like the sweep


def as_nightly(request: PlanRequest, sweep: Sweep, expansion: Expansion, wish: NightlyWish) -> PlanRequest:
    """Return the request of a night: two launches of what decides, one of what is watched, and cells that fit.

    Args:
        request: of the whole sweep.
        sweep: as loaded.
        expansion: of the sweep.
        wish: of the command line.

    Raises:
        InputError: a named configuration is not measured, no baseline can be called so, or the budget has no room for
            one cell launched twice.
    """
    groups = [_kept_cells(group, request.base) for group in _chosen(request, sweep, expansion)]
    groups = [group for group in groups if group.loads]
    if not groups:
        where = sweep.source.where(("knobs", "cache"), value=True)
        hint = "Add cells with cache: warm. Cold ones would push the users' prefixes out of the cache."
        raise InputError("a server that is in use is measured in warm cells only", where=where, hint=hint)
    dropped = sum(len(group.loads) for group in request.groups[:1]) - len(groups[0].loads)
    whole = replace(request, groups=groups, rounds=1, budget=replace(request.budget, time_s=None))
    fitting = _Fitting(
        first_round={one.configuration.configuration_id: one for one in make_plan(whole).launches},
        weights=request.base.weights,
        time_s=sweep.file.budget.time,
    )
    kept, left_out = fitting.chosen(groups, sweep)
    nightly = PlannedNightly(
        gate_id=kept[0].configuration.configuration_id,
        watched_ids=tuple(group.configuration.configuration_id for group in kept[1:]),
        baseline=_baseline_name(wish, request.base),
    )
    warm_only = (f"{dropped} cold cells are left out: the server's users keep their prefix cache",) if dropped else ()
    notes = (*request.base.notes, *warm_only, *left_out)
    return replace(request, groups=kept, rounds=ROUNDS, base=replace(request.base, nightly=nightly, notes=notes))


def _baseline_name(wish: NightlyWish, base: Plan) -> str:
    if wish.baseline is not None:
        require_name(wish.baseline, simulated=base.simulated, where="--baseline")
        return wish.baseline
    return f"{SIMULATED_NAME if base.simulated else ''}{slug(base.sweep)}"


def _chosen(request: PlanRequest, sweep: Sweep, expansion: Expansion) -> list[CellGroup]:
    """The named configurations in their order; else all of them, with what gains are measured against first."""
    settings = sweep.file.nightly
    names = settings.configurations if settings else ()
    if not names:
        return sorted(request.groups, key=lambda group: not _decides(group.configuration, request))
    by_name = _by_name(request.groups, expansion)
    for at, name in enumerate(names):
        if name not in by_name:
            refused = [one.because for one in expansion.refusals if one.configuration.name == name]
            hint = refused[0] if refused else "It is excluded, or has no cell."
            where = sweep.source.where(("nightly", "configurations", at), value=True)
            raise InputError(f"the configuration {name} is not measured", where=where, hint=hint)
    return list({by_name[name].configuration.configuration_id: by_name[name] for name in names}.values())


def _decides(configuration: Configuration, request: PlanRequest) -> bool:
    """What gains are measured against, unless it is a control or does not speculate; then the first that does."""
    candidates = [group.configuration for group in request.groups]
    speculating = [
        one
        for one in candidates
        if one.num_speculative_tokens != 0 and one.configuration_id not in request.base.control_ids
    ]
    incumbent = [one for one in speculating if one.configuration_id == request.base.incumbent_id]
    return configuration == (incumbent or speculating or candidates)[0]


def _by_name(groups: Sequence[CellGroup], expansion: Expansion) -> dict[str, CellGroup]:
    """Groups by every name that they have: of several that are one server, one is measured."""
    found = {group.configuration.name: group for group in groups if group.configuration.name}
    for collapsed in expansion.collapsed:
        for group in groups:
            if group.configuration.configuration_id == collapsed.kept.configuration_id:
                found |= {same.name: group for same in collapsed.same_as if same.name}
    return found


def _kept_cells(group: CellGroup, base: Plan) -> CellGroup:
    """All of them; of a server that somebody uses, those that leave its prefix cache alone."""
    if not base.attached:
        return group
    return replace(group, loads=tuple(load for load in group.loads if load.cache == "warm"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fitting:
    """Which cells and configurations fit the time of a night."""

    first_round: Mapping[str, PlannedLaunch]  # with all cells, by configuration id
    weights: Mapping[str, float]
    time_s: float | None

    def chosen(self, groups: Sequence[CellGroup], sweep: Sweep) -> tuple[list[CellGroup], tuple[str, ...]]:
        """What is measured, and in words what is not."""
        if self.time_s is None:
            return list(groups), ("budget.time is not said, so that every cell is measured, however long it takes",)
        usable_s = self.time_s * (1 - _OVERHEAD_RATIO)
        gate = groups[0]
        loads = self._fitting_loads(gate, usable_s / ROUNDS, sweep)
        left_out = [f"left out of the night for lack of time: {_words(self._missing(gate, loads))}"]
        kept = [replace(gate, loads=loads)]
        spent_s = ROUNDS * self._seconds(gate, loads)
        watched_out = []
        for group in groups[1:]:
            beside = tuple(load for load in group.loads if load in loads)
            needed_s = self._seconds(group, beside)
            if beside and spent_s + needed_s <= usable_s:
                kept.append(replace(group, loads=beside))
                spent_s += needed_s
            else:
                watched_out.append(group.configuration.label)
        notes = left_out if len(loads) < len(gate.loads) else []
        if watched_out:
            notes.append(f"not watched for lack of time: {_listed(watched_out)}")
        return kept, tuple(notes)

    def _fitting_loads(self, gate: CellGroup, limit_s: float, sweep: Sweep) -> tuple[LoadPoint, ...]:
        """The heaviest of the workload first, of equal ones the cheapest."""
        launch = self.first_round[gate.configuration.configuration_id]
        seconds = {trial.load.load_id: trial.predicted_s for trial in launch.trials}
        order = sorted(gate.loads, key=lambda load: (-self.weights.get(load.load_id, 0.0), seconds[load.load_id]))
        spent_s, kept = launch.predicted_launch_s, set[str]()
        for load in order:
            if spent_s + seconds[load.load_id] <= limit_s:
                spent_s += seconds[load.load_id]
                kept.add(load.load_id)
        if not kept:
            least_s = ROUNDS * (launch.predicted_launch_s + min(seconds.values())) / (1 - _OVERHEAD_RATIO)
            assert self.time_s is not None
            raise InputError(
                f"a night of {format_seconds(self.time_s)} has no room for one cell of "
                f"{gate.configuration.label}, launched twice",
                where=sweep.source.where(("budget", "time"), value=True),
                hint=f"Give it {format_seconds(least_s)} at least: what looks bad is launched again in the same night.",
            )
        return tuple(load for load in gate.loads if load.load_id in kept)

    def _seconds(self, group: CellGroup, loads: Sequence[LoadPoint]) -> float:
        launch = self.first_round[group.configuration.configuration_id]
        return launch.predicted_launch_s + sum(trial.predicted_s for trial in launch.trials if trial.load in loads)

    def _missing(self, gate: CellGroup, loads: Sequence[LoadPoint]) -> list[LoadPoint]:
        return [load for load in gate.loads if load not in loads]


def _words(loads: Sequence[LoadPoint]) -> str:
    return _listed([f"{one.workload_class} {format_tokens(one.context_tokens)} x {one.concurrency}" for one in loads])


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return "; ".join(words[:_MOST_NAMED]) + more
