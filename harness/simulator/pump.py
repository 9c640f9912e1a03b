"""Drives an engine loop by the running event loop: in virtual time or in real time, whichever that keeps."""

from __future__ import annotations

import asyncio

from harness.simulator.engine import EngineLoop
from harness.simulator.request import Deliver, Job, Order


class Pump:
    """One timer, set to when the engine has something to do.

    An idle engine takes the first request that comes into a step of its own, as a real one does: those that a client
    sends with it arrive a moment later, and wait for the next step.
    """

    def __init__(self, engine: EngineLoop) -> None:
        self.engine = engine
        self.died = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    def submit(self, order: Order, deliver: Deliver) -> Job:
        """Hand a request to the engine."""
        now_s = self._loop.time()
        job = self.engine.submit(order, now_s, deliver)
        self._advance(now_s)
        return job

    def abort(self, job: Job) -> None:
        """Take it back; of no effect where it has ended."""
        if not job.finished:
            self.engine.abort(job)

    def stop(self) -> None:
        """Leave the engine as it is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def kill(self) -> None:
        """End the engine; every request in it fails."""
        self.stop()
        self.engine.die(self._loop.time())
        self.died.set()

    def _arm(self) -> None:
        due_s = self.engine.due_s()
        if due_s is None:
            return
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._advance(self._loop.time())

    def _advance(self, now_s: float) -> None:
        self.engine.advance(now_s)
        if self.engine.dead:
            self.died.set()
        else:
            self._arm()
