"""Engines that fail, lie or fall silent: the failed configuration is a result with its reason; the sweep goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.system.driver import FAKE, Desk, Done, new_desk

pytestmark = pytest.mark.system

KEY = "sesame-open-0123456789"
GOOD = "seed=0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A sweep over faults, one configuration each, and what it said."""

    desk: Desk
    done: Done
    document: dict[str, Any]

    def launches(self, fault: str) -> list[dict[str, Any]]:
        """The journal's records of the launches with this fault."""
        return [each for each in self.desk.of_kind("launch") if fault in str(each["configuration"]["knobs"])]

    def launch(self, fault: str) -> dict[str, Any]:
        (launch,) = self.launches(fault)
        return launch

    def cell(self, fault: str) -> dict[str, Any]:
        cells: list[dict[str, Any]] = self.document["cells"]
        (cell,) = [each for each in cells if fault in each["args"]]
        return cell

    def doubts(self, fault: str) -> set[str]:
        return {doubt["kind"] for doubt in self.cell(fault)["doubts"]}


def sweep_over(desk: Desk, *faults: str, drafts: int = 1, **knobs: object) -> Swept:
    """Run a sweep with a configuration for each fault, and one without. A fault is the switches of the stand-in."""
    axis = [arguments(fault) for fault in (GOOD, *faults)]
    named = {"args": axis, "num_speculative_tokens": 2} | knobs
    done = desk.run("sweep", desk.write_sweep(knobs=named, repeat={"drafts": drafts}))
    desk.require_no_engine()
    assert desk.journal()[-1]["outcome"] == "finished"
    assert list(desk.reports.glob("*/report.html"))
    shown = desk.run("show", "--json").document()
    swept = Swept(desk=desk, done=done, document=shown)
    good = swept.cell(GOOD)
    assert [trial["void"] for trial in good["trials"]] == [False]
    for path, content in desk.all_bytes():
        assert KEY.encode() not in content, path
    return swept


def arguments(fault: str) -> list[str]:
    """Switches of the stand-in as words of its command line; options of vLLM are words already."""
    words = fault.split()
    return words if fault.startswith("--") else [word for switch in words for word in ("--fake", switch)]


@pytest.fixture(scope="module")
def module_desk(tmp_path_factory: pytest.TempPathFactory, font_cache: Path) -> Iterator[Any]:
    """Makes desks that live as long as the module."""
    desks: list[Desk] = []

    def make(name: str) -> Desk:
        desks.append(new_desk(tmp_path_factory.mktemp(name), MPLCONFIGDIR=str(font_cache), VLLM_API_KEY=KEY))
        return desks[-1]

    yield make
    for desk in desks:
        desk.clear()


@pytest.fixture(scope="module")
def boots(module_desk: Any) -> Swept:
    """Engines that do not come up, or come up as something else."""
    desk = module_desk("boots")
    desk.write_recipe(ready_timeout_s=12, stop_timeout_s=4)
    return sweep_over(
        desk,
        "die_at_boot=crash",
        "die_at_boot=oom",
        "die_at_boot=port",
        "slow_boot_s=600",
        "k_live=3",
        "wants_key=another",
    )


BOOT_FAULTS = [
    ("die_at_boot=crash", "failed_to_boot", "ModuleNotFoundError: No module named 'flashinfer'", "missing module"),
    ("die_at_boot=oom", "failed_to_boot", "CUDA out of memory", "lower the context length"),
    ("die_at_boot=port", "failed_to_boot", "Address already in use", "The port is taken by another program"),
    ("slow_boot_s=600", "failed_to_boot", "the engine was not ready after 12.0 s", "raise ready_timeout_s"),
    ("k_live=3", "wrong_configuration", "the engine runs num_speculative_tokens = 3, not 2", ""),
    ("wants_key=another", "failed_to_boot", "the server refuses the key", "VLLM_API_KEY"),
]


@pytest.mark.parametrize(("fault", "outcome", "reason", "remedy"), BOOT_FAULTS)
def test_an_engine_that_does_not_come_up_is_a_result(
    boots: Swept, fault: str, outcome: str, reason: str, remedy: str
) -> None:
    launch = boots.launch(fault)

    assert boots.done.code == 3
    assert launch["outcome"] == outcome
    assert reason in launch["reason"]
    assert remedy in launch["reason"]
    assert reason in boots.done.err
    assert any("vLLM" in line or "INFO" in line or "Error" in line for line in launch["log_tail"])
    shown = [each for each in boots.document["launches"] if each["launch_id"] == launch["launch_id"]]
    assert [each["outcome"] for each in shown] == [outcome]


def test_the_report_names_what_failed(boots: Swept) -> None:
    (report,) = boots.desk.reports.glob("*/report.md")
    text = report.read_text()

    assert all(reason in text for _, _, reason, _ in BOOT_FAULTS)


def test_a_model_that_is_not_there_and_a_program_that_is_not(desk: Desk) -> None:
    swept = sweep_over(
        desk,
        model=["tiny", "/nowhere/model"],
        command=[[sys.executable, str(FAKE)], ["no-such-engine", "serve"]],
        args=["--fake", GOOD],
    )

    launches = {
        ("no-such-engine" in each["configuration"]["knobs"]["command"], each["configuration"]["knobs"]["model"]): each
        for each in desk.of_kind("launch")
    }
    assert swept.done.code == 3
    assert launches[False, "tiny"]["outcome"] == "measured"
    assert "The model was not found" in launches[False, "/nowhere/model"]["reason"]
    assert "cannot run no-such-engine: No such file or directory" in launches[True, "tiny"]["reason"]


TOO_LONG = "--max-model-len 128"
STREAM_FAULTS = [
    ("cut_stream_after=50", "nothing_measured", "the server closed the connection before the reply was complete"),
    ("no_finish_reason=1", "nothing_measured", "the stream ended without finish_reason"),
    ("jit_at_request=17", "jit_in_window", "1 log lines report compilation"),
    ("counters_restart_after=17", "engine_restarted", "a counter is lower after the trial"),
    (TOO_LONG, "nothing_measured", "This model's maximum context length is 128 tokens"),
]


@pytest.fixture(scope="module")
def streams(module_desk: Any) -> Swept:
    """Engines that answer, and fail while they are measured."""
    return sweep_over(module_desk("streams"), *[fault for fault, _, _ in STREAM_FAULTS], drafts=600)


@pytest.mark.parametrize(("fault", "kind", "evidence"), STREAM_FAULTS)
def test_a_trial_that_fails_is_void_and_says_why(streams: Swept, fault: str, kind: str, evidence: str) -> None:
    cell = streams.cell(fault)

    assert streams.done.code == 4
    assert streams.launch(fault)["outcome"] == "measured"
    (found,) = [doubt for doubt in cell["doubts"] if doubt["kind"] == kind]
    assert found["void"]
    assert found["remedy"]
    assert evidence in found["evidence"]
    assert cell["decode_tokens_per_s"] is None
    assert kind in cell["null_reasons"]["decode_tokens_per_s"]


def test_prompts_are_in_no_error(streams: Swept) -> None:
    errors = {request["error"] for trial in streams.desk.of_kind("trial") for request in trial["requests"]}

    assert len(errors) > 3
    assert all(error is None or len(error) < 500 for error in errors)


def test_an_engine_that_dies_while_it_answers_ends_its_launch_alone(desk: Desk) -> None:
    fault = "die_after_tokens=700"
    swept = sweep_over(desk, fault, drafts=600)

    launch = swept.launch(fault)
    assert swept.done.code == 3
    assert launch["outcome"] == "died"
    assert "the engine ended with exit code 1" in launch["reason"]
    assert any("EngineDeadError" in line for line in launch["log_tail"])
    (trial,) = [each for each in desk.of_kind("trial") if fault in each["cell"]["configuration"]["knobs"]["args"]]
    outcomes = [request["outcome"] for request in trial["requests"]]
    assert outcomes[0] == "length"
    assert "error_event" in outcomes
    assert swept.cell(fault)["decode_tokens_per_s"] is None

    again = desk.run("sweep", "small.yaml", "--resume")

    assert again.code == 3
    assert [each["outcome"] for each in swept.launches(fault)] == ["died", "died"]
    assert len(swept.launches(GOOD)) == 1


def test_a_connection_that_falls_silent_is_given_up(desk: Desk) -> None:
    fault = "half_open_after=50"
    swept = sweep_over(desk, fault)

    (trial,) = [each for each in desk.of_kind("trial") if fault in each["cell"]["configuration"]["knobs"]["args"]]
    (request,) = trial["requests"]
    assert swept.done.code == 4
    assert request["outcome"] == "timeout"
    assert sum(batch["tokens"] for batch in request["batches"]) >= 50
    assert request["closed_s"] - request["batches"][-1]["at_s"] == pytest.approx(30, abs=2)
    assert "no byte came for 30" in swept.cell(fault)["doubts"][0]["evidence"]


@pytest.fixture(scope="module")
def servers(module_desk: Any) -> Swept:
    """Servers that tell less than vLLM does, or serve others too."""
    return sweep_over(
        module_desk("servers"),
        "no_metrics=1",
        "no_token_ids=1 no_continuous_usage=1",
        "foreign_tokens_per_s=4000",
    )


def test_without_metrics_rates_are_measured_and_acceptance_is_not(servers: Swept) -> None:
    cell = servers.cell("no_metrics=1")

    assert servers.done.code == 0
    assert cell["decode_tokens_per_s"] > 0
    for name in ("acceptance_length", "acceptance_ratio", "drafts"):
        assert cell[name] is None
        assert cell["null_reasons"][name] == "no /metrics, or none with an engine's counters"
    assert servers.launch("no_metrics=1")["live"]["proof"] == "not proved: the server exports no counters"


def test_without_counts_per_event_only_whole_answers_are_rated(servers: Swept) -> None:
    cell = servers.cell("no_token_ids=1")

    assert cell["aggregate_tokens_per_s"] > 0
    assert 1 < cell["acceptance_length"] <= 3
    assert cell["decode_tokens_per_s"] is None
    assert "token" in cell["null_reasons"]["decode_tokens_per_s"]


def test_the_requests_of_others_are_noticed(servers: Swept) -> None:
    assert "foreign_traffic" in servers.doubts("foreign_tokens_per_s=4000")
    assert "foreign_traffic" not in servers.doubts(GOOD)


@pytest.mark.parametrize(("last_slow_boot", "outcomes"), [(2, ["measured"]), (9, ["measured", "with a doubt"])])
def test_a_slow_boot_is_given_back_once(desk: Desk, last_slow_boot: int, outcomes: list[str]) -> None:
    desk.write_recipe(canary_limit_ratio=1.0)
    sweep = desk.write_sweep(knobs={"num_speculative_tokens": 2}, repeat={"drafts": 1, "launches": 2})
    slow = f"slow_factor=5 slow_from_boot=2 slow_until_boot={last_slow_boot} state={desk.folder}/boots"

    done = desk.run("sweep", sweep, FAKE_VLLM=f"step_a_ms=2 step_b_ms=0.2 {slow}")

    launches = [(each["round"], each["attempt"], each["outcome"]) for each in desk.of_kind("launch")]
    assert done.code == 0, done.err
    assert launches == [(1, 1, "measured"), (2, 1, "slow_canary"), (2, 2, "measured")]
    assert "this boot is slow: its canary is +" in done.err
    assert ("Its cells are measured, with a doubt" in done.err) == (outcomes[-1] == "with a doubt")
    assert len(desk.of_kind("trial")) == 2
    desk.require_no_engine()
