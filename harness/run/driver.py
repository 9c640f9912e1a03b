"""Where engines come from: processes and running servers, or the simulator. The one seam that a rehearsal changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import httpx

from harness.client.transport import StampedTransport
from harness.engine.launch import LaunchSetting, launched
from harness.engine.running import Engine
from harness.recipe.spec import LaunchSpec
from harness.records.clock import Clock
from harness.records.events import OnEvent
from harness.simulator.launch import SimulatedDriver
from harness.simulator.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """An engine, and how requests get there."""

    engine: Engine
    measuring: httpx.AsyncBaseTransport  # returns exchanges with stamps
    prewarm: Callable[[str, int], Awaitable[None]]  # opens connections of ``measuring`` before the clock starts
    asking: httpx.AsyncBaseTransport | None  # for questions; None: httpx's own
    real_time: bool = True  # False: the clock stands still while the client works


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetting:
    """What the machines are held for."""

    run_id: str
    clock: Clock
    on_event: OnEvent


class EngineDriver(Protocol):
    """Brings engines up."""

    def held(self, setting: RunSetting) -> AbstractAsyncContextManager[None]:
        """Hold the machines for all launches of a run, and leave them as they were found.

        Raises:
            EngineError: they cannot be had, or something could not be put back.
            InputError: the site says too little about them.
        """

    @property
    def simulated(self) -> bool:
        """No engine runs, and time is virtual."""

    def launched(self, spec: LaunchSpec, setting: LaunchSetting) -> AbstractAsyncContextManager[Reached]:
        """Hold one engine, and stop what was started on every way out.

        Raises:
            LaunchError: it did not come up.
            EngineError: nothing answers where it should run already.
        """


@asynccontextmanager
async def _nothing_to_hold() -> AsyncIterator[None]:
    yield


class ProcessDriver:
    """Engines as processes of a host, or as servers that run already."""

    simulated = False

    def held(self, setting: RunSetting) -> AbstractAsyncContextManager[None]:
        """Processes come and go by themselves."""
        return _nothing_to_hold()

    @asynccontextmanager
    async def launched(self, spec: LaunchSpec, setting: LaunchSetting) -> AsyncIterator[Reached]:
        """Start it, or attach to it."""
        async with launched(spec, setting) as engine:
            transport = StampedTransport()
            yield Reached(engine=engine, measuring=transport, prewarm=transport.prewarm, asking=None)


class RehearsalDriver:
    """Simulated engines, in virtual time."""

    simulated = True

    def held(self, setting: RunSetting) -> AbstractAsyncContextManager[None]:
        """No machine is touched."""
        return _nothing_to_hold()

    def __init__(self, scenario: Scenario, *, earlier_boots: Mapping[str, int]) -> None:
        """Make a driver; ``earlier_boots`` counts those of the run so far, by configuration id."""
        self._simulator = SimulatedDriver(scenario, earlier_boots=earlier_boots)

    @asynccontextmanager
    async def launched(self, spec: LaunchSpec, setting: LaunchSetting) -> AsyncIterator[Reached]:
        """Simulate one boot."""
        async with self._simulator.launched(spec, setting) as engine:
            transport = engine.transport()
            yield Reached(
                engine=engine,
                measuring=transport,
                prewarm=transport.prewarm,
                asking=engine.transport(),
                real_time=False,
            )
