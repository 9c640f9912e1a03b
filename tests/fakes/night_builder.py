"""Nights with known figures, as lines of the history and, where asked, with the folder of a real run behind them."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.records.manifest import SIMULATED_MARK
from harness.records.nightly import Night
from harness.records.plan import PlannedNightly
from harness.store.journal import open_journal
from harness.store.layout import RunFolder, create_run
from harness.store.nights import add_night
from harness.store.reader import write_manifest, write_plan
from tests.fakes.run_builder import FakeRun, RunShape, fake_run

SWEEP = "small"
FIRST = datetime(2026, 11, 1, 2, tzinfo=UTC)
SMALL = RunShape(
    tokens=(0, 2),
    concurrencies=(1,),
    contexts=(256,),
    repeats=1,
    with_doubts=False,
    with_failure=False,
    with_refusal=False,
)


def run_id_of(number: int, sweep: str = SWEEP) -> str:
    """Return the id of the run of a night."""
    return f"{FIRST + timedelta(days=number):%Y%m%d-%H%M%S}-{sweep}-{number % 0xFFFFFF:06x}"


def a_night(number: int, *, factor: float = 1.0, **changes: object) -> Night:
    """Return a night whose workload takes 10 s x factor, at 2.5 tokens a step of 20 ms x factor.

    Args:
        number: of the day, from 0.
        factor: above 1 is slower.
        changes: of the record.
    """
    wiggle = 0.004 * math.sin(2.4 * number)  # nights are never equal
    night = Night(
        run_id=run_id_of(number),
        sweep=SWEEP,
        at=(FIRST + timedelta(days=number)).isoformat(),
        key="k" * 12,
        figures={
            "seconds": (-math.log(10.0 * factor) + wiggle,),
            "delivered_per_step": (math.log(2.5) - wiggle / 2,),
            "step_s": (-math.log(0.02 * factor) + wiggle,),
        },
        boot_s=25.0,
        facts={"kernel": "6.14"},
        identity={"engine": "0.32.0", "model": "tiny-target"},
    )
    return replace(night, **changes)  # type: ignore[arg-type]  # as the caller says


def put(root: Path, *nights: Night, folders: bool = False) -> None:
    """Write nights down, with the folders of their runs."""
    for night in nights:
        add_night(root / "results", night)
        if folders:
            put_run(root, night.run_id, at=night.at, simulated=night.simulated)


def put_run(root: Path, run_id: str, *, at: str, simulated: bool = False, nightly: bool = True) -> RunFolder:
    """Write the folder of a whole run of two configurations, of which the one with k = 2 decides a night."""
    run = fake_run(replace(SMALL, simulated=simulated))
    asked = None
    if nightly:
        off, on = run.plan.configurations
        asked = PlannedNightly(gate_id=on.configuration_id, watched_ids=(off.configuration_id,), baseline=SWEEP)
    run = replace(
        run,
        manifest=replace(
            run.manifest,
            run_id=run_id,
            sweep=SWEEP,
            started_at=at,
            simulated=simulated,
            mark=SIMULATED_MARK if simulated else None,
        ),
        plan=replace(run.plan, sweep=SWEEP, nightly=asked),
    )
    folder = create_run(root, run_id)
    _write(folder, run, at)
    return folder


def _write(folder: RunFolder, run: FakeRun, at: str) -> None:
    write_manifest(folder, run.manifest)
    write_plan(folder, run.plan)
    with open_journal(folder, at=at) as journal:
        for launch in run.launches:
            journal.append(launch)
        for trial in run.trials:
            journal.append(trial)
