"""Engine loops for tests: driven by hand, in no time at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.simulator.engine import EngineLoop, EngineSettings
from harness.simulator.faults import Faults
from harness.simulator.model import Scheduling, Speculation
from harness.simulator.noise import Noise
from harness.simulator.request import Batch, Order
from harness.simulator.scenario import Scenario, load_scenario


def scenario(*, noise: Noise | None = None, seed: int = 0, **faults: Any) -> Scenario:
    """The quiet pair, with what a test adds."""
    return replace(load_scenario("quiet", seed=seed), noise=noise or Noise(), faults=Faults(**faults))


def engine_of(made: Scenario | None = None, *, k: int = 5, launch_key: str = "launch", **changes: Any) -> EngineLoop:
    """A boot of it."""
    changes = {"scheduling": Scheduling(), "max_model_tokens": 1 << 20, **changes}
    return EngineLoop(
        made or scenario(), EngineSettings(speculation=Speculation(k=k), **changes), launch_key=launch_key
    )


def order_of(name: str = "a", *, prompt_tokens: int = 256, max_tokens: int = 64, **changes: Any) -> Order:
    """A request whose prompt nobody else sends."""
    changes = {"workload_class": "code", "ignore_eos": True, **changes}
    prompt = f"{name} ".ljust(8, "-").encode() * prompt_tokens
    return Order(prompt=prompt[: 4 * prompt_tokens], key=name, max_tokens=max_tokens, **changes)


def run(engine: EngineLoop, orders: list[tuple[float, Order]], *, until_s: float = 1e9) -> list[list[Batch]]:
    """Send each order at its time, drive the engine until it is idle, and return the batches of each."""
    batches: list[list[Batch]] = [[] for _ in orders]
    todo = sorted(range(len(orders)), key=lambda index: orders[index][0])
    while True:
        due_s = engine.due_s()
        if todo and (due_s is None or orders[todo[0]][0] <= due_s):
            index = todo.pop(0)
            sent_s, order = orders[index]
            engine.submit(order, sent_s, batches[index].append)
            engine.advance(sent_s)
        elif due_s is None or due_s > until_s or not engine.busy:
            return batches
        else:
            engine.advance(due_s)


def tokens_of(batches: list[Batch]) -> list[int]:
    """The tokens of each batch."""
    return [batch.tokens for batch in batches]
