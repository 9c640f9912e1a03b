"""A stored run becomes a night: which of its launches count, and what is known of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from harness.records.host import NodeFacts
from harness.records.journal import RunData
from harness.records.launch import BootFacts, CanaryReading, LaunchRecord
from harness.stats.night import HEADLINE, night_of
from tests.unit.stats.arms_build import BASE, CANDIDATE, LOADS, SHORT, WIDE, ab_run, stored, voided, without


def with_launches(run: RunData, *changes: dict[str, object]) -> RunData:
    launches = [replace(launch, **each) for launch, each in zip(run.launches, changes, strict=True)]  # type: ignore[arg-type] # fields by name
    return replace(run, launches=tuple(launches))


def slow(ratio: float) -> dict[str, object]:
    return {"canary_slow": True, "canary_ratio": ratio, "canary_against": "3 boots"}


RUN = ab_run([1.0, 1.02])


def test_every_headline_figure_has_a_value_for_each_launch() -> None:
    found = night_of(stored(RUN), BASE.configuration_id)

    assert found.is_valid
    assert set(found.figures) == set(HEADLINE)
    assert all(math.isfinite(value) for values in found.figures.values() for value in values)
    assert [len(values) for values in found.figures.values()] == [2, 2, 2]
    assert found.figures["seconds"][0] - found.figures["seconds"][1] == pytest.approx(math.log(1.02))
    assert set(found.cells) == set(found.loads) == {load.load_id for load in LOADS}
    assert found.cells[SHORT.load_id]["ttft_s"] == pytest.approx(0.5 * 1.01)


def test_a_slow_first_launch_is_left_out_where_the_second_is_fit() -> None:
    run = with_launches(ab_run([1.5, 1.0]), slow(1.5), {})
    alone = night_of(stored(ab_run([1.0])), BASE.configuration_id)

    found = night_of(stored(run), BASE.configuration_id)

    assert found.is_valid
    assert found.left_out == ("slow_boot",)
    assert found.figures["seconds"] == pytest.approx(alone.figures["seconds"])
    assert found.cells == alone.cells


def test_without_a_fit_launch_the_night_is_doubtful_and_keeps_its_figures() -> None:
    run = with_launches(ab_run([1.5, 1.4]), slow(1.5), slow(1.4))

    found = night_of(stored(run), BASE.configuration_id)

    assert not found.is_valid
    assert found.is_complete
    assert found.doubts == ("slow_boot",)
    assert found.left_out == ()
    assert found.canary_ratio == pytest.approx(1.45)
    assert len(found.figures["seconds"]) == 2


def test_a_launch_that_missed_a_cell_is_left_out() -> None:
    found = night_of(stored(voided(RUN, "l1", WIDE)), BASE.configuration_id)

    assert found.is_valid
    assert found.left_out == ("workload_incomplete",)
    assert len(found.figures["seconds"]) == 1


def test_a_night_that_missed_a_cell_is_not_another_workload_but_incomplete() -> None:
    run = without(ab_run([1.0]), BASE, WIDE)

    found = night_of(stored(run), BASE.configuration_id)

    assert not found.is_complete
    assert not found.is_valid


def test_a_night_without_any_launch_is_not_valid() -> None:
    run = replace(RUN, launches=(), trials=())

    found = night_of(stored(run), BASE.configuration_id)

    assert not found.is_valid
    assert found.boot_s is None
    assert found.cells == {}


def test_another_engine_is_another_series_and_the_same_is_not() -> None:
    live = RUN.launches[0].live
    assert live is not None
    newer = with_launches(RUN, *[{"live": replace(live, engine_version="2.0")}] * 2)
    first, again, other = (night_of(stored(run), BASE.configuration_id) for run in (RUN, ab_run([1.1]), newer))

    assert first.key == again.key
    assert first.key != other.key
    assert (first.identity["engine"], other.identity["engine"]) == ("1.0", "2.0")


def test_another_image_is_another_series() -> None:
    images = ("engine@sha256:1", "engine@sha256:2")
    nights = [
        night_of(
            stored(with_launches(RUN, *[{"environment": {"DSPARK_VLLM_IMAGE": image, "IMAGES": "3"}}] * 2)),
            BASE.configuration_id,
        )
        for image in images
    ]

    assert [night.identity["image"] for night in nights] == list(images)
    assert nights[0].key != nights[1].key


def test_configurations_of_one_run_are_series_of_their_own() -> None:
    run = stored(ab_run([1.0], [1.0]))

    keys = {night_of(run, one.configuration_id).key for one in (BASE, CANDIDATE)}

    assert len(keys) == 2


def test_facts_are_those_that_may_explain_a_change() -> None:
    node = NodeFacts(
        node="head",
        at="2026-11-30T02:00:00+00:00",
        driver_version="580",
        temperature_c=61.4,
        images={"engine": "sha256:0123456789abcdef"},
    )
    launch: dict[str, object] = {
        "nodes": (node,),
        "boot": BootFacts(kv_cache_tokens=1000),
        "canary_before": CanaryReading(step_s=0.03, ttft_s=0.2),
    }

    found = night_of(stored(with_launches(RUN, launch, {})), BASE.configuration_id)

    assert found.facts["head driver"] == "580"
    assert found.facts["head temperature"] == "61 °C"
    assert found.facts["head image engine"] == "sha256:0123456789ab"
    assert "head firmware" not in found.facts
    assert found.kv_cache_tokens == 1000
    assert found.canary_step_s == pytest.approx(0.03)


def test_failed_launches_are_counted() -> None:
    failed: LaunchRecord = replace(RUN.launches[0], launch_id="l9", outcome="failed_to_boot", ready_s=None)

    found = night_of(stored(replace(RUN, launches=(*RUN.launches, failed))), BASE.configuration_id)

    assert found.failed_launches == 1
    assert found.boot_s == pytest.approx(10.0)
