"""Install or build what a recipe needs once, before its first launch."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.engine.diagnosis import ending
from harness.engine.logfile import LogReader
from harness.engine.orphans import LAUNCH_ID_VARIABLE, find_engines, kill_launch, stop_launch
from harness.engine.registry import Registry, new_launch, with_leader
from harness.engine.shell import Command, RunningProcess, Shell
from harness.errors import LaunchError
from harness.recipe.spec import PreparationStep
from harness.records.clock import Clock
from harness.records.events import OnEvent, PreparationProgress
from harness.records.identity import content_id
from harness.units import format_seconds

_POLL_S = 0.2
_HEARTBEAT_S = 10.0
_TAIL_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationPlace:
    """What preparation runs with."""

    shell: Shell
    clock: Clock
    on_event: OnEvent
    log_path: Path
    registry: Registry
    run_id: str


async def prepare(steps: tuple[PreparationStep, ...], place: PreparationPlace) -> None:
    """Run the steps whose result does not exist yet, one after the other.

    A step makes its result appear all at once (it builds beside and renames, or writes a marker last), so a step that
    was interrupted starts over. Two harnesses wait for each other.

    Raises:
        LaunchError: a step failed, or did not make what it promised; ``log_tail`` holds its last lines.
    """
    for step in steps:
        if not step.creates.exists():
            await _run(step, place)


async def _run(step: PreparationStep, place: PreparationPlace) -> None:
    async with _locked(step, place):
        if step.creates.exists():
            return  # another harness made it while this one waited
        await _stop_abandoned(step, place)
        place.on_event(PreparationProgress(step=step.name, detail=step.says))
        started_s = place.clock.now_s()
        offset = LogReader(path=place.log_path).size()
        returncode = await _attempt(step, place, offset)
        if returncode != 0 or not step.creates.exists():
            raise _failure(step, returncode, LogReader(path=place.log_path).since(offset, with_partial=True).lines)
        took = format_seconds(place.clock.now_s() - started_s)
        place.on_event(PreparationProgress(step=step.name, detail=f"done in {took}"))


async def _attempt(step: PreparationStep, place: PreparationPlace, offset: int) -> int:
    """Run the step's command, written down like an engine, so that one left behind by a killed harness is found."""
    launch = new_launch(
        launch_id=_launch_id(step), run_id=place.run_id, recipe=step.name, log_path=place.log_path, port=None
    )
    place.registry.record(launch)
    try:
        environment = {**step.environment, LAUNCH_ID_VARIABLE: launch.launch_id}
        process = await place.shell.spawn(Command(argv=step.command, environment=environment), log_path=place.log_path)
        launch = with_leader(launch, process.pid)
        place.registry.record(launch)
        return await _follow(process, step, place, offset)
    finally:
        kill_launch(launch)
        place.registry.forget(launch.launch_id)


async def _stop_abandoned(step: PreparationStep, place: PreparationPlace) -> None:
    """End an attempt whose harness was killed: it would write into what this one makes."""
    for entry in find_engines(place.registry):
        if entry.launch.launch_id == _launch_id(step) and entry.state == "orphan":
            await stop_launch(entry.launch, clock=place.clock, timeout_s=2.0)


def _launch_id(step: PreparationStep) -> str:
    return "prepare-" + re.sub(r"[^A-Za-z0-9._-]+", "-", f"{step.name}-{content_id(str(step.creates))}")


@asynccontextmanager
async def _locked(step: PreparationStep, place: PreparationPlace) -> AsyncIterator[None]:
    """Hold the lock beside the result. The kernel frees it when its holder dies."""
    path = step.creates.parent.with_name(f".{step.creates.parent.name}.{step.creates.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise LaunchError(f"{step.name}: cannot write {path.parent}: {error.strerror}", hint=_hint("")) from error
    try:
        told = False
        while not _try_lock(descriptor):
            if not told:
                place.on_event(PreparationProgress(step=step.name, detail="another harness is at it: waiting"))
                told = True
            await place.clock.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _follow(process: RunningProcess, step: PreparationStep, place: PreparationPlace, offset: int) -> int:
    """Pass on what the step says until it ends; remind of it when it says nothing for long."""
    log = LogReader(path=place.log_path)
    started_s = told_s = place.clock.now_s()
    last = step.says
    while True:
        ended = process.returncode is not None
        window = log.since(offset)
        offset = window.end
        now_s = place.clock.now_s()
        said = [line.strip() for line in window.lines if line.strip()]
        if said or now_s - told_s > _HEARTBEAT_S:
            last, told_s = said[-1] if said else last, now_s
            detail = f"{last} ({format_seconds(round(now_s - started_s))} so far)"
            place.on_event(PreparationProgress(step=step.name, detail=detail))
        if ended:
            return await process.wait()
        await place.clock.sleep(_POLL_S)


def _failure(step: PreparationStep, returncode: int, lines: tuple[str, ...]) -> LaunchError:
    tail = tuple(line for line in lines if line.strip())[-_TAIL_LINES:]
    what = f"{step.name} {ending(returncode)}"
    if returncode == 0:
        what = f"{step.name} ended without making {step.creates}"
    return LaunchError(what, hint=_hint("\n".join(tail)), log_tail=tail)


def _hint(text: str) -> str:
    lowered = text.lower()
    if "no space left" in lowered:
        return "The disk is full: make room, or set HARNESS_DATA_DIR and HARNESS_CACHE_DIR to a larger one."
    if "no matching distribution" in lowered and "torch" in lowered:
        return "No index offers the CPU build of torch: set HARNESS_TORCH_INDEX to one that does."
    if any(sign in lowered for sign in ("newconnectionerror", "name resolution", "timed out", "connection refused")):
        return "The package index was not reached: check the network, or pip's own configuration (proxy, index)."
    if "permission denied" in lowered or not text:
        return "Set HARNESS_DATA_DIR and HARNESS_CACHE_DIR to directories that can be written."
    return "Run the command again; an interrupted step starts over. The full output is in the log."
