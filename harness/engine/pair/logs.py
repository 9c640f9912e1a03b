"""The logs of both ranks, brought here while they are written."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from harness.engine.pair.containers import of_project
from harness.engine.pair.launcher import Pair
from harness.engine.pair.node import Node
from harness.engine.shell import Command, RunningProcess
from harness.errors import EngineError
from harness.records.clock import Clock

_LOOK_EVERY_S = 2.0


@asynccontextmanager
async def following(pair: Pair, project: str, log_path: Path, clock: Clock) -> AsyncIterator[None]:
    """Append the head's log to ``log_path`` and the worker's to a file beside it, from each container's first line."""
    tasks = [
        asyncio.create_task(_follow(node, project, log_path if node.role == "head" else worker_log(log_path), clock))
        for node in pair.nodes
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def worker_log(log_path: Path) -> Path:
    """Return where the worker's log is written."""
    return log_path.with_suffix(".worker.log")


async def _follow(node: Node, project: str, log_path: Path, clock: Clock) -> None:
    seen: str | None = None
    process: RunningProcess | None = None
    try:
        while True:
            container_id = await _container_id(node, project)
            if container_id is not None and container_id != seen:
                _end(process)
                seen = container_id
                follow = Command(argv=("docker", "logs", "--follow", container_id))
                process = await node.shell.spawn(follow, log_path=log_path)
            await clock.sleep(_LOOK_EVERY_S)
    finally:
        _end(process)
        if process is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await process.wait()


async def _container_id(node: Node, project: str) -> str | None:
    try:
        containers = of_project(await node.containers(), project)
    except EngineError:
        return None  # looked at again in a moment; whoever needs the rank to live says so
    return containers[-1].container_id if containers else None  # the newest are first, and a sidecar is newer


def _end(process: RunningProcess | None) -> None:
    if process is not None and process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
