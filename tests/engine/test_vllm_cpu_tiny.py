"""The recipe vllm-cpu-tiny on the real engine: install, build, launch, identity, acceptance, and no orphans.

Slow: the first run installs 3.4 GB; each boot takes half a minute on two quiet cores. HARNESS_DATA_DIR and
HARNESS_CACHE_DIR name folders that are kept between runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from harness.engine.clock import SystemClock
from harness.engine.identity import Probes, read_identity, require_configuration
from harness.engine.launch import LaunchSetting, RunningEngine, launched
from harness.engine.orphans import find_engines, processes_of
from harness.engine.preparation import PreparationPlace, prepare
from harness.engine.registry import Registry
from harness.engine.shell import LocalShell
from harness.errors import LaunchError
from harness.metrics.scrape import scrape
from harness.recipe.build import build_launch
from harness.recipe.find import find_recipe, places_for
from harness.recipe.load import load_recipe
from harness.recipe.spec import LaunchSpec
from harness.records.cell import Configuration, KnobValue
from harness.records.counters import CounterSnapshot
from harness.records.launch import LiveIdentity

pytestmark = [pytest.mark.engine, pytest.mark.anyio]
RECIPE = "vllm-cpu-tiny"
PROMPT = "The lighthouse keeper writes down the weather every evening before the lamp is lit. " * 8


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Answered:
    """What one boot said and counted for the same greedy requests, and for sampled ones."""

    live: LiveIdentity
    texts: tuple[str, ...]
    greedy: CounterSnapshot
    sampled_drafts: int
    sampled_accepted: int


def spec_of(**knobs: KnobValue) -> LaunchSpec:
    recipe = load_recipe(find_recipe(RECIPE))
    return build_launch(recipe, Configuration(recipe=RECIPE, knobs=knobs), places_for(RECIPE))


def setting_in(folder: Path, launch_id: str) -> LaunchSetting:
    return LaunchSetting(
        run_id="engine-test",
        launch_id=launch_id,
        log_path=folder / f"{launch_id}.log",
        shell=LocalShell(),
        clock=SystemClock(),
        on_event=lambda event: None,
        registry=Registry(directory=folder / "launches"),
    )


async def prepared(folder: Path, spec: LaunchSpec) -> None:
    setting = setting_in(folder, "prepare")
    place = PreparationPlace(
        shell=setting.shell,
        clock=setting.clock,
        on_event=setting.on_event,
        log_path=setting.log_path,
        registry=setting.registry,
        run_id=setting.run_id,
    )
    await prepare(spec.preparation, place)


async def complete(client: httpx.AsyncClient, prompt: str, **sampling: object) -> str:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 64, "ignore_eos": True, "temperature": 0, **sampling}
    response = await client.post("/v1/completions", json=body)
    response.raise_for_status()
    text: str = response.json()["choices"][0]["text"]
    return text


async def answered(engine: RunningEngine, client: httpx.AsyncClient) -> Answered:
    async def counters() -> CounterSnapshot | None:
        return await scrape(client, engine.base_url, None, SystemClock())

    async def draft() -> None:
        await complete(client, "a short request", max_tokens=8)

    live = await read_identity(engine, Probes(counters=counters, draft=draft, clock=SystemClock()))
    texts = [await complete(client, f"{number} {PROMPT}") for number in range(4)]
    greedy = await counters()
    for number in range(4):
        await complete(client, f"{number} {PROMPT}", temperature=0.8, seed=number)
    sampled = await counters()
    assert greedy is not None
    assert sampled is not None
    return Answered(
        live=live,
        texts=tuple(texts),
        greedy=greedy,
        sampled_drafts=(sampled.drafts or 0) - (greedy.drafts or 0),
        sampled_accepted=(sampled.accepted_tokens or 0) - (greedy.accepted_tokens or 0),
    )


async def boot(folder: Path, launch_id: str, spec: LaunchSpec) -> Answered:
    async with (
        launched(spec, setting_in(folder, launch_id)) as engine,
        httpx.AsyncClient(base_url=engine.base_url, timeout=120) as client,
    ):
        facts = engine.boot_facts()
        assert facts is not None
        assert facts.engine_version == "0.32.0"
        assert (facts.kv_cache_tokens or 0) > 16_384  # the longest prompt that the pair takes
        result = await answered(engine, client)
        require_configuration(result.live, spec)
        return result


def _check_sampling(result: Answered, at_least: float) -> None:
    assert result.sampled_drafts > 0
    assert result.sampled_accepted / result.sampled_drafts > at_least


async def test_counts_and_text_repeat_and_sampling_accepts(tmp_path: Path) -> None:
    spec = spec_of(num_speculative_tokens=4)
    await prepared(tmp_path, spec)

    first = await boot(tmp_path, "k4-first", spec)
    second = await boot(tmp_path, "k4-second", spec_of(num_speculative_tokens=4, draft_sample_method="probabilistic"))
    without = await boot(tmp_path, "k0", spec_of(num_speculative_tokens=0))

    assert (first.live.num_speculative_tokens, without.live.num_speculative_tokens) == (4, 0)
    assert first.texts == second.texts == without.texts
    assert (first.greedy.drafts, first.greedy.accepted_tokens, first.greedy.accepted_by_position) == (
        second.greedy.drafts,
        second.greedy.accepted_tokens,
        second.greedy.accepted_by_position,
    )
    assert 1.0 < (first.greedy.accepted_tokens or 0) / (first.greedy.drafts or 1) < 4.0
    assert without.greedy.drafts is None
    _check_sampling(first, at_least=0.5)  # tokens accepted in a draft; without the repair it is 0
    _check_sampling(second, at_least=1.0)


@pytest.mark.parametrize("how", ["stopped", "server killed"])
async def test_nothing_is_left_of_an_engine(tmp_path: Path, how: str) -> None:
    spec = spec_of(num_speculative_tokens=1)
    await prepared(tmp_path, spec)
    setting = setting_in(tmp_path, "left")

    async with launched(spec, setting) as engine:
        assert engine.process is not None
        (entry,) = find_engines(setting.registry)
        family = [psutil.Process(mark.pid) for mark in entry.processes]
        assert len(family) >= 3  # front end, EngineCore, worker
        if how == "server killed":
            os.kill(engine.process.pid, signal.SIGKILL)
            await engine.died()
            assert processes_of(entry.launch)

    async with asyncio.timeout(10):
        while any(map(_lives, family)):
            await asyncio.sleep(0.1)
    assert find_engines(setting.registry) == []


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("knobs", "says"),
    [
        ({"args": "--no-such-option"}, "does not know this argument"),
        ({"model": "/no/such/model"}, "model was not found"),
    ],
    ids=["bad argument", "missing model"],
)
async def test_a_boot_that_fails_says_why(tmp_path: Path, knobs: dict[str, KnobValue], says: str) -> None:
    spec = spec_of(num_speculative_tokens=0, **knobs)
    await prepared(tmp_path, spec)

    with pytest.raises(LaunchError, match=says) as caught:
        async with launched(spec, setting_in(tmp_path, "bad")):
            pytest.fail("it came up")

    assert caught.value.log_tail
