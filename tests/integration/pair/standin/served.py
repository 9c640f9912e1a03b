"""The simulated engine as a rank serves it: on a machine that is a number of times faster than the pair.

At the pair's own speed a test of one launch would take hours. Every cost of the truth is divided by the same number, so
which configuration is best, acceptance, and what a step consists of stay as they are; times do not, and nothing that is
measured here says anything about a pair.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime

from harness.recipe.spec import SimulatedSpec
from harness.records.cell import KnobValue
from harness.simulator.engine import EngineLoop
from harness.simulator.front import Call, Front, FrontSettings, Generation, Plain
from harness.simulator.pump import Pump
from harness.simulator.scenario import Scenario, load_scenario
from harness.simulator.server import SimulatedServer
from harness.simulator.settings import scenario_for, settings_for
from harness.simulator.transport import Simulation
from harness.simulator.truth import StepCost

_NO_COSTS = ("experts_half_tokens", "overlapped_tokens", "eager_ratio")  # tokens and ratios
_GRACE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a rank serves, and where."""

    truth: str
    inputs: Mapping[str, KnobValue]  # of the model, by the recipe's neutral names
    truncated_graphs: bool
    speed: float
    scenario: str
    seed: int
    launch_key: str
    model: str
    host: str
    port: int
    api_keys: tuple[str, ...]
    kv_cache_tokens: int | None  # None: as the truth has it


def new_engine(served: Served, log: Callable[[str], None]) -> EngineLoop:
    """Return the engine. Raises InputError: an input is outside the model's range."""
    spec = SimulatedSpec(truth=served.truth, inputs=dict(served.inputs), truncated_graphs=served.truncated_graphs)
    scenario = faster(scenario_for(spec, load_scenario(served.scenario, seed=served.seed)), served.speed)
    if served.kv_cache_tokens is not None:
        scenario = replace(scenario, truth=replace(scenario.truth, kv_cache_tokens=served.kv_cache_tokens))
    return EngineLoop(scenario, settings_for(spec, scenario), launch_key=served.launch_key, log=log)


def faster(scenario: Scenario, speed: float) -> Scenario:
    """Return the scenario on a machine on which every step takes ``1 / speed`` of the time."""
    cost = scenario.truth.cost
    costs = {each.name: getattr(cost, each.name) for each in fields(StepCost)}
    quick = {name: value if name in _NO_COSTS else value / speed for name, value in costs.items()}
    return replace(scenario, truth=replace(scenario.truth, cost=StepCost(**quick)))


class FaultyFront(Front):
    """Answers chats with HTTP 500 while it is told to."""

    chats_fail: Callable[[], bool]

    def answer(self, call: Call) -> Plain | Generation:
        """Return the reply, or what the engine has to do for it."""
        if call.method == "POST" and call.path == "/v1/chat/completions" and self.chats_fail():
            return Plain(status=500, body=b'{"error":{"message":"Internal Server Error","code":500}}')
        return super().answer(call)


async def serve(
    engine: EngineLoop,
    served: Served,
    *,
    chats_fail: Callable[[], bool],
    on_ready: Callable[[], None],
    on_access: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError: the port is taken."""
    loop = asyncio.get_running_loop()
    engine.ready(loop.time())
    pump = Pump(engine)
    started_at = datetime.now(tz=UTC).timestamp()
    settings = FrontSettings(model=served.model, api_keys=served.api_keys, started_at=started_at, prompt_ids=False)
    front = FaultyFront(engine, settings, now_s=loop.time)
    front.chats_fail = chats_fail
    server = SimulatedServer(Simulation(front=front, pump=pump), on_access=on_access)
    await server.listen(served.host, served.port)
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    on_ready()
    waits = [asyncio.ensure_future(stopping.wait()), asyncio.ensure_future(pump.died.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    pump.stop()
    await server.close(grace_s=_GRACE_S if stopping.is_set() else 0.0)
