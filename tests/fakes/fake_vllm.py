"""A real process that speaks vLLM's command line and HTTP, for tests that need an engine and not a model.

    python tests/fakes/fake_vllm.py --model NAME --port N [any option of `vllm serve`] [--fake KEY=VALUE ...]

It boots in a blink, says in its log what vLLM says, spawns an EngineCore that outlives a SIGKILL of its parent, counts
exactly what it serves, and steps at a known pace: every engine step takes step_a_ms + k * step_b_ms, plus what further
streams and prefill cost, and accepts drafts by a seeded curve. What else it can do, and do wrong, is listed in
fakevllm/options.py; keys come from ``--fake KEY=VALUE`` or from FAKE_VLLM="KEY=VALUE KEY=VALUE".
Standard library only, so that any interpreter runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

from fakevllm import bootlog
from fakevllm.engine import Engine
from fakevllm.options import Options, parse_options
from fakevllm.server import Server

CORE = "import signal\nwhile True: signal.pause()"


async def main() -> int:
    options = parse_options(sys.argv[1:], os.environ)
    bootlog.banner(options)
    if options.fault("die_at_boot"):
        await asyncio.sleep(options.number("slow_boot_s", 0.0))
        return bootlog.die(options)
    core = await spawn_core(options)
    try:
        await asyncio.sleep(options.number("slow_boot_s", 0.0))
        return await serve(options, core)
    finally:
        with contextlib.suppress(ProcessLookupError):
            core.kill()
        await core.wait()


async def spawn_core(options: Options) -> asyncio.subprocess.Process:
    """Start the EngineCore: a child that does not notice its parent's death."""
    environment = {} if options.fault("core_without_environment") else dict(os.environ)
    return await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-E", "-c", CORE, "VLLM::EngineCore", env=environment, stdin=asyncio.subprocess.DEVNULL
    )


async def serve(options: Options, core: asyncio.subprocess.Process) -> int:
    """Answer until a signal, or until the engine has been dead for a moment."""
    engine = Engine(options)
    server = Server(options, engine)
    try:
        await server.listen()
    except OSError as error:
        bootlog.port_taken(error)
        return 1
    bootlog.ready(options, core.pid)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if not options.fault("ignore_signals"):
            loop.add_signal_handler(number, stop.set)
        else:
            signal.signal(number, signal.SIG_IGN)
    tasks = [
        asyncio.create_task(engine.run()),
        asyncio.create_task(engine.die_with(core)),
        asyncio.create_task(engine.foreign_traffic()),
    ]
    waiting = [asyncio.create_task(stop.wait()), asyncio.create_task(engine.ended.wait())]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in (*tasks, *waiting):
        task.cancel()
    await asyncio.gather(*tasks, *waiting, return_exceptions=True)
    bootlog.shutdown()
    await server.close()
    return 1 if engine.dead else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
