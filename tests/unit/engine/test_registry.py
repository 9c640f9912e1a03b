"""Launches on disk, and which processes are ours. Real processes, all of them this test's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.engine.clock import SystemClock
from harness.engine.orphans import LAUNCH_ID_VARIABLE, find_engines, processes_of, remove_orphans, with_members
from harness.engine.registry import (
    ProcessMark,
    RegisteredLaunch,
    Registry,
    default_registry,
    mark_of,
    new_launch,
    with_leader,
)
from harness.errors import StoreError

SLEEP = "import time; time.sleep(60)"
# A leader that dies at once and leaves a child without environment in its session, as an engine does that has
# written its title over it.
LEAVE_A_CHILD = (
    f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {SLEEP!r}], env={{}}); sys.exit()"
)
pytestmark = pytest.mark.anyio


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(directory=tmp_path / "launches")


@pytest.fixture
def spawned() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def launch(**changes: object) -> RegisteredLaunch:
    made = new_launch(launch_id="l-1", run_id="r-1", recipe="fake", log_path=Path("x.log"), port=1)
    return replace(made, **changes)  # type: ignore[arg-type]


def spawn(code: str, spawned: list[subprocess.Popen[bytes]], *, launch_id: str | None = None) -> int:
    environment = {**os.environ, **({LAUNCH_ID_VARIABLE: launch_id} if launch_id else {})}
    process = subprocess.Popen([sys.executable, "-S", "-c", code], env=environment, start_new_session=True)
    spawned.append(process)
    return process.pid


def dead_owner() -> ProcessMark:
    return ProcessMark(pid=os.getpid(), started_ticks=1)  # our id, but another process had it then


def test_what_is_written_is_read_back(registry: Registry) -> None:
    registry.record(launch())
    registry.record(launch(port=2))

    assert [found.port for found in registry.launches()] == [2]
    registry.forget("l-1")
    assert list(registry.launches()) == []
    registry.forget("l-1")


def test_torn_and_foreign_files_are_left_alone(registry: Registry) -> None:
    registry.record(launch())
    (registry.directory / "torn.json").write_text('{"launch_id": "x"')
    (registry.directory / "foreign.json").write_text("[]")

    assert [found.launch_id for found in registry.launches()] == ["l-1"]
    assert (registry.directory / "torn.json").exists()


def test_an_id_cannot_leave_the_directory(registry: Registry) -> None:
    with pytest.raises(ValueError, match="not a launch id"):
        registry.record(launch(launch_id="../x"))


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot write down"):
        Registry(directory=tmp_path / "file" / "launches").record(launch())


def test_the_directory_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_STATE_DIR", str(tmp_path))

    assert default_registry().directory == tmp_path / "launches"


def test_a_child_is_found_by_the_id_in_its_environment(spawned: list[subprocess.Popen[bytes]]) -> None:
    pid = spawn(SLEEP, spawned, launch_id="l-1")
    other = spawn(SLEEP, spawned, launch_id="l-2")
    plain = spawn(SLEEP, spawned)

    found = [process.pid for process in processes_of(launch())]
    assert pid in found
    assert other not in found
    assert plain not in found


def test_a_process_id_that_was_given_away_is_not_ours(spawned: list[subprocess.Popen[bytes]]) -> None:
    pid = spawn(SLEEP, spawned)
    real = mark_of(pid)

    assert [process.pid for process in processes_of(launch(leader=real))] == [pid]
    assert processes_of(launch(leader=replace(real, started_ticks=real.started_ticks - 100))) == []


def test_after_a_reboot_nothing_is_ours(spawned: list[subprocess.Popen[bytes]]) -> None:
    pid = spawn(SLEEP, spawned, launch_id="l-1")

    assert processes_of(launch(leader=mark_of(pid), boot_id="another boot")) == []


def test_a_child_without_environment_is_found_by_the_session_of_its_dead_leader(
    spawned: list[subprocess.Popen[bytes]],
) -> None:
    pid = spawn(LEAVE_A_CHILD, spawned, launch_id="l-1")
    made = with_leader(launch(), pid)
    spawned[-1].wait()

    found = processes_of(made)
    try:
        assert made.leader is not None
        assert len(found) == 1
        assert found[0].pid != pid
        assert {mark.pid for mark in with_members(made).members} == {found[0].pid}
    finally:
        for process in found:
            process.kill()


async def test_an_orphan_is_removed_and_an_owned_engine_is_not(
    registry: Registry, spawned: list[subprocess.Popen[bytes]]
) -> None:
    owned, orphan = spawn(SLEEP, spawned, launch_id="owned"), spawn(SLEEP, spawned, launch_id="orphan")
    registry.record(with_leader(launch(launch_id="owned"), owned))
    registry.record(with_leader(launch(launch_id="orphan", owner=dead_owner()), orphan))
    registry.record(launch(launch_id="gone", owner=dead_owner()))

    assert {entry.launch.launch_id: entry.state for entry in find_engines(registry)} == {
        "owned": "running",
        "orphan": "orphan",
        "gone": "gone",
    }
    stopped = await remove_orphans(registry, clock=SystemClock(), timeout_s=2.0)

    assert [entry.launch.launch_id for entry in stopped] == ["orphan"]
    assert [entry.launch.launch_id for entry in find_engines(registry)] == ["owned"]
    assert spawned[0].poll() is None
    assert spawned[1].wait() != 0


async def test_an_owned_engine_is_stopped_when_asked(
    registry: Registry, spawned: list[subprocess.Popen[bytes]]
) -> None:
    registry.record(with_leader(launch(), spawn(SLEEP, spawned, launch_id="l-1")))

    await remove_orphans(registry, clock=SystemClock(), timeout_s=2.0, even_owned=True)

    assert spawned[0].wait() != 0
    assert find_engines(registry) == []


async def test_what_ignores_signals_is_killed(registry: Registry, spawned: list[subprocess.Popen[bytes]]) -> None:
    stubborn = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; print('up', flush=True);" + SLEEP
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", stubborn],
        env={**os.environ, LAUNCH_ID_VARIABLE: "l-1"},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    spawned.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.stdout.close()
    registry.record(with_leader(launch(owner=dead_owner()), process.pid))

    started_s = time.monotonic()
    await remove_orphans(registry, clock=SystemClock(), timeout_s=0.4)

    assert process.wait() == -9
    assert time.monotonic() - started_s >= 0.4
