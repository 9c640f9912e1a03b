"""Doubts about the nodes: only what a busy node did in the trial's own time counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from harness.records.host import NodeSample
from harness.records.launch import BootFacts, LaunchRecord
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from harness.stats.checks import doubts
from harness.stats.summary import trial_metrics
from tests.unit.stats.build import cell, delta, steady, trial

MEASURED = trial(
    [steady(steps=10, tokens_per_step=3, step_s=0.02)],
    delta(drafts=10, draft_tokens=40, accepted_tokens=20, generation_tokens=31, requests_finished=1, iterations=11),
    took_s=20.0,  # from 13:28:11 to 13:28:31
)
BUSY: dict[str, Any] = {
    "node": "worker",
    "sm_clock_mhz": 2400.0,
    "temperature_c": 66.0,
    "power_w": 42.0,
    "power_state": "P0",
    "throttle_reasons": (),
}


def samples(*changes: dict[str, Any], start_s: int = 12) -> tuple[NodeSample, ...]:
    """Samples every 5 s from 13:28:12 on, busy and well unless said."""
    return tuple(
        NodeSample(at=f"2026-11-30T13:28:{start_s + 5 * index:02d}+00:00", **{**BUSY, **change})
        for index, change in enumerate(changes)
    )


def launch(taken: Iterable[NodeSample] = (), **changes: Any) -> LaunchRecord:
    base = LaunchRecord(
        launch_id="l1",
        run_id="r",
        round=1,
        attempt=1,
        configuration=cell(4).configuration,
        started_at="2026-11-30T13:20:00+00:00",
        outcome="measured",
        ready_s=300.0,
        total_s=900.0,
        samples=tuple(taken),
    )
    return replace(base, **changes)


def found(taken: Iterable[NodeSample], **changes: Any) -> dict[str, str]:
    measured = replace(MEASURED, **changes)
    return {one.kind: one.evidence for one in doubts(measured, trial_metrics(measured), launch(taken), Limits())}


def test_healthy_nodes_raise_nothing() -> None:
    assert not found(samples({}, {"sm_clock_mhz": 2200.0}, {"temperature_c": 80.0}))


def test_heat_in_the_window_is_a_doubt_with_its_figures() -> None:
    hot = {"throttle_reasons": ("sw_thermal_slowdown",), "temperature_c": 91.0}

    assert found(samples({}, hot, hot)) == {
        "node_throttled": "worker: sw_thermal_slowdown in 2 of 3 samples, up to 91 °C"
    }


@pytest.mark.parametrize("start_s", [40, 0])
def test_heat_outside_of_the_window_is_not_this_trials(start_s: int) -> None:
    hot = samples({"throttle_reasons": ("hw_thermal_slowdown",)}, start_s=start_s)

    assert not found(hot)


def test_a_node_without_work_may_do_what_it_wants() -> None:
    idle = {"throttle_reasons": ("gpu_idle", "sw_power_cap"), "sm_clock_mhz": 208.0, "power_state": "P8"}

    assert not found(samples({}, idle, idle, {}))


def test_a_power_cap_that_is_always_there_is_the_machine() -> None:
    capped = {"throttle_reasons": ("sw_power_cap",)}

    assert not found(samples(capped, capped, capped, capped))
    assert list(found(samples({}, {}, {}, capped))) == ["node_throttled"]


def test_a_change_of_the_power_state_is_a_doubt() -> None:
    assert found(samples({}, {"power_state": "P2"})) == {"node_power_changed": "worker: power states P0, P2"}


def test_clocks_that_fall_are_a_doubt_where_two_samples_say_so() -> None:
    low = {"sm_clock_mhz": 799.0}

    assert not found(samples({}, low, {}))
    assert found(samples({}, low, low)) == {
        "node_power_changed": "worker: sm clock down to 799 MHz from 2400 MHz while it was busy"
    }


def test_nodes_are_judged_apart() -> None:
    head = samples({"node": "head"}, {"node": "head"}, {"node": "head"})
    worker = samples({"sm_clock_mhz": 1500.0}, {"sm_clock_mhz": 1500.0})

    assert not found((*head, *worker))


def test_without_the_time_of_the_trial_or_without_reasons_nothing_is_claimed() -> None:
    hot = samples({"throttle_reasons": ("hw_slowdown",)})

    assert not found(hot, took_s=None)
    assert not found(samples({"throttle_reasons": None, "sm_clock_mhz": 300.0}, {}))
    assert not found((NodeSample(node="worker", at="2026-11-30T13:28:12+00:00", gap="ssh failed"),))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((2_493_464, 2_493_464), []),
        ((2_493_464, 2_450_000), []),
        ((2_493_464, 2_440_000), ["2440000 to 2493464 tokens of KV cache over 2 launches (+2.2 %)"]),
        ((2_493_464, None), []),
    ],
)
def test_launches_of_one_configuration_have_the_same_kv_cache(
    counts: tuple[int | None, ...], expected: list[str]
) -> None:
    launches = [
        launch(launch_id=f"l{number}", boot=BootFacts(kv_cache_tokens=count)) for number, count in enumerate(counts)
    ]
    trials = [replace(MEASURED, trial_id=f"t{number}", launch_id=one.launch_id) for number, one in enumerate(launches)]

    (summary,) = summarise_run(trials, launches, Limits(least_drafts=1))

    assert [one.evidence for one in summary.doubts if one.kind == "kv_tokens_differ"] == expected
