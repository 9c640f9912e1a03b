"""Install and build steps: once, whole or not at all, and not two at a time."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from harness.engine.clock import SystemClock
from harness.engine.orphans import LAUNCH_ID_VARIABLE
from harness.engine.preparation import PreparationPlace, prepare
from harness.engine.registry import ProcessMark, RegisteredLaunch, Registry
from harness.engine.shell import Command, LocalShell
from harness.errors import LaunchError
from harness.recipe.spec import PreparationStep
from harness.records.events import Event, PreparationProgress

pytestmark = pytest.mark.anyio


@dataclass
class Workshop:
    folder: Path
    events: list[Event] = field(default_factory=list)

    @property
    def place(self) -> PreparationPlace:
        return PreparationPlace(
            shell=LocalShell(),
            clock=SystemClock(),
            on_event=self.events.append,
            log_path=self.folder / "prepare.log",
            registry=Registry(directory=self.folder / "state"),
            run_id="run-1",
        )

    def step(self, code: str, *, creates: str = "made/ready", **environment: str) -> PreparationStep:
        return PreparationStep(
            name="engine",
            says="3.4 GB, 2 to 6 minutes",
            creates=self.folder / creates,
            command=(sys.executable, "-S", "-c", code, str(self.folder / creates)),
            environment=environment,
        )

    @property
    def told(self) -> list[str]:
        return [event.detail for event in self.events if isinstance(event, PreparationProgress)]


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(folder=tmp_path)


MAKE = "import os, sys; os.makedirs(os.path.dirname(sys.argv[1])); open(sys.argv[1], 'w').close()"


async def test_a_step_runs_once(workshop: Workshop) -> None:
    step = workshop.step(f"print('downloading torch, 190 MB', flush=True); {MAKE}")

    await prepare((step,), workshop.place)
    assert workshop.told[0] == "3.4 GB, 2 to 6 minutes"
    assert any(told.startswith("downloading torch, 190 MB (") for told in workshop.told)
    assert workshop.told[-1].startswith("done in ")
    assert list(workshop.place.registry.launches()) == []

    workshop.events.clear()
    await prepare((step,), workshop.place)
    assert workshop.told == []


async def test_steps_run_in_order_with_their_environment(workshop: Workshop) -> None:
    first = workshop.step(MAKE, creates="a/ready")
    demand = f"import os; assert os.environ['MARK'] == 'x' and os.path.exists({str(first.creates)!r})"
    second = workshop.step(f"{demand}; {MAKE}", creates="b/ready", MARK="x")

    await prepare((first, second), workshop.place)

    assert second.creates.exists()


@pytest.mark.parametrize(
    ("says", "hint"),
    [
        ("OSError: [Errno 28] No space left on device", "HARNESS_DATA_DIR"),
        ("ERROR: No matching distribution found for torch==2.13.0+cpu", "HARNESS_TORCH_INDEX"),
        ("NewConnectionError: Temporary failure in name resolution", "network"),
        ("something else", "starts over"),
    ],
)
async def test_a_failed_step_says_what_to_do(workshop: Workshop, says: str, hint: str) -> None:
    with pytest.raises(LaunchError, match="engine ended with exit code 3") as caught:
        await prepare((workshop.step(f"import sys; print({says!r}); sys.exit(3)"),), workshop.place)

    assert hint in (caught.value.hint or "")
    assert caught.value.log_tail == (says,)


async def test_a_step_that_makes_nothing_has_failed(workshop: Workshop) -> None:
    with pytest.raises(LaunchError, match="without making"):
        await prepare((workshop.step("pass"),), workshop.place)


async def test_two_harnesses_do_not_work_at_the_same_time(workshop: Workshop) -> None:
    # The second one would fail: the folder exists by then.
    step = workshop.step(f"import time; time.sleep(0.5); {MAKE}")

    await asyncio.gather(prepare((step,), workshop.place), prepare((step,), workshop.place))

    assert workshop.told.count("another harness is at it: waiting") == 1
    assert workshop.told.count("3.4 GB, 2 to 6 minutes") == 1


async def test_cancelling_ends_the_step(workshop: Workshop) -> None:
    pid_file = workshop.folder / "pid"
    step = workshop.step(f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    task = asyncio.create_task(prepare((step,), workshop.place))
    async with asyncio.timeout(10):
        while not (pid_file.exists() and pid_file.read_text()):
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async with asyncio.timeout(5):
        while _lives(int(pid_file.read_text())):
            await asyncio.sleep(0.02)
    assert list(workshop.place.registry.launches()) == []


async def test_what_a_killed_harness_left_running_is_ended_first(workshop: Workshop) -> None:
    pid_file = workshop.folder / "pid"
    hanging = workshop.step(f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    abandoned = asyncio.create_task(prepare((hanging,), workshop.place))
    async with asyncio.timeout(10):
        while not (pid_file.exists() and pid_file.read_text()):
            await asyncio.sleep(0.02)
    registry = workshop.place.registry
    (launch,) = registry.launches()
    abandoned.cancel()
    await asyncio.gather(abandoned, return_exceptions=True)
    # What a SIGKILL leaves: the record, with an owner that is no more, and the process.
    left = await LocalShell().spawn(
        Command(argv=hanging.command, environment={LAUNCH_ID_VARIABLE: launch.launch_id}),
        log_path=workshop.folder / "left.log",
    )
    registry.record(_owned_by_nobody(launch))

    await prepare((workshop.step(MAKE),), workshop.place)

    assert await asyncio.wait_for(left.wait(), 5) != 0  # noqa: TID251 - nobody cancels it


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def _owned_by_nobody(launch: RegisteredLaunch) -> RegisteredLaunch:
    return replace(launch, owner=ProcessMark(pid=os.getpid(), started_ticks=1), leader=None, members=())
