"""What two stored runs must have in common."""

from __future__ import annotations

from dataclasses import replace

from harness.records.journal import RunData
from harness.stats.fingerprint import differences, tagged, unlike_doubts, with_own_launches
from tests.unit.stats.arms_build import BASE, CANDIDATE, ab_run

RUN = ab_run((1.0, 1.0), (0.9, 0.9))


def unlike(other: RunData) -> dict[str, str]:
    found = differences(RUN, other, BASE, CANDIDATE)
    return {one.kind: one.words for one in found}


def test_a_run_is_like_itself() -> None:
    assert unlike(RUN) == {} and unlike_doubts(()) == ()


def test_another_rig_engine_or_way_of_measuring_is_named() -> None:
    manifest = RUN.manifest
    host = replace(manifest.host, rig_id="elsewhere")
    assert unlike(replace(RUN, manifest=replace(manifest, host=host)))["rig"].endswith("and elsewhere")
    assert unlike(replace(RUN, manifest=replace(manifest, measuring_version=9))).keys() == {"harness"}
    assert "recipe" in unlike(replace(RUN, manifest=replace(manifest, recipe="other")))["engine"]
    newer = tuple(replace(one, live=replace(one.live, engine_version="2.0")) for one in RUN.launches if one.live)
    assert unlike(replace(RUN, launches=newer)) == {"engine": "engine version: 1.0 and 2.0"}
    real = replace(manifest, simulated=not manifest.simulated)
    assert "simulated" in unlike(replace(RUN, manifest=real))["rig"]


def test_other_prompts_are_another_question() -> None:
    other = replace(RUN, trials=tuple(replace(one, workload_id="w2") for one in RUN.trials))
    assert unlike(other) == {"workload": "other prompts in 2 of the loads in common"}
    (doubt,) = unlike_doubts(differences(RUN, other, BASE, CANDIDATE))
    assert doubt.kind == "fingerprints_differ" and "other prompts" in doubt.evidence


def test_launches_of_two_rehearsals_do_not_clash() -> None:
    own = with_own_launches(RUN)
    run_id = RUN.manifest.run_id
    assert [one.launch_id for one in own.launches] == [f"{run_id}/{one.launch_id}" for one in RUN.launches]
    assert {one.launch_id for one in own.trials} == {one.launch_id for one in own.launches}


def test_the_same_configuration_of_two_runs_is_told_apart_by_its_run() -> None:
    found = tagged(RUN, BASE)
    ids = {one.configuration.configuration_id for one in found.launches}
    assert CANDIDATE.configuration_id in ids and BASE.configuration_id not in ids
    assert {one.cell.configuration.configuration_id for one in found.trials} == ids
