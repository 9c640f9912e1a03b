"""Virtual time: it jumps over waiting, and stands still for everything real."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.simulator.loop import VirtualClock, VirtualLoop, run_virtual
from tests.fakes.byte_server import byte_server, reply


def test_five_minutes_pass_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(282.0)
        return asyncio.get_running_loop().time()

    began_s = time.monotonic()
    assert run_virtual(main()) == 282.0
    assert time.monotonic() - began_s < 2.0


def test_timers_fire_in_their_order_at_their_own_times() -> None:
    async def main() -> list[tuple[str, float]]:
        loop, seen = asyncio.get_running_loop(), list[tuple[str, float]]()

        async def wait(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, loop.time()))

        await asyncio.gather(wait("c", 3.0), wait("a", 0.001), wait("b", 2.0))
        return seen

    assert run_virtual(main()) == [("a", 0.001), ("b", 2.0), ("c", 3.0)]


def test_a_timeout_fires_in_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600.0):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 600.0


def test_the_clock_stands_still_while_a_thread_works() -> None:
    async def main() -> tuple[float, list[str]]:
        ended: list[str] = []

        async def timer() -> None:
            await asyncio.sleep(0.001)
            ended.append("timer")

        async def thread() -> None:
            await asyncio.to_thread(time.sleep, 0.2)
            ended.append("thread")

        await asyncio.gather(timer(), thread())
        return asyncio.get_running_loop().time(), ended

    assert run_virtual(main()) == (0.001, ["thread", "timer"])


def test_the_clock_stands_still_while_a_subprocess_runs() -> None:
    async def main() -> tuple[float, bytes]:
        program = "import time; time.sleep(0.2); print('done')"
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
        output, _ = await asyncio.wait_for(process.communicate(), timeout=0.01)  # noqa: TID251 - nobody cancels it
        return asyncio.get_running_loop().time(), output

    assert run_virtual(main()) == (0.0, b"done\n")


def test_a_subprocess_without_pipes_is_waited_for_too() -> None:
    async def main() -> tuple[int, float]:
        process = await asyncio.create_subprocess_shell("sleep 0.2; exit 3")
        return await asyncio.wait_for(process.wait(), timeout=0.01), asyncio.get_running_loop().time()  # noqa: TID251 - nobody cancels it

    assert run_virtual(main()) == (3, 0.0)


def test_the_clock_stands_still_while_a_socket_is_open_and_a_listener_alone_does_not_hold_it() -> None:
    async def main() -> tuple[bytes, float, float]:
        loop = asyncio.get_running_loop()
        async with byte_server([reply(200, b"hello")]) as server:
            began_s = loop.time()
            await asyncio.sleep(100.0)  # nothing but the listener
            idle_s = loop.time() - began_s
            host, port = server.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(0.001):
                body = await reader.readuntil(b"hello")
            answered_s = loop.time() - began_s - idle_s
            writer.close()
        return body[-5:], idle_s, answered_s

    began_s = time.monotonic()
    assert run_virtual(main()) == (b"hello", 100.0, 0.0)
    assert time.monotonic() - began_s < 10.0


def test_what_is_held_from_outside_holds_the_clock() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        arrived = asyncio.Event()
        with loop.holding():
            threading.Timer(0.2, loop.call_soon_threadsafe, [arrived.set]).start()
            await asyncio.wait_for(arrived.wait(), timeout=0.001)  # noqa: TID251 - nobody cancels it
        return loop.time()

    assert run_virtual(main()) == 0.0


def test_something_real_that_hangs_does_not_stop_the_timer_that_guards_it() -> None:
    ours, theirs = socket.socketpair()

    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.add_reader(ours.fileno(), lambda: None)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), timeout=60.0)  # noqa: TID251 - nobody cancels it
        loop.remove_reader(ours.fileno())
        return loop.time()

    with ours, theirs, asyncio.Runner(loop_factory=lambda: VirtualLoop(patience_s=0.1)) as runner:
        assert runner.run(main()) == 60.0


def test_a_signal_is_heard_between_jumps() -> None:
    async def main() -> float:
        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, heard.set)
        loop.call_later(1.0, os.kill, os.getpid(), signal.SIGUSR1)
        while not heard.is_set():
            await asyncio.sleep(1.0)
        loop.remove_signal_handler(signal.SIGUSR1)
        return loop.time()

    assert run_virtual(main()) < 1000.0


def test_an_interrupt_ends_it() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(5.0, os.kill, os.getpid(), signal.SIGINT)
        while True:
            await asyncio.sleep(1.0)

    with pytest.raises(KeyboardInterrupt):
        run_virtual(main())


def test_files_written_in_between_cost_no_time(tmp_path: Path) -> None:
    async def main() -> float:
        for number in range(3):
            await asyncio.sleep(1.0)
            (tmp_path / str(number)).write_text("x" * 10_000)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 3.0


def test_stamps_are_a_fixed_date_plus_virtual_time() -> None:
    clock = VirtualClock()

    async def main() -> tuple[str, str, float]:
        before = clock.stamp()
        await clock.sleep(3725.4)
        return before, clock.stamp(), clock.now_s()

    assert clock.stamp() == "2026-01-01T00:00:00+00:00"
    assert run_virtual(main()) == ("2026-01-01T00:00:00+00:00", "2026-01-01T01:02:05+00:00", 3725.4)
