"""Runs of `tune` whose launches are as fast as the test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.records.cell import Configuration
from harness.records.journal import RunData, RunNote
from harness.records.observation import Phase
from harness.records.tune import PlannedTune, TuneStep
from harness.stats.arms import Stored
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from tests.unit.stats.arms_build import BASE, CANDIDATE, LOADS, comparison, launch, measured, planned
from tests.unit.stats.arms_build import manifest as a_manifest

THIRD = Configuration(recipe="tiny", knobs={"num_speculative_tokens": 6}, name="six")
NAMES = {"A": BASE, "B": CANDIDATE, "C": THIRD}
TUNE = PlannedTune(
    sampler="auto",
    max_launches=8,
    confirm_best=2,
    confirm_launches=3,
    reference_id=BASE.configuration_id,
    objective="seconds",
    study="s",
    fingerprint="f",
)


def searched(search: Mapping[str, float], confirming: Mapping[str, Sequence[float]], *notes: str) -> Stored:
    """A run whose launches are as slow as the factors say: one each of the search, then those that confirm."""
    rows = [(name, factor, 1) for name, factor in search.items()]
    rows += [(name, factor, 2 + at) for name, factors in confirming.items() for at, factor in enumerate(factors)]
    rows.sort(key=lambda row: (row[2], row[0]))
    launches, trials, steps = [], [], []
    for number, (name, factor, round_number) in enumerate(rows, start=1):
        one = NAMES[name]
        launches.append(launch(f"l{number}", one, round=round_number, started_at=f"2026-11-30T13:{number:02}:11+00:00"))
        trials += [
            measured(one, at, factor, trial_id=f"{at.load_id}-{number}", launch_id=f"l{number}", round=round_number)
            for at in LOADS
        ]
        phase: Phase = "confirm" if round_number > 1 else "reference" if name == "A" else "search"
        steps.append(
            TuneStep(
                at="2026-11-30T13:00:00+00:00",
                launch_key=f"k{number}",
                configuration_id=one.configuration_id,
                phase=phase,
                because="",
            )
        )
    plan = replace(planned(comparison(), LOADS), comparison=None, tune=TUNE)
    run = RunData(
        manifest=replace(a_manifest(), command=("harness", "tune", "small.yaml", "--sampler", "grid")),
        plan=plan,
        launches=tuple(launches),
        trials=tuple(trials),
        tune_steps=tuple(steps),
        notes=tuple(RunNote(at="2026-11-30T14:00:00+00:00", text=note) for note in notes),
    )
    return Stored(run=run, cells=summarise_run(run.trials, run.launches, Limits()))
