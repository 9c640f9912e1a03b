"""Launch a real process that speaks ds4-server's command line, HTTP and stderr."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from harness.client.endpoint import Endpoint, count_tokens
from harness.engine.launch import launched
from harness.engine.logfile import LogReader
from harness.errors import LaunchError
from harness.metrics.session_stats import read_session_stats
from harness.recipe.build import Places, build_launch
from harness.recipe.find import find_recipe
from harness.recipe.load import load_recipe
from harness.recipe.rules import canonicalise
from harness.recipe.spec import LaunchSpec
from harness.records.cell import Configuration, KnobValue
from tests.fakes.ssh_program import ssh_program
from tests.integration.engine.bench import Bench, carrying

pytestmark = pytest.mark.anyio
FAKE = Path(__file__).parents[2] / "fakes" / "fake_ds4.py"


def ds4(bench: Bench, *, model: str = "a", support: str = "a", **knobs: KnobValue) -> LaunchSpec:
    """Return the launch of the stand-in with files of these checkpoints; an empty one is not there."""
    for name, checkpoint in (("model.gguf", model), ("support.gguf", support)):
        if checkpoint:
            (bench.folder / name).write_text(f"checkpoint={checkpoint}")
    files = {"model": str(bench.folder / "model.gguf"), "support_model": str(bench.folder / "support.gguf")}
    recipe = load_recipe(find_recipe("ds4"))
    written = Configuration(recipe="ds4", knobs={"command": f"{sys.executable} {FAKE}", **files, **knobs})
    places = Places(cache_dir=bench.folder, data_dir=bench.folder, python=Path(sys.executable), home=bench.folder)
    return build_launch(recipe, canonicalise(recipe.recipe, written)[0], places)


async def refused(bench: Bench, spec: LaunchSpec, **setting: int) -> LaunchError:
    with pytest.raises(LaunchError) as failed:
        async with launched(spec, bench.setting(**setting)):
            pass
    assert carrying("launch-1") == []
    return failed.value


async def test_it_is_ready_without_health_and_leaves_its_statistics(bench: Bench) -> None:
    async with launched(ds4(bench, confidence_threshold=0.5), bench.setting()) as engine:
        assert (engine.model, engine.max_model_len) == ("deepseek-v4-flash", 40960)
        async with httpx.AsyncClient(base_url=engine.base_url) as client:
            assert (await client.get("/health")).status_code == 404
            body = {"messages": [{"role": "user", "content": "count"}], "max_tokens": 24, "stream": True}
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 200

    said = LogReader(path=bench.log_path).since(0).lines
    stats = read_session_stats(said, asked=True)
    assert stats.counts["cycles"] > 0
    assert stats.generation_tokens_per_s
    assert carrying("launch-1") == []


async def test_prompts_are_counted_by_an_answer_of_one_token(bench: Bench) -> None:
    async with launched(ds4(bench, mode="off"), bench.setting()) as engine, httpx.AsyncClient() as http:
        endpoint = Endpoint(base_url=engine.base_url, model=engine.model, thinking_field="think")

        assert await count_tokens(http, endpoint, "one two three") == 3 + 4


async def test_a_missing_model_is_named(bench: Bench) -> None:
    failed = await refused(bench, ds4(bench, model=""))

    assert "cannot open model" in failed.what and "model.gguf" in failed.what
    assert failed.hint is not None and "`model`" in failed.hint


async def test_a_missing_support_file_is_named(bench: Bench) -> None:
    failed = await refused(bench, ds4(bench, support=""))

    assert "support.gguf" in failed.what
    assert failed.hint is not None and "`support_model`" in failed.hint


async def test_a_pair_of_two_checkpoints_is_explained(bench: Bench) -> None:
    failed = await refused(bench, ds4(bench, model="vision-exp", support="0731"))

    assert "does not match the pinned" in failed.what
    assert failed.hint is not None and "two checkpoints" in failed.hint


async def test_an_older_build_tells_which_flag_to_name(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_DS4", "flags=older")

    failed = await refused(bench, ds4(bench))
    assert "unknown option: --mtp-model" in failed.what
    assert failed.hint is not None and "support_flag: --mtp" in failed.hint
    async with launched(ds4(bench, support_flag="--mtp"), bench.setting()) as engine:
        assert engine.alive()


async def test_a_port_that_is_taken_is_explained(bench: Bench) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        failed = await refused(bench, ds4(bench), port=taken.getsockname()[1])

    assert failed.hint is not None and "port" in failed.hint


async def test_it_runs_on_another_host_through_ssh(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = ssh_program(bench.folder)
    monkeypatch.setenv("PATH", f"{ssh}:{os.environ['PATH']}")

    async with launched(ds4(bench, ssh_host="spark1", confidence_threshold=0.5), bench.setting()) as engine:
        port = engine.base_url.rpartition(":")[2]
        async with httpx.AsyncClient(base_url=engine.base_url) as client:
            body = {"messages": [{"role": "user", "content": "count"}], "max_tokens": 8, "stream": True}
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 200

    (call,) = (ssh / "calls").read_text().splitlines()
    assert f"-L {port}:127.0.0.1:{port} spark1" in call and "BatchMode=yes" in call
    stats = read_session_stats(LogReader(path=bench.log_path).since(0).lines, asked=True)
    assert stats.counts["cycles"] > 0, "it was given the time for its last words"
    assert await until_silent(int(port))


async def test_a_host_that_ssh_does_not_reach(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ssh_program(bench.folder)}:{os.environ['PATH']}")

    failed = await refused(bench, ds4(bench, ssh_host="unreachable"))
    assert any("No route to host" in line for line in failed.log_tail)


async def test_what_it_says_on_the_other_host_is_explained(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ssh_program(bench.folder)}:{os.environ['PATH']}")

    failed = await refused(bench, ds4(bench, model="", ssh_host="spark1"))
    assert "cannot open model" in failed.what


async def test_the_engine_ends_with_the_connection(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ssh_program(bench.folder)}:{os.environ['PATH']}")

    async with launched(ds4(bench, ssh_host="spark1"), bench.setting()) as engine:
        assert engine.process is not None
        os.kill(engine.process.pid, signal.SIGKILL)
        assert await until_silent(int(engine.base_url.rpartition(":")[2]))


async def until_silent(port: int) -> bool:
    """Whether nobody listens any more, after a while."""
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return True
        await asyncio.sleep(0.05)
    return False
