"""kill -9 of the harness at every stage: the engine is found and removed, and the run goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from tests.system.driver import FAKE, Desk, Done, wait_until
from tests.system.stages import STAGES, Stage, require_complete, staged_sweep

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", autouse=True)
def bystander() -> Iterator[psutil.Process]:
    """The same program, started by somebody else: nobody may touch it, or its EngineCore."""
    process = subprocess.Popen(
        [sys.executable, str(FAKE), "--model", "tiny", "--port", "0"],
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    watched = psutil.Process(process.pid)
    wait_until(lambda: len(watched.children()) == 1, "the bystander did not come up")
    core = watched.children()[0]
    yield watched
    assert process.poll() is None, "a process of somebody else was stopped"
    assert core.is_running(), "an EngineCore of somebody else was stopped"
    process.terminate()
    process.wait(10)


def kill_at(desk: Desk, stage: Stage) -> list[psutil.Process]:
    """Run up to the stage, kill the harness, and return what it has left running."""
    running = stage.begin(desk, staged_sweep(desk))
    running.send(signal.SIGKILL)
    running.process.wait(10)
    return desk.processes()


@pytest.mark.parametrize("name", sorted(STAGES.keys() - {"session", "warm-up", "second boot"}))
def test_the_same_command_with_resume_goes_on(desk: Desk, name: str) -> None:
    orphans = kill_at(desk, STAGES[name])
    measured = [trial["trial_id"] for trial in desk.of_kind("trial")]

    done = desk.run("sweep", "small.yaml", "--resume")

    assert not [process for process in orphans if process.is_running()]
    assert [trial["trial_id"] for trial in desk.of_kind("trial")][: len(measured)] == measured
    require_complete(desk, done)
    assert len(desk.runs()) == 1


@pytest.mark.parametrize(
    ("name", "switch"),
    [
        ("registered", "seed=1"),
        ("boot", "core_without_environment=1"),
        ("trial", "core_without_environment=1"),
        ("second boot", "ignore_signals=1"),
    ],
)
def test_engine_status_shows_and_removes_what_is_left(desk: Desk, name: str, switch: str) -> None:
    stage = STAGES[name]
    orphans = kill_at(desk, replace(stage, switches=f"{stage.switches} {switch}"))
    for process in list(orphans):
        orphans += process.children(recursive=True)

    listed = desk.run("engine", "status", "--keep", "--json").document()["engines"]
    status = desk.run("engine", "status")

    assert [engine["state"] for engine in listed] == (["orphan"] if orphans else ["gone"] * len(listed))
    if orphans:
        assert {process.pid for process in orphans} <= set(listed[0]["processes"])
        assert "left behind by a harness that is dead; stopped now" in status.err
    wait_until(lambda: not any(process.is_running() for process in orphans), "an orphan is left", patience_s=5)
    assert status.code == 0
    assert "no engine of this tool is running" in desk.run("engine", "status").err


def test_a_living_run_keeps_its_engine(desk: Desk) -> None:
    running = STAGES["boot"].begin(desk, staged_sweep(desk))

    status = desk.run("engine", "status")
    down = desk.run("engine", "down")

    assert "running, its harness lives" in status.err
    assert "stopped" not in status.err + down.err
    require_complete(desk, running.end())


def test_a_line_that_was_being_written_is_put_aside(desk: Desk) -> None:
    kill_at(desk, STAGES["second canary"])
    journal = desk.only_run() / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-200])

    shown: Done = desk.run("show", "--json")
    done = desk.run("sweep", "small.yaml", "--resume")

    assert shown.code == 0
    assert shown.document()["cells"] == []
    require_complete(desk, done)
    assert "cut short by a crash" in desk.of_kind("note")[0]["text"]
    assert (desk.only_run() / "journal.torn").stat().st_size > 0


def test_of_two_that_carry_on_at_once_one_is_refused(desk: Desk) -> None:
    kill_at(desk, STAGES["boot"])
    first = desk.start("sweep", "small.yaml", "--resume", FAKE_VLLM=STAGES["boot"].switches)
    first.wait_until(lambda: len(desk.of_kind("session_start")) == 2, "it never began")

    second = desk.run("sweep", "small.yaml", "--resume")

    assert second.code == 3
    assert f"process {first.process.pid} is writing this run" in second.err
    assert "harness show" in second.err and "--follow" in second.err
    require_complete(desk, first.end())
    assert len(desk.of_kind("session_start")) == 2


def test_more_launches_of_a_finished_run(desk: Desk) -> None:
    assert desk.run("sweep", desk.write_sweep()).code == 0
    before = desk.journal()

    done = desk.run("sweep", "small.yaml", "--resume", desk.only_run().name, "--launches", "2")

    assert done.code == 0, done.err
    assert desk.journal()[: len(before)] == before
    launches = sorted(
        (launch["configuration"]["knobs"]["num_speculative_tokens"], launch["round"])
        for launch in desk.of_kind("launch")
    )
    assert launches == [(0, 1), (0, 2), (2, 1), (2, 2)]
    cells = desk.run("show", "--json").document()["cells"]
    for cell in cells:
        assert cell["launches"] == 2
        low, high = cell["spread"]["decode_tokens_per_s"]
        assert low < high
    (report,) = desk.reports.glob("*/report.md")
    assert "2 launches" in report.read_text()
    desk.require_no_engine()
