"""What two stored runs must have in common before they are compared. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from harness.records.cell import Configuration
from harness.records.doubt import Doubt
from harness.records.journal import RunData
from harness.stats.kinds import doubt

DifferenceKind = Literal["engine", "rig", "workload", "harness"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing in which two runs are unlike."""

    kind: DifferenceKind
    words: str


def differences(
    base: RunData, candidate: RunData, base_configuration: Configuration, candidate_configuration: Configuration
) -> tuple[Difference, ...]:
    """Return what the runs differ in besides their configurations: engine, rig, workload, and the harness itself."""
    found: list[Difference] = []
    _add(found, "engine", "recipe", base.manifest.recipe, candidate.manifest.recipe)
    _add(found, "engine", "engine version", *_versions(base, candidate))
    _add(found, "rig", "rig", base.manifest.host.rig_id, candidate.manifest.host.rig_id)
    _add(found, "rig", "simulated", str(base.manifest.simulated), str(candidate.manifest.simulated))
    measuring = (str(base.manifest.measuring_version), str(candidate.manifest.measuring_version))
    _add(found, "harness", "measuring version", *measuring)
    changed = _changed_workloads(base, candidate, base_configuration, candidate_configuration)
    if changed:
        found.append(Difference(kind="workload", words=f"other prompts in {changed} of the loads in common"))
    return tuple(found)


def unlike_doubts(unlike: tuple[Difference, ...]) -> tuple[Doubt, ...]:
    """Return the doubt that stays on the page of a comparison of unlike runs; () where they are alike."""
    if not unlike:
        return ()
    evidence = "; ".join(one.words for one in unlike)
    return (doubt("fingerprints_differ", evidence, "Measure both with one rig, engine and workload: harness ab."),)


def with_own_launches(run: RunData) -> RunData:
    """Return the run with launch ids that no other run has: two rehearsals with one seed have the same ones."""
    prefix = run.manifest.run_id
    return replace(
        run,
        launches=tuple(replace(one, launch_id=f"{prefix}/{one.launch_id}") for one in run.launches),
        trials=tuple(replace(one, launch_id=f"{prefix}/{one.launch_id}") for one in run.trials),
    )


def tagged(run: RunData, configuration: Configuration) -> RunData:
    """Return the run with its id as a knob of one configuration, so that two runs of it are two configurations."""
    wanted = configuration.configuration_id
    name = f"{configuration.label} ({run.manifest.run_id})"
    new = replace(configuration, knobs=configuration.knobs | {"run": run.manifest.run_id}, name=name)
    return replace(
        run,
        launches=tuple(
            replace(one, configuration=new) if one.configuration.configuration_id == wanted else one
            for one in run.launches
        ),
        trials=tuple(
            replace(one, cell=replace(one.cell, configuration=new))
            if one.cell.configuration.configuration_id == wanted
            else one
            for one in run.trials
        ),
    )


def _add(found: list[Difference], kind: DifferenceKind, name: str, first: str | None, second: str | None) -> None:
    if first is not None and second is not None and first != second:
        found.append(Difference(kind=kind, words=f"{name}: {first} and {second}"))


def _versions(base: RunData, candidate: RunData) -> tuple[str | None, str | None]:
    seen = []
    for run in (base, candidate):
        versions = {launch.live.engine_version for launch in run.launches if launch.live}
        seen.append(next((version for version in sorted(filter(None, versions))), None))
    return seen[0], seen[1]


def _changed_workloads(base: RunData, candidate: RunData, first: Configuration, second: Configuration) -> int:
    """How many loads were asked with other prompts. A load is the same question only with the same prompts."""
    asked = []
    for run, configuration in ((base, first), (candidate, second)):
        wanted = configuration.configuration_id
        asked.append(
            {
                trial.cell.load.load_id: trial.workload_id
                for trial in run.trials
                if trial.cell.configuration.configuration_id == wanted
            }
        )
    return sum(1 for load_id, workload in asked[0].items() if asked[1].get(load_id, workload) != workload)
