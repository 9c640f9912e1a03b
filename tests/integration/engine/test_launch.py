"""Launch a real process that speaks vLLM's command line and HTTP, and look at what is left of it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from harness.engine.clock import SystemClock
from harness.engine.launch import RunningEngine, launched
from harness.engine.orphans import find_engines, remove_orphans
from harness.errors import EndpointError, EngineError, LaunchError
from harness.recipe.spec import BootPatterns
from harness.records.events import LaunchProgress
from tests.integration.engine.bench import Bench, carrying, fake_spec

pytestmark = pytest.mark.anyio


async def ask(engine: RunningEngine, *, tokens: int = 24) -> httpx.Response:
    body = {"model": engine.model, "prompt": "tell me", "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
    async with httpx.AsyncClient(base_url=engine.base_url) as client:
        return await client.post("/v1/completions", json=body)


async def until_gone(launch_id: str) -> None:
    async with asyncio.timeout(10):
        while carrying(launch_id):
            await asyncio.sleep(0.02)


async def test_an_engine_comes_up_answers_and_leaves_nothing_behind(bench: Bench) -> None:
    async with launched(fake_spec(k=3), bench.setting()) as engine:
        assert engine.model == "tiny"
        assert engine.max_model_len == 8192
        assert 0 < engine.ready_s < 20
        assert engine.alive()
        assert (await ask(engine)).status_code == 200
        assert len(carrying("launch-1")) == 2
        assert [entry.state for entry in find_engines(bench.registry)] == ["running"]
        facts = engine.boot_facts()

    assert facts is not None
    assert facts.kv_cache_tokens == 131072
    assert facts.speculative_config == {"method": "draft_model", "model": "draft", "num_speculative_tokens": 3}
    assert not engine.alive()
    assert carrying("launch-1") == []
    assert find_engines(bench.registry) == []


async def test_progress_is_told_while_it_boots(bench: Bench) -> None:
    async with launched(fake_spec(), bench.setting()):
        pass

    told = [event.text for event in bench.events if isinstance(event, LaunchProgress)]
    assert told == ["Loading weights took 0.02 seconds", "131,072 tokens"]


@pytest.mark.parametrize(
    ("fake", "what", "hint"),
    [
        ("die_at_boot=crash", "No module named 'flashinfer'", "missing module"),
        ("die_at_boot=oom", "out of memory", "out of memory"),
        ("die_at_boot=argument", "unrecognized arguments", "does not know this argument"),
        ("die_at_boot=model", "Repo id must be", "model was not found"),
    ],
)
async def test_an_engine_that_dies_while_booting_says_why(bench: Bench, fake: str, what: str, hint: str) -> None:
    with pytest.raises(LaunchError, match=what) as caught:
        async with launched(fake_spec(fake=fake), bench.setting()):
            pytest.fail("it came up")

    assert hint in (caught.value.hint or "")
    assert any(what in line for line in caught.value.log_tail)
    assert find_engines(bench.registry) == []


async def test_a_missing_model_path(bench: Bench) -> None:
    with pytest.raises(LaunchError, match="no/such/model") as caught:
        async with launched(fake_spec(argv=("--model", "/no/such/model")), bench.setting()):
            pytest.fail("it came up")

    assert "model was not found" in (caught.value.hint or "")


async def test_a_program_that_does_not_exist(bench: Bench) -> None:
    with pytest.raises(LaunchError, match="cannot run no-such-program"):
        async with launched(replace(fake_spec(), argv=("no-such-program",)), bench.setting()):
            pytest.fail("it came up")

    assert find_engines(bench.registry) == []


async def test_an_engine_that_never_answers_is_stopped(bench: Bench) -> None:
    with pytest.raises(LaunchError, match=r"not ready after 500 ms") as caught:
        async with launched(fake_spec(fake="slow_boot_s=60", ready_timeout_s=0.5), bench.setting()):
            pytest.fail("it came up")

    assert "ready_timeout_s" in (caught.value.hint or "")
    assert carrying("launch-1") == []


async def test_a_taken_port_names_its_holder(bench: Bench) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(LaunchError, match=rf"port {port} is taken by .*process {os.getpid()}"):
            async with launched(fake_spec(), bench.setting(port=port)):
                pytest.fail("it came up")


async def test_the_wrong_model_is_refused(bench: Bench) -> None:
    with pytest.raises(LaunchError, match="serves tiny, not other"):
        async with launched(fake_spec(served_model="other"), bench.setting()):
            pytest.fail("it came up")


async def test_an_error_in_the_body_stops_the_engine(bench: Bench) -> None:
    with pytest.raises(RuntimeError, match="mine"):
        async with launched(fake_spec(), bench.setting()):
            raise RuntimeError("mine")

    assert carrying("launch-1") == []


@pytest.mark.parametrize("fake", ["slow_boot_s=60", ""])
async def test_cancelling_stops_the_engine_at_every_stage(bench: Bench, fake: str) -> None:
    async def run() -> None:
        async with launched(fake_spec(fake=fake), bench.setting()):
            await asyncio.sleep(60)

    task = asyncio.create_task(run())
    async with asyncio.timeout(10):
        while len(carrying("launch-1")) < 2:
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert carrying("launch-1") == []
    assert find_engines(bench.registry) == []


async def test_a_second_cancel_while_stopping_kills_at_once(bench: Bench) -> None:
    spec = fake_spec(fake="ignore_signals=1", stop_timeout_s=30.0)

    async def run() -> None:
        async with launched(spec, bench.setting()):
            await asyncio.sleep(60)

    task = asyncio.create_task(run())
    async with asyncio.timeout(10):
        while not any(entry.launch.members for entry in find_engines(bench.registry)):
            await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.sleep(0.3)
    assert not task.done()
    task.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await task

    await until_gone("launch-1")


async def test_an_engine_without_environment_is_stopped_too(bench: Bench) -> None:
    spec = fake_spec(fake="core_without_environment=1")
    async with launched(spec, bench.setting()) as engine:
        assert engine.process is not None
        children = psutil.Process(engine.process.pid).children(recursive=True)
        assert len(children) == 1
        os.kill(engine.process.pid, signal.SIGKILL)
        assert await engine.died() == "the engine was ended by signal 9"
        assert children[0].is_running()

    assert not children[0].is_running() or children[0].status() == psutil.STATUS_ZOMBIE


async def test_death_while_serving_is_noticed(bench: Bench) -> None:
    async with launched(fake_spec(fake="die_after_tokens=20"), bench.setting()) as engine:
        await ask(engine, tokens=64)
        async with asyncio.timeout(10):
            assert await engine.died() == "the engine ended with exit code 1"
        assert not engine.alive()


async def test_compilation_while_serving_is_seen_in_its_window(bench: Bench) -> None:
    async with launched(fake_spec(fake="jit_at_request=2"), bench.setting()) as engine:
        start = engine.log.size()
        await ask(engine)
        between = engine.log.size()
        assert engine.jit_lines(start) == ()
        await ask(engine)
        assert len(engine.jit_lines(between)) == 1
        assert "JIT compilation during inference" in engine.jit_lines(between)[0]


async def test_keys_do_not_get_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-very-secret-key"
    monkeypatch.setenv("FAKE_KEY", key)
    spec = fake_spec(argv=("--api-key", key), api_key_variable="FAKE_KEY")
    async with launched(spec, bench.setting()) as engine:
        assert key not in " ".join(engine.command)
        assert "***" in engine.command
        assert engine.model == "tiny"


async def test_a_missing_key_is_asked_for(bench: Bench) -> None:
    spec = fake_spec(argv=("--api-key", "sk-very-secret-key"), api_key_variable="HARNESS_TEST_KEY")
    with pytest.raises(EndpointError, match="wants a key") as caught:
        async with launched(spec, bench.setting()):
            pytest.fail("it came up")

    assert "HARNESS_TEST_KEY" in (caught.value.hint or "")
    assert carrying("launch-1") == []


async def test_a_key_in_the_last_lines_is_hidden(bench: Bench) -> None:
    key = "sk-very-secret-key"
    code = f"import sys; print('ValueError: bad key', {key!r}); sys.exit(3)"
    spec = fake_spec()
    spec = replace(spec, argv=(sys.executable, "-c", code, "--api-key", key))
    with pytest.raises(LaunchError) as caught:
        async with launched(spec, bench.setting()):
            pytest.fail("it came up")

    assert key not in str(caught.value)
    assert key not in " ".join(caught.value.log_tail)


async def test_a_fatal_line_ends_the_wait(bench: Bench) -> None:
    code = "import time; print('EngineCore failed to start.', flush=True); time.sleep(60)"
    spec = fake_spec(boot=BootPatterns(fatal=("EngineCore failed",)), ready_timeout_s=60.0)
    spec = replace(spec, argv=(sys.executable, "-c", code))
    async with asyncio.timeout(15):
        with pytest.raises(LaunchError, match="failed to boot"):
            async with launched(spec, bench.setting()):
                pytest.fail("it came up")


async def test_a_killed_harness_leaves_an_orphan_that_the_next_one_removes(bench: Bench) -> None:
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.integration.engine.bench import Bench, fake_spec\n"
        "from harness.engine.launch import launched\n"
        "from harness.engine.registry import Registry\n"
        "async def main():\n"
        f"    registry = Registry(directory=Path({str(bench.registry.directory)!r}))\n"
        f"    bench = Bench(folder=Path({str(bench.folder)!r}), registry=registry)\n"
        "    async with launched(fake_spec(), bench.setting(launch_id='orphaned')):\n"
        "        print('up', flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).parents[3]
    harness = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=root, stdout=asyncio.subprocess.PIPE)
    assert harness.stdout is not None
    assert await asyncio.wait_for(harness.stdout.readline(), 20) == b"up\n"  # noqa: TID251 - nobody cancels it
    harness.kill()
    await harness.wait()

    assert [entry.state for entry in find_engines(bench.registry)] == ["orphan"]
    assert len(carrying("orphaned")) == 2
    stopped = await remove_orphans(bench.registry, clock=SystemClock(), timeout_s=5.0)
    assert [entry.launch.launch_id for entry in stopped] == ["orphaned"]
    assert carrying("orphaned") == []


async def test_attaching_starts_and_stops_nothing(bench: Bench) -> None:
    async with launched(fake_spec(), bench.setting()) as server:
        attached = fake_spec(style="attach", base_url=server.base_url + "/v1")
        async with launched(attached, bench.setting(launch_id="launch-2")) as engine:
            assert engine.model == "tiny"
            assert engine.base_url == server.base_url
            assert engine.boot_facts() is None
            assert engine.jit_lines(0) == ()
            assert engine.alive()
        assert server.alive()
        with pytest.raises(EngineError, match="does not serve other"):
            other = fake_spec(style="attach", base_url=server.base_url, served_model="other")
            async with launched(other, bench.setting()):
                pytest.fail("attached")


async def test_attaching_to_nothing_says_what_to_do(bench: Bench) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(EngineError, match="no server answers") as caught:
        async with launched(fake_spec(style="attach", base_url=url), bench.setting()):
            pytest.fail("attached")

    assert "base_url" in (caught.value.hint or "")
