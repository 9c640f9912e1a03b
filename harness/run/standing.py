"""The launch step alone: an engine that is brought up, proved and held, and not measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.engine.identity import Probes, read_identity, require_configuration
from harness.engine.launch import LaunchSetting
from harness.engine.orphans import remove_orphans
from harness.engine.preparation import PreparationPlace, prepare
from harness.errors import EngineError
from harness.recipe.spec import LaunchSpec
from harness.records.launch import LiveIdentity
from harness.run.bench import Bench, bench_for
from harness.run.driver import EngineDriver, RunSetting

_SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingEngine:
    """What stands, and what was read back from it."""

    base_url: str
    ready_s: float
    live: LiveIdentity


async def hold_engine(
    spec: LaunchSpec, setting: LaunchSetting, driver: EngineDriver, *, on_ready: Callable[[StandingEngine], None]
) -> None:
    """Bring the engine up, tell what runs, and hold it until this is cancelled.

    Raises:
        asyncio.CancelledError: stopped from outside; the engine is gone, and the machines are as they were found.
        LaunchError: it did not come up, or as something else.
        EngineError: it died.
    """
    run = RunSetting(run_id=setting.run_id, clock=setting.clock, on_event=setting.on_event)
    await remove_orphans(setting.registry, clock=setting.clock)
    place = PreparationPlace(
        shell=setting.shell,
        clock=setting.clock,
        on_event=setting.on_event,
        log_path=setting.log_path.with_suffix(".preparation.log"),
        registry=setting.registry,
        run_id=setting.run_id,
    )
    await prepare(spec.preparation, place)
    async with (
        driver.held(run),
        driver.launched(spec, setting) as reached,
        bench_for(reached, setting.clock, seed=_SEED) as bench,
    ):
        live = await _proved(bench, spec)
        on_ready(StandingEngine(base_url=reached.engine.base_url, ready_s=reached.engine.ready_s, live=live))
        raise EngineError(await reached.engine.died(), hint=f"Its log is {setting.log_path}.")


async def _proved(bench: Bench, spec: LaunchSpec) -> LiveIdentity:
    live = await read_identity(bench.engine, Probes(counters=bench.counters, draft=bench.draft, clock=bench.clock))
    require_configuration(live, spec)
    return live
