"""Measuring somebody's server as a guest: begin once it is idle, and make room for the first request of its users."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from harness.errors import EndpointError, HostError
from harness.records.counters import CounterSnapshot
from harness.records.trial import TrialRecord
from harness.run.bench import Bench
from harness.run.setup import PlannedSweep
from harness.units import format_seconds

_LOOKS_WHILE_IDLE = 10
_LOOK_EVERY_S = 0.5
_LONGEST_LOOK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """How to behave on a server that others use. Notes say each time that room was made."""

    idle_for_s: float  # without a request before anything is measured
    yields: bool  # stop a cell at the first foreign request, and begin it again later
    until_s: float | None  # of the clock: then it is given up; None: never

    async def wait_until_idle(self, bench: Bench, note: Callable[[str], None]) -> None:
        """Return once nobody has asked anything of the server for ``idle_for_s``.

        Raises:
            HostError: that did not happen in time, or the server does not say what it does.
        """
        clock = bench.clock
        every_s = min(_LONGEST_LOOK_S, self.idle_for_s / _LOOKS_WHILE_IDLE) or _LOOK_EVERY_S
        last = await self._look(bench)
        quiet_since_s = clock.now_s()
        told = False
        while in_flight(last) or clock.now_s() - quiet_since_s < self.idle_for_s:
            if self.until_s is not None and clock.now_s() >= self.until_s:
                raise HostError(
                    f"the server was not idle for {format_seconds(self.idle_for_s)} while there was time to measure",
                    where=bench.endpoint.base_url,
                    hint="It serves on. Nightly runs when it is less busy, or with a shorter idle_for.",
                )
            if in_flight(last) and not told:
                note(f"waiting until nobody has used the server for {format_seconds(self.idle_for_s)}")
                told = True
            await clock.sleep(every_s)
            now = await self._look(bench)
            if in_flight(now) or _served(now) != _served(last):
                quiet_since_s = clock.now_s()
            last = now

    async def measured(
        self,
        bench: Bench,
        measure: Callable[[], Awaitable[TrialRecord]],
        *,
        streams: int,
        note: Callable[[str], None],
    ) -> TrialRecord:
        """Return a trial that nobody was in the way of, as far as can be seen.

        Args:
            bench: the server.
            measure: makes one attempt; cancelled where somebody comes.
            streams: how many requests of an attempt are in flight at the most.
            note: is told each time.

        Raises:
            HostError: there was no time left for another attempt.
        """
        if not self.yields:
            return await measure()
        while True:
            attempt = asyncio.ensure_future(measure())
            watch = asyncio.create_task(self._somebody_comes(bench, streams))
            try:
                await asyncio.wait((attempt, watch), return_when=asyncio.FIRST_COMPLETED)
                if attempt.done():
                    return attempt.result()
            finally:
                await _ended(watch)
                await _ended(attempt)
            note("somebody uses the server: the cell is given up, and begun again once the server is idle")
            await self.wait_until_idle(bench, note)

    async def _somebody_comes(self, bench: Bench, streams: int) -> None:
        """Return once more is in flight than the harness sends."""
        while True:
            await bench.clock.sleep(_LOOK_EVERY_S)
            with suppress(EndpointError):  # a busy server may answer late; the trial itself finds a dead one
                snapshot = await bench.counters()
                if snapshot is not None and (in_flight(snapshot) or 0) > streams:
                    return

    async def _look(self, bench: Bench) -> CounterSnapshot:
        snapshot = await bench.counters()
        if snapshot is None or in_flight(snapshot) is None:
            raise HostError(
                "the server does not say how many requests are in flight, so nobody knows when it is idle",
                where=bench.endpoint.base_url,
                hint="A night beside users needs its /metrics (vllm:num_requests_running).",
            )
        return snapshot


def guest_of(planned: PlannedSweep, *, idle_for_s: float, now_s: float) -> Guest | None:
    """Return how a night behaves on a server that runs already; None where it launches engines of its own.

    Args:
        planned: the night.
        idle_for_s: without a request before anything is measured.
        now_s: of the clock, when it begins.
    """
    plan, settings = planned.plan, planned.sweep.file.nightly
    if plan.nightly is None or not plan.attached or planned.scenario is not None:
        return None
    limit_s = planned.budget.time_s
    return Guest(
        idle_for_s=idle_for_s,
        yields=settings is not None and settings.yields,
        until_s=None if limit_s is None else now_s + limit_s,
    )


def in_flight(snapshot: CounterSnapshot) -> int | None:
    """Return how many requests a server works on or holds back; None where it does not say."""
    if snapshot.requests_running is None:
        return None
    return snapshot.requests_running + (snapshot.requests_waiting or 0)


def _served(snapshot: CounterSnapshot) -> tuple[int | None, int | None, int | None]:
    return snapshot.requests_finished, snapshot.prompt_tokens, snapshot.generation_tokens


async def _ended(task: asyncio.Future[TrialRecord] | asyncio.Task[None]) -> None:
    """Cancelled where it still runs, and over."""
    task.cancel()
    await asyncio.wait((task,))
