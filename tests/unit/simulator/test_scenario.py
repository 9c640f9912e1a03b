"""Truths and scenarios: found by name, checked, and described."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import InputError
from harness.simulator.faults import Faults, SlowState
from harness.simulator.noise import Noise
from harness.simulator.scenario import SCENARIOS, load_scenario, read_scenario, scenario_names
from harness.simulator.truth import TRUTHS, load_truth, read_truth, truth_names


@pytest.mark.parametrize("name", truth_names())
def test_every_truth_says_where_its_numbers_come_from(name: str) -> None:
    truth = load_truth(name)
    assert truth.name == name
    assert {"cost", "log_odds"} <= set(truth.sources)
    assert truth.default_class in truth.drafts.log_odds


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_is_described_as_json(name: str) -> None:
    scenario = load_scenario(name, seed=4)
    described = json.loads(json.dumps(scenario.described()))
    assert described["name"] == name
    assert described["seed"] == 4
    assert described["truth"]["name"] == scenario.truth.name
    assert set(described) == {"name", "description", "truth", "noise", "faults", "seed", "night", "rig"}


def test_only_quiet_and_default_are_without_a_fault_and_heavy_tails() -> None:
    without = {name for name in scenario_names() if load_scenario(name).faults == Faults()}
    assert without == {"quiet", "default", "heavy_tails"}
    assert load_scenario("quiet").noise == Noise()
    assert load_scenario("heavy_tails").noise.tail_ratio > 0


def test_a_scenario_can_run_on_another_truth() -> None:
    scenario = load_scenario("slow_node", truth="vllm-cpu-tiny")
    assert scenario.truth.name == "vllm-cpu-tiny"
    assert scenario.faults.slow_state == SlowState(factor=1.5, share_of_launches=0.33)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match='unknown scenario "slow_nod" of the simulator') as caught:
        load_scenario("slow_nod")
    assert 'Did you mean "slow_node"?' in str(caught.value)
    with pytest.raises(InputError, match='unknown truth "0731"'):
        load_truth("0731")


def test_what_is_wrong_in_a_scenario_is_said_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("description: x\ntruth: 0731-anemll\nfaults:\n  slow_state: {factor: 0.5}\n  jitstall: 3\n")
    with pytest.raises(InputError) as caught:
        read_scenario(file)
    assert f"{file}:4:" in str(caught.value)
    assert 'unknown key "jitstall" in faults' in str(caught.value)
    assert 'Did you mean "jit_stall"?' in str(caught.value)


def test_a_default_class_must_be_known(tmp_path: Path) -> None:
    written = (TRUTHS / "0731-anemll.yaml").read_text().replace("default_class: numbered_words", "default_class: poems")
    file = tmp_path / "mine.yaml"
    file.write_text(written)
    with pytest.raises(InputError, match="has no log-odds"):
        read_truth(file)


def test_scenarios_are_the_files_of_a_folder() -> None:
    assert scenario_names() == sorted(file.stem for file in SCENARIOS.iterdir())


def test_a_later_state_of_a_rig_is_that_rig() -> None:
    assert load_scenario("slower_kernels").rig_id == load_scenario("default").rig_id == "simulated-default"
    named = [name for name in scenario_names() if load_scenario(name).rig is not None]
    assert {load_scenario(name).rig for name in named} <= set(scenario_names())
    assert load_scenario("slow_node").rig_id == "simulated-slow_node"
