"""Runs of `ab` whose launches are as fast as the test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from harness.records.cell import Cell, CellGroup, Configuration, LoadPoint, OutputLength
from harness.records.journal import RunData
from harness.records.launch import LaunchRecord, LiveIdentity
from harness.records.manifest import Manifest
from harness.records.plan import Plan, PlannedComparison, PlannedLaunch, PlannedTrial
from harness.records.trial import TrialRecord
from harness.stats.arms import Stored
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from tests.fakes.run_builder import RunShape, fake_run
from tests.unit.stats.build import delta, steady, trial

STEPS, TOKENS_PER_STEP, STEP_S, FIRST_S = 10, 3, 0.02, 0.5
BASE = Configuration(recipe="tiny", knobs={"num_speculative_tokens": 4}, name="four")
CANDIDATE = Configuration(recipe="tiny", knobs={"num_speculative_tokens": 5}, name="five")


def load(context_tokens: int = 256, concurrency: int = 1, **changes: Any) -> LoadPoint:
    output = OutputLength(tokens=STEPS * TOKENS_PER_STEP + 1)
    fields: dict[str, Any] = {"workload_class": "prose", "output": output, **changes}
    return LoadPoint(context_tokens=context_tokens, concurrency=concurrency, **fields)


LOADS = (load(), load(concurrency=4))
SHORT, WIDE = LOADS


def comparison(**changes: Any) -> PlannedComparison:
    """What a run of ``ab`` asks; ``same=True`` for an A/A."""
    same = changes.pop("same", False)
    candidate = BASE if same else CANDIDATE
    asked = PlannedComparison(
        base_id=BASE.configuration_id,
        candidate_id=candidate.configuration_id,
        base_name="four",
        candidate_name=candidate.name or "",
        factors=() if same else ("num_speculative_tokens",),
        max_launches=6,
        sequential=not same,
        objective="seconds",
    )
    return replace(asked, **changes)


def measured(configuration: Configuration, at: LoadPoint, factor: float, **changes: Any) -> TrialRecord:
    """A trial of eight prompts, all of whose times are ``factor`` times as long as they should be."""
    prompts = changes.pop("prompts", 8)
    requests = [
        steady(
            steps=STEPS,
            tokens_per_step=TOKENS_PER_STEP,
            step_s=STEP_S * factor * (1 + 0.05 * number),
            first_s=FIRST_S * factor,
            prompt_id=f"p{number}",
        )
        for number in range(prompts)
    ]
    drafts = STEPS * prompts
    counters = delta(drafts=drafts, draft_tokens=4 * drafts, accepted_tokens=2 * drafts)
    record = trial(requests, counters, k=configuration.num_speculative_tokens)
    return replace(record, cell=Cell(configuration=configuration, load=at), **changes)


def launch(name: str, configuration: Configuration, **changes: Any) -> LaunchRecord:
    live = LiveIdentity(
        model="tiny",
        max_model_len=4096,
        engine_version="1.0",
        num_speculative_tokens=configuration.num_speculative_tokens,
        proof="counters",
    )
    base = LaunchRecord(
        launch_id=name,
        run_id="r",
        round=1,
        attempt=1,
        configuration=configuration,
        started_at="2026-11-30T13:28:11+00:00",
        outcome="measured",
        ready_s=10.0,
        total_s=60.0,
        live=live,
    )
    return replace(base, **changes)


def ab_run(
    base: Sequence[float],
    candidate: Sequence[float] = (),
    *,
    loads: Sequence[LoadPoint] = LOADS,
    asked: PlannedComparison | None = None,
    order: str = "",
    **plan: Any,
) -> RunData:
    """A run with a launch per factor, in A B B A order unless said, and every load in each."""
    asked = asked or comparison(same=not candidate)
    left = {"A": list(base), "B": list(candidate)}
    order = order or ("A" * len(base) if not candidate else abba(len(base), len(candidate)))
    launches: list[LaunchRecord] = []
    trials: list[TrialRecord] = []
    for number, arm in enumerate(order, start=1):
        configuration = BASE if arm == "A" else CANDIDATE
        factor = left[arm].pop(0)
        launches.append(launch(f"l{number}", configuration, started_at=f"2026-11-30T13:{number:02}:11+00:00"))
        for at in loads:
            names = {"trial_id": f"{at.load_id}-{number}", "launch_id": f"l{number}"}
            trials.append(measured(configuration, at, factor, **names))
    assert not any(left.values())
    return RunData(
        manifest=manifest(),
        plan=planned(asked, loads, **plan),
        launches=tuple(launches),
        trials=tuple(trials),
    )


def planned(asked: PlannedComparison, loads: Sequence[LoadPoint], **changes: Any) -> Plan:
    """The plan of one round of both arms."""
    groups = [CellGroup(configuration=one, loads=tuple(loads)) for one in (BASE, CANDIDATE)]
    launches = [
        PlannedLaunch(
            launch_key=f"k{number}",
            ordinal=number,
            round=1,
            configuration=group.configuration,
            trials=tuple(PlannedTrial(trial_id=each.load_id, load=each, predicted_s=20.0) for each in group.loads),
            predicted_launch_s=10.0,
        )
        for number, group in enumerate(groups[:1] if asked.same else groups, start=1)
    ]
    plan = Plan(sweep="s", recipe="tiny", seed=1, launches=tuple(launches), comparison=asked)
    return replace(plan, **changes)


def abba(first: int, second: int) -> str:
    """A B B A A B B A ... until either arm has its launches."""
    left, order = {"A": first, "B": second}, ""
    while any(left.values()):
        arm = "ABBA"[len(order) % 4]
        arm = arm if left[arm] else next(one for one in left if left[one])
        order += arm
        left[arm] -= 1
    return order


def stored(run: RunData) -> Stored:
    return Stored(run=run, cells=summarise_run(run.trials, run.launches, Limits(least_drafts=1)))


def voided(run: RunData, launch_id: str, *loads: LoadPoint) -> RunData:
    """The run with trials of a launch that do not count; all of them unless loads are named."""
    return replace(
        run,
        trials=tuple(
            replace(one, jit_lines=("compiled",))
            if one.launch_id == launch_id and (not loads or one.cell.load in loads)
            else one
            for one in run.trials
        ),
    )


def without(run: RunData, configuration: Configuration, at: LoadPoint) -> RunData:
    """The run without any trial of a cell."""
    cell = Cell(configuration=configuration, load=at)
    return replace(run, trials=tuple(one for one in run.trials if one.cell.cell_id != cell.cell_id))


@cache
def manifest() -> Manifest:
    shape = RunShape(tokens=(0, 2), concurrencies=(1,), contexts=(256,), repeats=1, with_doubts=False)
    return fake_run(shape).manifest
