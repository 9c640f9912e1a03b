"""Launching a simulated engine: boot, log, life and death, all in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.engine.bootlog import parse_boot_log
from harness.errors import InputError
from harness.recipe.simulated import build_simulated
from harness.recipe.spec import LaunchSpec, SimulatedSpec
from harness.records.cell import KnobValue
from harness.records.events import LaunchProgress
from harness.simulator.faults import JitStall
from harness.simulator.front import VERSION
from harness.simulator.launch import SimulatedDriver, SimulatedEngine, simulated_launch
from harness.simulator.loop import VirtualClock, run_virtual
from harness.simulator.noise import Noise
from harness.simulator.scenario import load_scenario
from harness.simulator.settings import scenario_for, settings_for
from tests.unit.recipe.recipes import configuration, shipped
from tests.unit.simulator.engines import scenario


@dataclass(frozen=True)
class Place:
    log_path: Path
    clock: VirtualClock = field(default_factory=VirtualClock)
    seen: list[object] = field(default_factory=list)

    def on_event(self, event: object) -> None:
        self.seen.append(event)


def spec_of(**knobs: KnobValue) -> LaunchSpec:
    return build_simulated(shipped("dspark-2x-spark"), configuration("dspark-2x-spark", **knobs))


async def complete(engine: SimulatedEngine, *, tokens: int = 16) -> tuple[float, dict[str, Any]]:
    """Seconds of virtual time, and the reply."""
    loop = asyncio.get_running_loop()
    body = {"model": engine.model, "prompt": "x" * 1024, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
    async with httpx.AsyncClient(transport=engine.transport(), base_url=engine.base_url, timeout=None) as http:
        began_s = loop.time()
        response = await http.post("/v1/completions", json=body)
    return loop.time() - began_s, response.json()


def test_a_boot_takes_the_recipe_s_time_and_leaves_the_log_of_one(tmp_path: Path) -> None:
    place = Place(tmp_path / "engine.log")

    async def main() -> None:
        spec = spec_of(num_speculative_tokens=6)
        async with simulated_launch(spec, place, load_scenario("quiet"), boot="1") as engine:
            assert engine.ready_s == pytest.approx(spec.expected_launch_s) == place.clock.now_s()
            assert engine.alive()
            facts = engine.boot_facts()
            read = parse_boot_log(place.log_path.read_text().splitlines())
            assert read.engine_version == facts.engine_version == VERSION
            assert read.kv_cache_tokens == facts.kv_cache_tokens
            assert read.max_num_batched_tokens == facts.max_num_batched_tokens
            assert read.graph_capture_s == facts.graph_capture_s
            for config in (facts.speculative_config, read.speculative_config):
                assert config is not None
                assert (config["method"], config["num_speculative_tokens"]) == ("dspark", 6)
            async with engine.endpoint() as endpoint:
                assert await endpoint.health() == 200
                assert await endpoint.version() == VERSION
                models = await endpoint.models()
            assert models is not None
            assert (models[0].name, models[0].max_model_len) == (engine.model, 1 << 20)

    run_virtual(main())
    progress = [event.text for event in place.seen if isinstance(event, LaunchProgress)]
    assert [line.split()[0] for line in progress] == ["Model", "Graph", "Application"]
    log = place.log_path.read_text()
    assert "SIMULATED" in log.splitlines()[0]
    assert log.splitlines()[-1].endswith("Application shutdown complete.")


def test_without_speculation_the_log_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        place = Place(tmp_path / "engine.log")
        async with simulated_launch(spec_of(num_speculative_tokens=0), place, load_scenario("quiet"), boot="1") as up:
            assert up.boot_facts().speculative_config == {}
            assert parse_boot_log(place.log_path.read_text().splitlines()).speculative_config == {}

    run_virtual(main())


def test_after_the_launch_nothing_answers(tmp_path: Path) -> None:
    async def main() -> None:
        async with simulated_launch(spec_of(), Place(tmp_path / "log"), load_scenario("quiet"), boot="1") as engine:
            transport = engine.transport()
        async with httpx.AsyncClient(transport=transport) as http:
            with pytest.raises(httpx.ConnectError):
                await http.get(f"{engine.base_url}/health")

    run_virtual(main())


def test_a_host_that_is_silent_is_a_connect_timeout_in_virtual_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with simulated_launch(spec_of(), Place(tmp_path / "log"), load_scenario("quiet"), boot="1") as engine:
            engine.simulation.link = "silent"
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            async with httpx.AsyncClient(transport=engine.transport(), timeout=7.0) as http:
                with pytest.raises(httpx.ConnectTimeout, match="within 7 s"):
                    await http.get(engine.base_url)
            assert loop.time() - began_s == pytest.approx(7.0)
            with pytest.raises(httpx.ConnectTimeout):
                await engine.transport().prewarm(engine.base_url, 1)

    run_virtual(main())


def test_a_death_is_seen_by_all_who_watch(tmp_path: Path) -> None:
    async def main() -> None:
        dying = scenario(engine_dies_after_s=2.0)
        async with simulated_launch(spec_of(), Place(tmp_path / "log"), dying, boot="1") as engine:
            watcher = asyncio.create_task(engine.died())
            _, reply = await complete(engine, tokens=4000)
            assert reply["error"]["code"] == 500
            async with engine.endpoint() as endpoint:
                assert (engine.alive(), await endpoint.health()) == (True, 503)
                assert "the engine died" in await watcher
                assert (engine.alive(), await endpoint.health(), await endpoint.models()) == (False, None, None)
                assert await endpoint.version() is None
            with pytest.raises(httpx.ConnectError):
                await complete(engine)

    run_virtual(main())


def test_stalls_are_lines_of_the_log(tmp_path: Path) -> None:
    async def main() -> None:
        stalling = scenario(jit_stall=JitStall(stall_s=1.0))
        async with simulated_launch(spec_of(), Place(tmp_path / "log"), stalling, boot="1") as engine:
            before = engine.log.size()
            await complete(engine)
            warmed = engine.log.size()
            assert engine.jit_lines(before)
            await complete(engine)
            assert engine.jit_lines(warmed) == ()

    run_virtual(main())


def test_boots_differ_from_each_other_and_repeat_from_run_to_run(tmp_path: Path) -> None:
    noisy = replace(load_scenario("quiet", seed=3), noise=Noise(launch_sd=0.05))

    async def boots(driver: SimulatedDriver, names: list[int]) -> list[float]:
        seconds = []
        for k in names:
            spec = spec_of(num_speculative_tokens=k)
            async with driver.launched(spec, Place(tmp_path / "log")) as engine:
                seconds.append((await complete(engine))[0])
        return seconds

    def run(main: Coroutine[Any, Any, list[float]]) -> list[float]:
        return run_virtual(main)

    first = run(boots(SimulatedDriver(noisy), [5, 5, 0]))
    assert first == pytest.approx(run(boots(SimulatedDriver(noisy), [5, 5, 0])), abs=1e-9)
    assert first[0] != pytest.approx(first[1], rel=1e-3)
    name = spec_of(num_speculative_tokens=5).configuration.configuration_id
    resumed = run(boots(SimulatedDriver(noisy, earlier_boots={name: 1}), [5]))
    assert resumed == pytest.approx([first[1]], abs=1e-9)


def test_inputs_become_settings() -> None:
    inputs: dict[str, KnobValue] = {
        "num_speculative_tokens": 3,
        "draft_sample_method": "greedy",
        "confidence_threshold": 0.4,
        "confidence_scheduler": "threshold",
        "max_num_seqs": 12,
        "max_num_batched_tokens": 4096,
        "long_prefill_token_threshold": 512,
        "max_inflight_prefills": 2,
        "max_model_len": 32768,
        "prefix_caching": False,
    }
    spec = SimulatedSpec(truth="0731-anemll", inputs=inputs, truncated_graphs=True)
    made = settings_for(spec, scenario_for(spec, load_scenario("quiet")))
    assert (made.speculation.k, made.speculation.draft_sample_method, made.speculation.threshold) == (3, "greedy", 0.4)
    assert (made.scheduling.max_num_seqs, made.scheduling.max_batched_tokens) == (12, 4096)
    assert (made.scheduling.long_prefill_tokens, made.scheduling.max_inflight_prefills) == (512, 2)
    assert (made.max_model_tokens, made.prefix_caching) == (32768, False)
    assert made.scheduling.capture_limit_tokens is None
    wide = settings_for(replace(spec, truncated_graphs=False), load_scenario("quiet")).scheduling.capture_limit_tokens
    assert wide is not None and wide >= 48


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"num_speculative_tokens": -1}, "cannot be negative"),
        ({"max_num_seqs": "many"}, "cannot read as a number"),
        ({"confidence_scheduler": "hardware"}, "cannot be simulated"),
        ({"confidence_threshold": 2.0}, "between 0 and 1"),
    ],
)
def test_an_input_outside_the_model_is_refused(inputs: dict[str, KnobValue], says: str) -> None:
    spec = SimulatedSpec(truth="0731-anemll", inputs=inputs, truncated_graphs=False)
    with pytest.raises(InputError, match=says):
        settings_for(spec, load_scenario("quiet"))


def test_an_unknown_truth_is_refused() -> None:
    spec = SimulatedSpec(truth="0731-anemlll", inputs={}, truncated_graphs=False)
    with pytest.raises(InputError, match="0731-anemlll"):
        scenario_for(spec, load_scenario("quiet"))
