"""Engines that one suite of a client's expectations runs against: simulated in virtual time, over HTTP, and real."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx

from harness.client.transport import StampedTransport
from harness.engine.clock import SystemClock
from harness.engine.launch import LaunchSetting, launched
from harness.engine.preparation import PreparationPlace, prepare
from harness.engine.registry import Registry
from harness.engine.shell import LocalShell
from harness.recipe.build import build_launch
from harness.recipe.find import find_recipe, places_for
from harness.recipe.load import load_recipe
from harness.recipe.simulated import build_simulated
from harness.recipe.spec import LaunchSpec
from harness.records.cell import Configuration
from harness.records.clock import Clock
from harness.simulator.engine import EngineLoop
from harness.simulator.launch import new_engine, simulated_launch
from harness.simulator.loop import VirtualClock, run_virtual
from harness.simulator.scenario import load_scenario
from harness.simulator.serve import ServeOptions, serving

RECIPE = "vllm-cpu-tiny"
MODEL = "tiny"
K = 4
KNOBS = {"num_speculative_tokens": K, "max_num_seqs": 16}


class MeasuringTransport(Protocol):
    """What a measuring client needs of its transport."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response: ...
    async def prewarm(self, url: str | httpx.URL, connections: int) -> None: ...
    async def aclose(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One engine that runs."""

    base_url: str
    transport: Any  # a MeasuringTransport and an httpx.AsyncBaseTransport
    clock: Clock
    stop: Callable[[], Awaitable[None]] | None = None  # None: others need it still

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=self.transport, base_url=self.base_url, timeout=60, trust_env=False)


Main = Callable[[Engine], Coroutine[Any, Any, None]]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a simulated launch takes of a real launch's setting."""

    log_path: Path
    clock: Clock = field(default_factory=VirtualClock)
    on_event: Callable[[object], None] = lambda event: None


def in_virtual_time(main: Main, folder: Path, *, scenario: str = "quiet") -> None:
    """Run ``main`` against a simulated engine in its own process and time."""

    async def run() -> None:
        setting = Setting(log_path=folder / "simulated.log")
        async with simulated_launch(simulated_spec(), setting, load_scenario(scenario), boot="contract") as engine:

            async def stop() -> None:
                engine.simulation.link = "refused"

            transport = engine.transport()
            await main(Engine(base_url=engine.base_url, transport=transport, clock=setting.clock, stop=stop))
            await transport.aclose()

    run_virtual(run())


def over_http(main: Main, folder: Path, *, scenario: str = "quiet") -> None:
    """Run ``main`` against a simulated engine on a real port, in real time."""
    del folder

    async def run() -> None:
        options = ServeOptions(host="127.0.0.1", port=0, model=MODEL)
        transport = StampedTransport()
        async with serving(simulated_loop(scenario), options) as (server, port):
            base_url = f"http://127.0.0.1:{port}"
            await main(Engine(base_url=base_url, transport=transport, clock=SystemClock(), stop=server.close))
            await transport.aclose()

    asyncio.run(asyncio.wait_for(run(), 60))  # noqa: TID251 - nobody cancels it


def against(base_url: str, main: Main) -> None:
    """Run ``main`` against an engine that runs for others too."""

    async def run() -> None:
        async with StampedTransport() as transport:
            await main(Engine(base_url=base_url, transport=transport, clock=SystemClock()))

    asyncio.run(asyncio.wait_for(run(), 120))  # noqa: TID251 - nobody cancels it


@contextmanager
def real_engine(folder: Path) -> Iterator[str]:
    """Boot the recipe's real engine, in an event loop of its own; yields its address."""
    up, down = threading.Event(), asyncio.Event()
    found: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def hold() -> None:
        loops.append(asyncio.get_running_loop())
        async with _launched(folder) as base_url:
            found.append(base_url)
            up.set()
            await down.wait()

    def work() -> None:
        try:
            asyncio.run(hold())
        finally:
            up.set()

    thread = threading.Thread(target=work)
    thread.start()
    up.wait()
    try:
        assert found, "the engine did not come up"
        yield found[0]
    finally:
        if loops[0].is_running():
            loops[0].call_soon_threadsafe(down.set)
        thread.join()


def simulated_spec() -> LaunchSpec:
    """The recipe's configuration as a simulated launch, under the name that the real one serves."""
    spec = build_simulated(load_recipe(find_recipe(RECIPE)), Configuration(recipe=RECIPE, knobs=dict(KNOBS)))
    assert spec.served_model == MODEL
    return spec


def simulated_loop(scenario: str) -> EngineLoop:
    """The same as an engine loop."""
    spec = simulated_spec()
    assert spec.simulation is not None
    return new_engine(spec.simulation, load_scenario(scenario), launch_key="contract")


@asynccontextmanager
async def _launched(folder: Path) -> AsyncIterator[str]:
    recipe = load_recipe(find_recipe(RECIPE))
    spec = build_launch(recipe, Configuration(recipe=RECIPE, knobs=dict(KNOBS)), places_for(RECIPE))
    setting = LaunchSetting(
        run_id="contract",
        launch_id="contract",
        log_path=folder / "engine.log",
        shell=LocalShell(),
        clock=SystemClock(),
        on_event=lambda event: None,
        registry=Registry(directory=folder / "launches"),
    )
    place = PreparationPlace(
        shell=setting.shell,
        clock=setting.clock,
        on_event=setting.on_event,
        log_path=setting.log_path,
        registry=setting.registry,
        run_id=setting.run_id,
    )
    await prepare(spec.preparation, place)
    async with launched(spec, setting) as engine:
        yield engine.base_url
