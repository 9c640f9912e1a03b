"""Launch a simulated engine in place of a real one, in the time that the recipe expects of that one.

What comes up answers to the same questions as a running engine: its address, its log, whether it lives. Requests reach
it through ``transport``, on the event loop of whoever measures it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from harness.recipe.spec import LaunchSpec, SimulatedSpec
from harness.records.clock import Clock
from harness.records.events import LaunchProgress, OnEvent
from harness.records.launch import BootFacts
from harness.simulator import ds4
from harness.simulator.engine import EngineLoop
from harness.simulator.front import VERSION, Dialect, Front, FrontSettings
from harness.simulator.log import MARK, SimulatedLog, boot_facts, boot_lines
from harness.simulator.pump import Pump
from harness.simulator.scenario import Scenario
from harness.simulator.settings import scenario_for, settings_for
from harness.simulator.transport import SimulatedTransport, Simulation

BASE_URL = "http://simulated.invalid"  # a name that no network resolves
_LAST_BREATH_S = 1.0  # between the engine's death and the end of its process


class Place(Protocol):
    """What a launch runs with; the setting of a real launch has it all."""

    @property
    def log_path(self) -> Path: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def on_event(self) -> OnEvent: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedName:
    """An entry of /v1/models."""

    name: str
    max_model_len: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEngine:
    """A simulated engine that answers; in place of a RunningEngine."""

    spec: LaunchSpec
    model: str
    max_model_len: int
    ready_s: float
    log: SimulatedLog
    simulation: Simulation
    ended: asyncio.Event
    base_url: str = BASE_URL
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    untested: str | None = None
    hosts: None = None

    @property
    def is_ds4(self) -> bool:
        """It speaks as ds4 does, not as vLLM."""
        return self.spec.manners.metrics == "ds4"

    def transport(self) -> SimulatedTransport:
        """Return a transport that reaches it; as many as there are clients."""
        return SimulatedTransport(self.simulation)

    def alive(self) -> bool:
        """False once the process has ended."""
        return not self.ended.is_set()

    async def died(self) -> str:
        """Return how it ended, once it has."""
        await self.ended.wait()
        return f"the engine died, as scenario {self.simulation.pump.engine.scenario.name} has it"

    def boot_facts(self) -> BootFacts:
        """Return what the log says; ds4's says nothing of the kind."""
        return BootFacts() if self.is_ds4 else boot_facts(self.simulation.pump.engine)

    def jit_lines(self, since: int) -> tuple[str, ...]:
        """Return the log lines after the offset ``since`` that report compilation while serving."""
        return self.log.matching(since, self.spec.boot.jit)

    def endpoint(self) -> SimulatedEndpoint:
        """Return a client for short questions."""
        return SimulatedEndpoint(self)


class SimulatedEndpoint:
    """Short questions to a simulated engine; a context manager like that of a real one."""

    def __init__(self, engine: SimulatedEngine) -> None:
        self._engine = engine

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def health(self) -> int | None:
        """Return the status of /health; None where nothing answers."""
        if not self._engine.alive():
            return None
        if self._engine.is_ds4:
            return None if self._engine.simulation.pump.engine.dead else 404
        return 503 if self._engine.simulation.pump.engine.dead else 200

    async def models(self) -> tuple[ServedName, ...] | None:
        """Return what is served; None where nothing answers."""
        served = ServedName(name=self._engine.model, max_model_len=self._engine.max_model_len)
        return (served,) if self._engine.alive() else None

    async def version(self) -> str | None:
        """Return what /version says."""
        return VERSION if self._engine.alive() and not self._engine.is_ds4 else None


class SimulatedDriver:
    """Launches simulated engines for a run."""

    def __init__(self, scenario: Scenario, *, earlier_boots: Mapping[str, int] | None = None) -> None:
        """Make a driver.

        Args:
            scenario: noise and faults; the truth is that of each configuration.
            earlier_boots: by configuration id, how often each was booted before in the same run. Boots that have the
                same number are equal, so a resumed run must go on counting.
        """
        self.scenario = scenario
        self._boots = dict(earlier_boots or {})

    def launched(self, spec: LaunchSpec, place: Place) -> AbstractAsyncContextManager[SimulatedEngine]:
        """Launch one engine; each call is another boot."""
        name = spec.configuration.configuration_id
        self._boots[name] = self._boots.get(name, 0) + 1
        return simulated_launch(spec, place, self.scenario, boot=f"{name} {self._boots[name]}{self.scenario.night}")


@asynccontextmanager
async def simulated_launch(
    spec: LaunchSpec, place: Place, scenario: Scenario, *, boot: str
) -> AsyncIterator[SimulatedEngine]:
    """Boot a simulated engine within the recipe's expected launch time, and leave nothing of it behind.

    Args:
        spec: from recipe.simulated.
        place: log, clock and events.
        scenario: noise and faults.
        boot: decides the noise of this launch; never a run id, so that equal runs are equal.

    Raises:
        InputError: there is no such truth, or an input is outside the model's range.
    """
    assert spec.simulation is not None  # other specs are for other launches
    began_s = place.clock.now_s()
    log = SimulatedLog(path=place.log_path, clock=place.clock)
    steps = new_engine(spec.simulation, scenario, launch_key=boot, log=log)
    model = spec.served_model or steps.scenario.truth.checkpoint
    await _boot(spec, place, steps, log, model=model)
    loop = asyncio.get_running_loop()
    steps.ready(loop.time())
    pump = Pump(steps)
    started_at = datetime.fromisoformat(place.clock.stamp()).timestamp()
    dialect = dialect_of(spec)
    front_settings = FrontSettings(model=model, started_at=started_at, prompt_ids=False, dialect=dialect)
    front = Front(steps, front_settings, now_s=loop.time)
    engine = SimulatedEngine(
        spec=spec,
        model=model,
        max_model_len=steps.settings.max_model_tokens,
        ready_s=place.clock.now_s() - began_s,
        log=log,
        simulation=Simulation(front=front, pump=pump),
        ended=asyncio.Event(),
        command=("SIMULATED", f"truth={steps.scenario.truth.name}", f"scenario={scenario.name}"),
    )
    undertaker = asyncio.create_task(_end_after_death(engine))
    try:
        yield engine
    finally:
        undertaker.cancel()
        with suppress(asyncio.CancelledError):
            await undertaker
        engine.simulation.link = "refused"
        pump.stop()
        if dialect == "ds4":
            for line in ds4.last_lines(steps):
                log.write(line)
        else:
            log.say("Application shutdown complete.", process="APIServer")


def new_engine(
    spec: SimulatedSpec, scenario: Scenario, *, launch_key: str, log: SimulatedLog | None = None
) -> EngineLoop:
    """Return the engine loop of a configuration. Raises InputError."""
    scenario = scenario_for(spec, scenario)
    return EngineLoop(
        scenario,
        settings_for(spec, scenario),
        launch_key=launch_key,
        log=(lambda line: log.say(line, level="WARNING")) if log is not None else (lambda line: None),
    )


def dialect_of(spec: LaunchSpec) -> Dialect:
    """Return how the server of a recipe speaks."""
    return "ds4" if spec.manners.metrics == "ds4" else "vllm"


async def _boot(spec: LaunchSpec, place: Place, engine: EngineLoop, log: SimulatedLog, *, model: str) -> None:
    passed = 0.0
    is_ds4 = dialect_of(spec) == "ds4"
    for share, line in ds4.boot_lines(engine, mark=MARK) if is_ds4 else boot_lines(engine, model=model):
        await place.clock.sleep((share - passed) * spec.expected_launch_s)
        passed = share
        (log.write if is_ds4 else log.say)(line)
        if any(re.search(pattern, line) for pattern in spec.boot.progress):
            place.on_event(LaunchProgress(text=line))


async def _end_after_death(engine: SimulatedEngine) -> None:
    await engine.simulation.pump.died.wait()
    engine.log.say("EngineCore encountered an issue. See stack trace (above) for the root cause.", level="ERROR")
    await asyncio.sleep(_LAST_BREATH_S)
    engine.simulation.link = "refused"
    engine.ended.set()
