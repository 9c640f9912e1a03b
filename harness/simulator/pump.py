"""Drives an engine loop by the running event loop: in virtual time or in real time, whichever that keeps."""

from __future__ import annotations

import asyncio

from harness.simulator.core import Core
from harness.simulator.request import Deliver, Job, Order


class Pump:
    """One timer, set to when the engine has something to do.

    ``gather_s`` is how long an idle engine waits for company once a request has come: requests that are sent together
    do not arrive together over a real network.
    """

    def __init__(self, core: Core, *, gather_s: float = 0.0) -> None:
        self.core = core
        self.died = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._gather_s = gather_s
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    def submit(self, order: Order, deliver: Deliver) -> Job:
        """Hand a request to the engine."""
        job = self.core.submit(order, self._loop.time(), deliver)
        # Not at once: what else comes in this turn of the loop belongs into the same step.
        self._arm(not_before_s=self._loop.time() + self._gather_s)
        return job

    def abort(self, job: Job) -> None:
        """Take it back; of no effect where it has ended."""
        if not job.finished:
            self.core.abort(job)

    def stop(self) -> None:
        """Leave the engine as it is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def kill(self) -> None:
        """End the engine; every request in it fails."""
        self.stop()
        self.core.die(self._loop.time())
        self.died.set()

    def _arm(self, *, not_before_s: float = 0.0) -> None:
        due_s = self.core.due_s()
        if due_s is None:
            return
        if self._timer is not None:
            if self._timer.when() <= max(due_s, not_before_s):
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(max(due_s, not_before_s), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.core.advance(self._loop.time())
        if self.core.dead:
            self.died.set()
        else:
            self._arm()
