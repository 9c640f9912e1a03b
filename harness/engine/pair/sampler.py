"""Clocks, heat and power of the nodes while cells are measured, without a word to the nodes in between."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.engine.pair.node import Node
from harness.engine.pair.readings import MARK, SAMPLE_FIELDS, SAMPLES, complete_readings, sample_of
from harness.engine.shell import Command, RunningProcess
from harness.errors import HarnessError
from harness.records.clock import Clock
from harness.records.host import NodeSample

_LONGEST_S = 600.0  # of one process on a node, so that none outlives a killed harness for long
_LONGEST_LOOK_S = 1.0
_RETRY_S = 10.0
_SILENT_PERIODS = 4
_LEAST_SILENCE_S = 15.0  # ssh needs as long to notice a dead connection


@asynccontextmanager
async def sampling(
    nodes: Sequence[Node], clock: Clock, *, every_s: float = 5.0, retry_s: float = _RETRY_S
) -> AsyncIterator[list[NodeSample]]:
    """Sample the nodes until the context ends.

    Args:
        nodes: each is sampled on its own; one that does not answer holds up no other.
        clock: stamps the samples when they arrive here.
        every_s: between readings of a node.
        retry_s: until a node that did not answer is asked again.

    Yields:
        The samples so far, in the order in which they arrived.
    """
    samples: list[NodeSample] = []
    with tempfile.TemporaryDirectory(prefix="harness-samples-") as folder:
        pace = _Pace(every_s=every_s, retry_s=retry_s)
        followers = [
            _Follower(node=node, clock=clock, pace=pace, log=Path(folder) / f"{number}.log", samples=samples)
            for number, node in enumerate(nodes)
        ]
        tasks = [asyncio.create_task(follower.follow()) for follower in followers]
        try:
            yield samples
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)  # unlike awaiting them, this lets a Ctrl-C through
            for follower in followers:
                follower.take_rest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    every_s: float
    retry_s: float

    @property
    def look_s(self) -> float:
        return min(_LONGEST_LOOK_S, self.every_s)

    @property
    def readings(self) -> int:
        """Of one process."""
        return max(1, round(_LONGEST_S / self.every_s))

    @property
    def silence_s(self) -> float:
        return max(_LEAST_SILENCE_S, _SILENT_PERIODS * self.every_s)


@dataclass(slots=True, kw_only=True)
class _Follower:
    """Of one node."""

    node: Node
    clock: Clock
    pace: _Pace
    log: Path
    samples: list[NodeSample]
    _read: int = 0  # bytes of the log that were taken
    _rest: str = ""
    _heard_s: float = 0.0
    _is_silent: bool = False

    async def follow(self) -> None:
        """Keep a process on the node, and take what it prints."""
        while True:
            self._begin()
            try:
                process = await self.node.shell.spawn(self._command(), log_path=self.log)
            except (HarnessError, OSError) as error:
                self._gap(str(error))
            else:
                if await self._until_its_end(process):
                    continue  # it has printed as much as one process may
            await self.clock.sleep(self.pace.retry_s)

    def take_rest(self) -> None:
        """Take what was printed and not read yet."""
        self._take()

    async def _until_its_end(self, process: RunningProcess) -> bool:
        """Return whether it ended well."""
        taken = len(self.samples)
        try:
            while process.returncode is None:
                await self.clock.sleep(self.pace.look_s)
                self._take()
                self._notice_silence()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        self._take()
        if process.returncode == 0 and len(self.samples) > taken:
            return True
        if process.returncode != 0:
            self._gap(self._last_words() or f"the sampler ended with exit code {process.returncode}")
        return False

    def _begin(self) -> None:
        self._rest, self._is_silent, self._heard_s = "", False, self.clock.now_s()

    def _command(self) -> Command:
        script = ("sh", "-c", SAMPLES, "sh", SAMPLE_FIELDS, f"{self.pace.every_s:g}", str(self.pace.readings))
        return Command(argv=("nice", "-n", "19", *script))

    def _take(self) -> None:
        """Read what is new in the log: a few hundred bytes at most."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except OSError:
            return
        self._read += len(new)
        readings, self._rest = complete_readings(self._rest + new.decode(errors="replace"))
        for reading in readings:
            self.samples.append(sample_of(reading, node=self.node.role, at=self.clock.stamp()))
        if readings:
            self._heard_s, self._is_silent = self.clock.now_s(), False

    def _notice_silence(self) -> None:
        silent_s = self.clock.now_s() - self._heard_s
        if silent_s > self.pace.silence_s and not self._is_silent:
            self._is_silent = True
            self._gap(f"no reading for {silent_s:.0f} s")

    def _gap(self, reason: str) -> None:
        self.samples.append(NodeSample(node=self.node.role, at=self.clock.stamp(), gap=reason))

    def _last_words(self) -> str:
        """What ssh said of its end, without what belongs to readings."""
        lines = [line.strip() for line in self._rest.splitlines()]
        return next((line for line in reversed(lines) if line and not line.startswith(MARK)), "")
