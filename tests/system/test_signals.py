"""Ctrl-C, SIGTERM and a lost terminal, at every stage of a run."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from tests.system.driver import HARNESS, PATIENCE_S, Desk, Done, Started, wait_until
from tests.system.stages import SLOW_STEPS, STAGES, Stage, require_complete, staged_sweep

pytestmark = pytest.mark.system

GONE_WITHIN_S = 8.0  # a calm engine is gone in a blink; two busy cores need a moment


def resumed(desk: Desk, stopped: Done) -> Done:
    """Run the very command that the message names."""
    (command,) = re.findall(r"^  Carry on with: (harness .+)$", stopped.err, re.MULTILINE)
    program, *arguments = shlex.split(command)
    assert program == "harness"
    return desk.run(*arguments)


def stop(desk: Desk, running: Started, number: signal.Signals) -> Done:
    """Send the signal and check what everyone may count on afterwards."""
    running.send(number)
    stopped = running.end(patience_s=30)
    assert stopped.code == 130, stopped.err
    desk.require_no_engine(patience_s=GONE_WITHIN_S)
    assert not list((desk.folder / "state").rglob("*.json"))
    assert desk.journal()[-1]["record"] == "session_end"
    return stopped


@pytest.mark.parametrize("name", ["boot", "canary", "warm-up", "trial", "between launches", "report"])
def test_ctrl_c_stops_in_good_order_and_the_run_can_be_carried_on(desk: Desk, name: str) -> None:
    running = STAGES[name].begin(desk, staged_sweep(desk))

    stopped = stop(desk, running, signal.SIGINT)

    measured = len(desk.of_kind("trial"))
    assert f"{measured} measured trial" in stopped.err
    assert desk.journal()[-1]["outcome"] == ("finished" if name == "report" else "interrupted")
    require_complete(desk, resumed(desk, stopped))


@pytest.mark.parametrize("name", ["second boot", "report"])
def test_sigterm_is_a_ctrl_c(desk: Desk, name: str) -> None:
    running = STAGES[name].begin(desk, staged_sweep(desk), "--seed", "3")

    stopped = stop(desk, running, signal.SIGTERM)

    assert "--seed 3" in stopped.err
    assert len(desk.run("show", "--json").document()["cells"]) == len(desk.of_kind("trial"))
    require_complete(desk, resumed(desk, stopped))


def test_the_command_to_carry_on_names_all_that_was_asked_for(desk: Desk) -> None:
    place = desk.folder / "else where"
    desk.root = place
    sweep = desk.write_sweep(knobs={"model": None})
    stage: Stage = STAGES["canary"]

    running = stage.begin(desk, sweep, "--root", str(place), "--set", "model=a tiny one", "--launches", "2")
    stopped = stop(desk, running, signal.SIGINT)

    done = resumed(desk, stopped)
    assert done.code == 0, done.err
    assert len(desk.of_kind("trial")) == 4


def test_a_second_ctrl_c_kills_an_engine_that_does_not_listen(desk: Desk) -> None:
    desk.write_recipe(stop_timeout_s=300)
    stage = Stage(name="deaf", reached=STAGES["trial"].reached, switches=f"{STAGES['trial'].switches} ignore_signals=1")
    running = stage.begin(desk, staged_sweep(desk))
    engine = desk.processes()
    assert len(engine) == 2

    running.send(signal.SIGINT)
    running.wait_for_text("once more kills it at once")
    assert all(process.is_running() for process in engine)
    begun_s = time.monotonic()
    stop(desk, running, signal.SIGINT)

    assert time.monotonic() - begun_s < 15
    assert desk.of_kind("launch")[-1]["outcome"] == "interrupted"


def test_a_lost_terminal_does_not_end_the_run_and_show_reattaches(desk: Desk) -> None:
    sweep = staged_sweep(desk)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(desk.folder)
        os.execve(
            HARNESS,
            [str(HARNESS), "sweep", sweep],
            desk.environment | {"FAKE_VLLM": STAGES["trial"].switches, "TERM": "xterm"},
        )
    ended: list[int] = []
    try:
        wait_until(lambda: _drained(terminal) and len(desk.of_kind("trial")) == 1, "the first trial never ended")
        os.close(terminal)

        follower = desk.run("show", "--follow")

        assert follower.code == 0
        assert follower.out == ""
        assert "launch 2/2" in follower.err
        assert "no speculation" in follower.err
    finally:
        ended.append(_wait_or_kill(pid))
    assert ended == [0]
    assert desk.journal()[-1]["outcome"] == "finished"
    assert list(desk.reports.glob("*/report.html"))
    assert len(desk.of_kind("trial")) == 2
    desk.require_no_engine()


def _drained(terminal: int) -> bool:
    """Read what the terminal shows, as a terminal does, so that the command never waits for it."""
    os.set_blocking(terminal, False)
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:  # nothing more now, or ever
        return True
    return True


def _wait_or_kill(pid: int) -> int:
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_reader_of_the_log_that_goes_away_does_not_end_the_run(desk: Desk) -> None:
    sweep = desk.write_sweep()
    process = subprocess.Popen(
        [str(HARNESS), "sweep", sweep],
        cwd=desk.folder,
        env=desk.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()

    assert process.wait(PATIENCE_S) == 0
    assert len(desk.of_kind("trial")) == 2
    assert list(desk.reports.glob("*/report.html"))
    desk.require_no_engine()


def test_watching_ends_with_the_run_and_json_is_whole_in_between(desk: Desk) -> None:
    # Its boot is long, so that both watchers are there before the run ends.
    stage = replace(STAGES["second boot"], switches=f"{SLOW_STEPS} slow_boot_s=20")
    running = stage.begin(desk, staged_sweep(desk))

    follower, tired = desk.start("show", "--follow"), desk.start("show", "--follow")
    between = desk.run("show", "--json").document()
    tired.wait_for_text("run ")
    tired.send(signal.SIGINT)
    done = running.end()
    watched = follower.end(patience_s=30)

    assert done.code == 0
    assert len(between["cells"]) == 1
    assert [each["outcome"] for each in between["launches"]] == ["measured"]
    assert (watched.code, watched.out) == (0, "")
    assert "trial" in watched.err
    assert tired.end().code == 130
