"""What every Shell promises. LocalShell is the first; each further one is added to SHELLS."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.engine.shell import Command, LocalShell, Shell
from harness.errors import LaunchError

SHELLS: tuple[Callable[[], Shell], ...] = (LocalShell,)
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> Shell:
    made: Shell = request.param()
    return made


def python(code: str, **changes: object) -> Command:
    return Command(argv=(sys.executable, "-c", code), **changes)  # type: ignore[arg-type]


async def test_run_returns_both_outputs_and_the_exit_code(shell: Shell) -> None:
    done = await shell.run(python("import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"))

    assert done.returncode == 3
    assert done.output == "out\nerr\n"


async def test_stdin_is_closed(shell: Shell) -> None:
    assert (await shell.run(python("import sys; print(repr(sys.stdin.read()))"))).output == "''\n"


async def test_environment_is_added_and_the_directory_is_taken(shell: Shell, tmp_path: Path) -> None:
    command = python(
        "import os; print(os.environ['MARK'], bool(os.environ.get('PATH')), os.getcwd())",
        environment={"MARK": "x y"},
        working_directory=tmp_path,
    )

    assert (await shell.run(command)).output == f"x y True {tmp_path}\n"


async def test_nothing_is_quoted_or_expanded(shell: Shell) -> None:
    odd = "$HOME `id` 'q' \"Q\" *\n;"

    assert (await shell.run(Command(argv=(sys.executable, "-c", "import sys; print(sys.argv[1:])", odd)))).output == (
        f"{[odd]!r}\n"
    )


async def test_a_command_that_is_late_is_ended(shell: Shell, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(TimeoutError):
        await shell.run(python(code), timeout_s=1.0)

    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


@pytest.mark.parametrize("turns", range(32))
async def test_a_caller_that_gives_up_just_as_the_command_ends_is_heard(
    shell: Shell, turns: int, tmp_path: Path
) -> None:
    """Who asks again and again, and is cancelled in the turn of the loop in which an answer comes, must not ask on."""
    os.mkfifo(tmp_path / "gate")
    asking = asyncio.create_task(shell.run(Command(argv=("cat", str(tmp_path / "gate"))), timeout_s=30.0))
    await asyncio.sleep(0)  # started by then
    (gate,), (process,) = [(tmp_path / "gate").open("wb")], psutil.Process().children()
    gate.close()
    with suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.001)  # the loop must not run meanwhile: that it ended is seen in the turns below
    for _ in range(turns):
        await asyncio.sleep(0)

    was_heard = asking.cancel()
    await asyncio.wait((asking,))

    assert asking.cancelled() is was_heard


@pytest.mark.parametrize("where", [None, "nowhere"])
async def test_what_cannot_be_run_is_a_clear_error(shell: Shell, tmp_path: Path, where: str | None) -> None:
    command = Command(argv=("no-such-program",), working_directory=tmp_path / where if where else None)
    with pytest.raises(LaunchError, match="cannot run no-such-program"):
        await shell.run(command)
    with pytest.raises(LaunchError, match="cannot run no-such-program"):
        await shell.spawn(command, log_path=tmp_path / "log")


async def test_a_spawned_process_leads_its_own_session_and_writes_its_log(shell: Shell, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "engine.log"
    code = "import os, sys; print(os.getsid(0), os.getpgrp(), flush=True); print('e', file=sys.stderr)"
    process = await shell.spawn(python(code), log_path=log)

    assert await process.wait() == 0
    assert process.returncode == 0
    assert log.read_text() == f"{process.pid} {process.pid}\ne\n"
    assert process.pid != os.getsid(0)


async def test_a_log_is_appended_to(shell: Shell, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("before\n")
    await (await shell.spawn(python("print('after')"), log_path=log)).wait()

    assert log.read_text() == "before\nafter\n"


async def test_a_signal_shows_in_the_return_code(shell: Shell, tmp_path: Path) -> None:
    process = await shell.spawn(python("import time; time.sleep(60)"), log_path=tmp_path / "log")
    assert process.returncode is None
    os.kill(process.pid, signal.SIGTERM)

    assert await asyncio.wait_for(process.wait(), 10) == -signal.SIGTERM  # noqa: TID251 - nobody cancels it
