"""Serve a simulated engine until it is told to stop, or dies as its scenario has it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from harness.errors import EngineError
from harness.simulator.engine import EngineLoop
from harness.simulator.front import Dialect, Front, FrontSettings
from harness.simulator.pump import Pump
from harness.simulator.server import SimulatedServer
from harness.simulator.transport import Simulation

_GRACE_S = 5.0
_LAST_BREATH_S = 1.0  # between the engine's death and the end of its process


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Where and under which name to serve."""

    host: str
    port: int
    model: str
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    dialect: Dialect = "vllm"


@asynccontextmanager
async def serving(
    engine: EngineLoop, options: ServeOptions, *, on_access: Callable[[str], None] = lambda line: None
) -> AsyncIterator[tuple[SimulatedServer, int]]:
    """Serve while the context is open; yields the server and its port.

    Raises:
        EngineError: the port is taken.
    """
    loop = asyncio.get_running_loop()
    engine.ready(loop.time())
    pump = Pump(engine)
    settings = FrontSettings(
        model=options.model,
        api_keys=options.api_keys,
        started_at=datetime.now(tz=UTC).timestamp(),
        dialect=options.dialect,
    )
    simulation = Simulation(front=Front(engine, settings, now_s=loop.time), pump=pump)
    server = SimulatedServer(simulation, on_access=on_access)
    try:
        port = await server.listen(options.host, options.port)
    except OSError as problem:
        raise EngineError(
            f"cannot listen: {problem.strerror or problem}",
            where=f"{options.host}:{options.port}",
            hint="Name another --port, or 0 for any free one.",
        ) from problem
    try:
        yield server, port
    finally:
        pump.stop()
        await server.close()


async def serve(
    engine: EngineLoop, options: ServeOptions, *, on_ready: Callable[[int], None], on_access: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM; requests in flight may end within a few seconds, or until a second signal.

    Raises:
        EngineError: the port is taken, or the engine died.
    """
    stopping, at_once = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        (at_once if stopping.is_set() else stopping).set()

    loop = asyncio.get_running_loop()
    async with serving(engine, options, on_access=on_access) as (server, port):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        try:
            on_ready(port)
            await _first(stopping.wait(), server.simulation.pump.died.wait())
            if not stopping.is_set():
                await asyncio.sleep(_LAST_BREATH_S)
                raise EngineError(f"the engine died, as scenario {engine.scenario.name} has it")
            await _first(server.close(grace_s=_GRACE_S), at_once.wait())
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them has ended, and cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
