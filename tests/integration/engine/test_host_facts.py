"""Facts and samples of nodes, through real shells and a stand-in nvidia-smi."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harness.engine.clock import SystemClock
from harness.engine.pair.host_facts import read_hosts, sampling
from harness.engine.pair.node import Node
from harness.engine.shell import LocalShell
from harness.engine.ssh import SshShell
from harness.records.host import NodeSample
from tests.fakes.host_programs import GB10, bring_up, take_down, write_nvidia_smi, write_program, write_ssh

LIMIT_S = 30.0
HEAD = Node(role="head", name="this machine", shell=LocalShell(), is_local=True)
WORKER = Node(role="worker", name="spark-b", shell=SshShell(target="spark-b"), is_local=False)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first on PATH, with nvidia-smi and ssh."""
    folder = tmp_path / "bin"
    folder.mkdir()
    write_nvidia_smi(folder)
    write_ssh(folder)
    write_program(folder, "docker", '#!/bin/sh\n[ "$1" = ps ] && exit 0\nexit 1\n')
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.02)


def of(samples: list[NodeSample], node: str) -> list[NodeSample]:
    return [sample for sample in samples if sample.node == node]


def test_facts_of_both_nodes(programs: Path) -> None:
    head, worker = asyncio.run(read_hosts((HEAD, WORKER), SystemClock()))

    assert (head.node, worker.node) == ("head", "worker")
    for facts in (head, worker):
        assert (facts.gpu_name, facts.driver_version, facts.power_w) == ("NVIDIA GB10", "580.95.05", 38.2)
        assert facts.throttle_reasons == ()
        assert facts.uptime_s and facts.kernel and facts.memory_available_bytes
        assert set(facts.null_reasons) <= {"memory_clock_mhz", "power_limit_w", "firmware_version"}
        assert facts.images == {}


def test_fields_that_an_older_driver_does_not_know_lose_no_others(programs: Path) -> None:
    write_nvidia_smi(programs, {name: value for name, value in GB10.items() if name != "clocks_event_reasons.active"})
    (old,) = asyncio.run(read_hosts((HEAD,), SystemClock()))
    write_nvidia_smi(programs, {"name": "NVIDIA GB10", "temperature.gpu": "44"})
    (older,) = asyncio.run(read_hosts((WORKER,), SystemClock()))

    assert (old.throttle_reasons, old.power_state) == ((), "P0")
    assert (older.gpu_name, older.temperature_c, older.power_w) == ("NVIDIA GB10", 44.0, None)
    assert "not a valid field" in older.null_reasons["power_w"]


def test_a_node_that_is_down_costs_only_its_own_facts(programs: Path) -> None:
    take_down(programs, "spark-b", "ssh: connect to host spark-b port 22: No route to host")

    head, worker = asyncio.run(read_hosts((HEAD, WORKER), SystemClock()))

    assert head.power_w == 38.2
    assert worker.power_w is None
    assert "No route to host" in worker.null_reasons["power_w"]


def test_docker_that_does_not_answer_is_a_reason(programs: Path) -> None:
    write_program(programs, "docker", "#!/bin/sh\necho 'permission denied' >&2\nexit 1\n")

    (facts,) = asyncio.run(read_hosts((HEAD,), SystemClock()))

    assert facts.images == {}
    assert "permission denied" in facts.null_reasons["images"]


def test_samples_follow_what_the_nodes_do(programs: Path) -> None:
    async def watch() -> list[NodeSample]:
        async with sampling((HEAD, WORKER), SystemClock(), every_s=0.05) as samples:
            await until(lambda: len(of(samples, "head")) > 1 and len(of(samples, "worker")) > 1)
            hot = {"clocks_event_reasons.active": "0x0000000000000020", "temperature.gpu": "93", "clocks.sm": "1410"}
            write_nvidia_smi(programs, {**GB10, **hot})  # one answer after the other: a sample may have some of them
            seen = len(of(samples, "worker"))
            await until(lambda: len(of(samples, "worker")) > seen + 1)
        return samples

    samples = asyncio.run(watch())

    first, last = of(samples, "worker")[0], of(samples, "worker")[-1]
    assert (first.sm_clock_mhz, first.temperature_c, first.faults, first.is_busy) == (2411.0, 61.0, (), True)
    assert (last.sm_clock_mhz, last.temperature_c, last.faults) == (1410.0, 93.0, ("sw_thermal_slowdown",))
    assert all(sample.memory_available_bytes for sample in samples)
    assert [sample.at for sample in samples] == sorted(sample.at for sample in samples)


def test_a_node_that_goes_down_is_a_gap_with_its_reason_and_comes_back(programs: Path) -> None:
    async def watch() -> list[NodeSample]:
        take_down(programs, "spark-b", "ssh: connect to host spark-b port 22: Connection refused")
        async with sampling((HEAD, WORKER), SystemClock(), every_s=0.05, retry_s=0.05) as samples:
            await until(lambda: any(sample.gap for sample in of(samples, "worker")))
            bring_up(programs, "spark-b")
            await until(lambda: any(sample.sm_clock_mhz for sample in of(samples, "worker")))
            await until(lambda: any(sample.sm_clock_mhz for sample in of(samples, "head")))
        return samples

    samples = asyncio.run(watch())

    assert of(samples, "worker")[0].gap == "ssh: connect to host spark-b port 22: Connection refused"
    assert not [sample.gap for sample in of(samples, "head") if sample.gap]


def test_a_node_without_nvidia_smi_still_says_its_memory(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = programs.parent / "bare"
    bare.mkdir()
    for name in ("sh", "nice", "grep", "sleep", "head"):
        found = next(Path(each, name) for each in ("/usr/bin", "/bin") if Path(each, name).exists())
        (bare / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(bare))

    async def watch() -> list[NodeSample]:
        async with sampling((HEAD,), SystemClock(), every_s=0.05) as samples:
            await until(lambda: len(samples) > 1)
        return samples

    samples = asyncio.run(watch())

    assert all(sample.memory_available_bytes for sample in samples)
    assert {sample.null_reasons["power_w"] for sample in samples} == {"there is no nvidia-smi"}


def test_nothing_is_left_behind(programs: Path) -> None:
    mark = f"harness-test-{os.getpid()}"
    write_program(programs, "nice", f'#!/bin/sh\nMARK={mark}; export MARK\nshift 2\nexec "$@"\n')

    async def watch() -> int:
        async with sampling((HEAD, WORKER), SystemClock(), every_s=0.05) as samples:
            await until(lambda: len(of(samples, "worker")) > 0 and len(of(samples, "head")) > 0)
            seen = len(marked(mark))
        await until(lambda: not marked(mark))
        return seen

    assert asyncio.run(watch()) >= 2


def marked(mark: str) -> list[int]:
    """Processes that carry the mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("MARK") == mark:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def test_a_cancelled_measurement_ends_the_sampling(programs: Path) -> None:
    async def measure(samples: list[NodeSample]) -> None:
        async with sampling((HEAD,), SystemClock(), every_s=0.05) as taken:
            await until(lambda: bool(taken))
            samples.extend(taken)
            await asyncio.Event().wait()

    async def interrupt() -> list[NodeSample]:
        samples: list[NodeSample] = []
        task = asyncio.create_task(measure(samples))
        await until(lambda: bool(samples))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return samples

    assert asyncio.run(interrupt())
