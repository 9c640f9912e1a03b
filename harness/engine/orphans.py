"""Which processes belong to a registered launch, in what state it is, and how to stop it.

A process is touched only with proof that this harness started it: it carries the launch id in its environment, or it
is a registered process with the registered creation time, or it sits in the session that the registered process
leads or led. The last one is needed because an engine may overwrite its own environment with its title; the kernel
gives no number away while a session uses it, and a legible environment without the id is counter-evidence.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import psutil

from harness.engine.registry import ProcessMark, RegisteredLaunch, Registry, boot_id, mark_of
from harness.errors import EngineError
from harness.records.clock import Clock

LAUNCH_ID_VARIABLE = "HARNESS_LAUNCH_ID"
EngineState = Literal["running", "orphan", "gone"]
_POLL_S = 0.1
_LAST_RESORT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEntry:
    """A registered launch as it stands."""

    launch: RegisteredLaunch
    state: EngineState  # orphan: it runs, and the harness that started it does not
    processes: tuple[ProcessMark, ...]


def find_engines(registry: Registry) -> list[EngineEntry]:
    """Return every registered launch with its living processes."""
    return [_entry(launch) for launch in registry.launches()]


async def remove_orphans(
    registry: Registry, *, clock: Clock, timeout_s: float = 10.0, even_owned: bool = False
) -> list[EngineEntry]:
    """Stop engines whose harness is dead and forget those that are gone; return what was stopped.

    Args:
        registry: where launches are written down.
        clock: to wait on.
        timeout_s: how long an engine may take to end by itself.
        even_owned: also those whose harness lives.

    Raises:
        EngineError: a process survived SIGKILL.
    """
    stopped = []
    for entry in find_engines(registry):
        if entry.state == "running" and not even_owned:
            continue
        if entry.state != "gone":
            await stop_launch(entry.launch, clock=clock, timeout_s=timeout_s)
            stopped.append(entry)
        registry.forget(entry.launch.launch_id)
    return stopped


async def stop_launch(launch: RegisteredLaunch, *, clock: Clock, timeout_s: float) -> None:
    """End every process of the launch: SIGINT to its leader, then SIGTERM to all, then SIGKILL.

    Raises:
        EngineError: something survived.
    """
    started_s = clock.now_s()
    schedule: list[tuple[float, Callable[[Iterable[psutil.Process]], None]]] = [
        (0.0, lambda processes: _signal(_leader_first(launch, processes)[:1], signal.SIGINT)),
        (timeout_s / 2, lambda processes: _signal(processes, signal.SIGTERM)),
        (timeout_s, lambda processes: _signal(processes, signal.SIGKILL)),
    ]
    while processes := processes_of(launch):
        waited_s = clock.now_s() - started_s
        if not schedule and waited_s > timeout_s + 10:
            raise EngineError(f"an engine could not be stopped: {_names(processes)}", hint="Stop it by hand.")
        if schedule and waited_s >= schedule[0][0]:
            schedule.pop(0)[1](processes)
        elif not schedule:
            _signal(processes, signal.SIGKILL)  # a fork may have got away from the first one
        if not _leader_lives(launch, processes) and len(schedule) == 2:
            schedule[0] = (0.0, schedule[0][1])  # children without a leader will not end by themselves
        await clock.sleep(_POLL_S)


def kill_launch(launch: RegisteredLaunch) -> None:
    """SIGKILL every process of the launch and wait briefly, without an event loop: the last resort."""
    until_s = time.monotonic() + _LAST_RESORT_S
    while processes := processes_of(launch):
        _signal(processes, signal.SIGKILL)
        if time.monotonic() > until_s:
            return
        time.sleep(_POLL_S / 10)  # not psutil's wait: it would take a child's exit status away from asyncio


def processes_of(launch: RegisteredLaunch) -> list[psutil.Process]:
    """Return the living processes that are proved to belong to the launch; zombies do not count."""
    if launch.boot_id != boot_id():
        return []
    return [process for process in psutil.process_iter() if _belongs(process, launch)]


def with_members(launch: RegisteredLaunch) -> RegisteredLaunch:
    """Return the record with the processes that belong to the launch now."""
    return replace(launch, members=tuple(_marks(processes_of(launch))))


def _entry(launch: RegisteredLaunch) -> EngineEntry:
    processes = processes_of(launch)
    state: EngineState = "gone"
    if processes:
        state = "running" if launch.boot_id == boot_id() and is_alive(launch.owner) else "orphan"
    return EngineEntry(launch=launch, state=state, processes=tuple(_marks(processes)))


def _belongs(process: psutil.Process, launch: RegisteredLaunch) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if mark_of(process.pid) in (launch.leader, *launch.members):
            return True
        environment = _environment(process)
        if LAUNCH_ID_VARIABLE in environment:
            return environment[LAUNCH_ID_VARIABLE] == launch.launch_id
        return "PATH" not in environment and _in_session(process, launch)
    except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError, PermissionError):
        return False


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except (psutil.AccessDenied, OSError):
        return {}


def _in_session(process: psutil.Process, launch: RegisteredLaunch) -> bool:
    """It sits in the session of the registered leader, and nobody else leads that session now."""
    leader = launch.leader
    if leader is None or os.getsid(process.pid) != leader.pid:
        return False
    if mark_of(process.pid).started_ticks < leader.started_ticks:
        return False
    try:
        return mark_of(leader.pid) == leader
    except ProcessLookupError:
        return True


def is_alive(mark: ProcessMark) -> bool:
    """Whether that very process still runs, within one boot of the machine."""
    try:
        return mark_of(mark.pid) == mark and psutil.Process(mark.pid).status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def _leader_lives(launch: RegisteredLaunch, processes: Iterable[psutil.Process]) -> bool:
    return launch.leader is not None and any(process.pid == launch.leader.pid for process in processes)


def _leader_first(launch: RegisteredLaunch, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    pid = launch.leader.pid if launch.leader else None
    return sorted(processes, key=lambda process: process.pid != pid)


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)  # refuses a process id that was given to another process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def _marks(processes: Iterable[psutil.Process]) -> Iterable[ProcessMark]:
    for process in processes:
        try:
            yield mark_of(process.pid)
        except ProcessLookupError:
            continue


def _names(processes: Iterable[psutil.Process]) -> str:
    names = []
    for process in processes:
        try:
            names.append(f"{process.name()} (process {process.pid})")
        except psutil.NoSuchProcess:
            continue
    return ", ".join(names)
