"""A run of ``nightly`` -> the night that it measured of one configuration. Pure.

A launch is unfit to be judged where the rig was not itself or the server was not ours alone. Such a launch is left out
where another one of the night is fit. Where none is, the figures are those of all launches, and the night is doubtful.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from harness.records.cell import NUM_SPECULATIVE_TOKENS, LoadPoint
from harness.records.host import NodeFacts
from harness.records.identity import content_id
from harness.records.journal import RunData
from harness.records.launch import FAILED, LaunchRecord
from harness.records.nightly import Night
from harness.records.trial import MEASURING_VERSION
from harness.stats.arms import Stored, Wanted, side_of, weights_over
from harness.stats.compare import Question, Side, complete
from harness.stats.effect import combined_logs
from harness.stats.paired import SECONDS, paired

HEADLINE = (SECONDS, "delivered_per_step", "step_s")  # the series that gate: more would gate by chance
BESIDE = ("ttft_s", "worst_stream_tokens_per_s", "decode_tokens_per_s", "acceptance_length", "step_s")  # of each cell
SLOW_BOOT = "slow_boot"
UNFIT = ("canary_moved", SLOW_BOOT, "node_throttled", "node_power_changed", "foreign_traffic")
ATTACHED = "as it runs"
INCOMPLETE = "workload_incomplete"


def night_of(stored: Stored, configuration_id: str) -> Night:
    """Return what a run measured of one configuration."""
    run = stored.run
    side = side_of(stored, Wanted(name="", configuration_id=configuration_id))
    loads = _loads(run, side)
    question = Question(loads=loads, weights=weights_over(run.plan.weights, loads) if run.plan else {})
    sorted_out = _sorted_out(side, question)
    launches = [launch for launch in run.launches if launch.configuration.configuration_id == configuration_id]
    counted = [launch for launch in launches if launch.launch_id in sorted_out.whole.arm.launch_ids]
    identity = _identity(run, launches, side)
    readings = [launch.canary_before.step_s for launch in counted if launch.canary_before is not None]
    return Night(
        run_id=run.manifest.run_id,
        sweep=run.manifest.sweep,
        at=run.manifest.started_at,
        key=content_id(identity),
        figures={name: _values(name, sorted_out.whole, question) for name in HEADLINE},
        cells=_cells(stored, configuration_id, sorted_out.cell_launches),
        loads={load.load_id: load.columns for load in loads},
        boot_s=_median([launch.ready_s for launch in launches]),
        kv_cache_tokens=next((one.boot.kv_cache_tokens for one in counted or launches if one.boot), None),
        failed_launches=sum(launch.outcome in FAILED for launch in launches),
        doubts=sorted_out.doubts,
        left_out=sorted_out.left_out,
        void=() if sorted_out.whole.arm.launch_ids else _void_kinds(stored, configuration_id),
        canary_step_s=_median(readings),
        canary_ratio=_median([launch.canary_ratio for launch in counted]),
        facts=_facts(run, counted or launches),
        identity=identity,
        simulated=run.manifest.simulated,
    )


def _loads(run: RunData, side: Side) -> tuple[LoadPoint, ...]:
    """What was planned, so that a load without a trial is missed; what was measured where a trace says it only then."""
    planned = {
        trial.load.load_id: trial.load
        for launch in (run.plan.launches if run.plan else ())
        if launch.configuration == side.arm.configuration and launch.fits_budget
        for trial in launch.trials
    }
    measured = {one.trial.cell.load.load_id: one.trial.cell.load for one in side.trials.values()}
    return tuple((planned or measured).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _SortedOut:
    """Which launches of a night count."""

    whole: Side  # the complete launches whose figures are taken
    cell_launches: Collection[str]  # whose cells are taken
    doubts: tuple[str, ...]
    left_out: tuple[str, ...]


def _sorted_out(side: Side, question: Question) -> _SortedOut:
    whole = complete(side, question)
    kinds = {launch_id: _unfit(side, launch_id, question) for launch_id in side.arm.launch_ids}
    fit = [launch_id for launch_id in whole.arm.launch_ids if not kinds[launch_id]]
    if not fit:
        doubts = {kind for found in kinds.values() for kind in found}
        return _SortedOut(whole=whole, cell_launches=side.arm.launch_ids, doubts=tuple(sorted(doubts)), left_out=())
    left_out = {kind for found in kinds.values() for kind in found}
    if len(whole.arm.launch_ids) < len(side.arm.launch_ids):
        left_out.add(INCOMPLETE)
    kept = replace(whole, arm=replace(whole.arm, launch_ids=tuple(fit)))
    return _SortedOut(whole=kept, cell_launches=fit, doubts=(), left_out=tuple(sorted(left_out)))


def _unfit(side: Side, launch_id: str, question: Question) -> frozenset[str]:
    trials = (side.trials.get((launch_id, load.load_id)) for load in question.loads if question.weight(load))
    return frozenset(kind for one in trials if one is not None for kind in one.doubt_kinds if kind in UNFIT)


def _values(name: str, whole: Side, question: Question) -> tuple[float, ...]:
    loads = [load for load in question.loads if question.weight(load)]
    tables = [paired(name, load, whole.rows(load), whole.rows(load)) for load in loads]
    known = [table.base for table in tables if not isinstance(table, str)]
    if not known or len(known) < len(loads):
        return ()
    weights = np.array([question.weight(load) for load in loads])
    return tuple(combined_logs(known, weights, "sum" if name == SECONDS else "mean").tolist())


def _void_kinds(stored: Stored, configuration_id: str) -> tuple[str, ...]:
    cells = [cell for cell in stored.cells if cell.cell.configuration.configuration_id == configuration_id]
    found = {one.kind for cell in cells for trial in cell.trials if trial.void for one in trial.doubts if one.void}
    return tuple(sorted(found))


def _cells(stored: Stored, configuration_id: str, launch_ids: Collection[str]) -> dict[str, dict[str, float]]:
    found = {}
    for cell in stored.cells:
        if cell.cell.configuration.configuration_id != configuration_id:
            continue
        trials = [trial for trial in cell.valid_trials if trial.launch_id in launch_ids]
        medians = {name: _median([trial.metrics.values[name] for trial in trials]) for name in BESIDE}
        found[cell.cell.load.load_id] = {name: value for name, value in medians.items() if value is not None}
    return {load_id: values for load_id, values in found.items() if values}


def _identity(run: RunData, launches: Sequence[LaunchRecord], side: Side) -> dict[str, str]:
    """What makes nights comparable. Another value of any of these begins a new series."""
    manifest = run.manifest
    lives = [launch.live for launch in launches if launch.live is not None]
    workloads = {load_id: one.trial.workload_id for (_, load_id), one in side.trials.items()}
    images = {
        value for launch in launches for name, value in launch.environment.items() if "IMAGE" in name.upper().split("_")
    }
    return {
        "recipe": manifest.recipe,
        "rig": manifest.host.rig_id,
        "engine": _listed(live.engine_version or "unknown" for live in lives),
        "model": _listed(live.model for live in lives),
        "image": _listed(images),
        "workload": content_id(sorted(workloads.items()))[:12],
        # Where a server answers that runs already is no part of what it is: it may have another port tomorrow.
        "configuration": ATTACHED if run.plan and run.plan.attached else side.arm.configuration.configuration_id[:12],
        "measuring version": str(MEASURING_VERSION),
    }


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


def _facts(run: RunData, launches: Sequence[LaunchRecord]) -> dict[str, str]:
    host = run.manifest.host
    facts = {"harness": run.manifest.harness_version, "recipe file": run.manifest.recipe_sha256[:12]}
    facts |= {"kernel": host.kernel, "python": host.python}
    for launch in launches[:1]:
        if launch.live is not None and launch.live.num_speculative_tokens is not None:
            facts[NUM_SPECULATIVE_TOKENS] = str(launch.live.num_speculative_tokens)
        for node in launch.nodes:
            facts |= {f"{node.node} {name}": value for name, value in _node_facts(node).items()}
    return facts


def _node_facts(node: NodeFacts) -> dict[str, str]:
    known = {
        "driver": node.driver_version,
        "GPU firmware": node.vbios_version,
        "firmware": node.firmware_version,
        "kernel": node.kernel,
        "power limit": None if node.power_limit_w is None else f"{node.power_limit_w:.0f} W",
        "temperature": None if node.temperature_c is None else f"{node.temperature_c:.0f} °C",
        **{f"image {name}": image[:19] for name, image in node.images.items()},
    }
    return {name: value for name, value in known.items() if value is not None}


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
