"""The simulated engine on a real port: what only a socket can show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import h11
import pytest

from harness.errors import EngineError
from harness.simulator.faults import Faults
from harness.simulator.serve import ServeOptions, serve, serving
from harness.simulator.server import SimulatedServer
from tests.contract.engines import MODEL, simulated_loop

BODY = json.dumps({"model": MODEL, "prompt": "x" * 64, "max_tokens": 8, "ignore_eos": True, "stream": True}).encode()


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[tuple[SimulatedServer, int, list[str]]]:
    lines: list[str] = []
    asked = ServeOptions(**{"host": "127.0.0.1", "port": 0, "model": MODEL, **options})
    async with serving(simulated_loop("quiet"), asked, on_access=lines.append) as (server, port):
        yield server, port, lines


def post(body: bytes = BODY, *fields: str) -> bytes:
    head = [f"content-length: {len(body)}", "content-type: application/json", *fields]
    return "\r\n".join(["POST /v1/completions HTTP/1.1", "host: x", *head, "", ""]).encode() + body


async def exchanged(port: int, *parts: bytes, eof: bool = True) -> bytes:
    """Send the parts, and return everything that comes until the server closes or a pause of silence."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0.01)
    data = b""
    try:
        async with asyncio.timeout(5 if eof else 1.5):
            while piece := await reader.read(65536):
                data += piece
    except TimeoutError:
        assert not eof, data
    writer.close()
    return data


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 30))  # noqa: TID251 - nobody cancels it


def test_a_request_in_pieces_and_one_sent_ahead_are_both_answered() -> None:
    async def main() -> None:
        async with opened() as (_, port, lines):
            whole = post()
            last = post(BODY, "connection: close")
            data = await exchanged(port, whole[:10], whole[10:90], whole[90:] + whole, last)
        assert data.count(b"HTTP/1.1 200 OK\r\n") == data.count(b"data: [DONE]\n\n") == 3
        assert len(lines) == 3

    run(main())


def test_chunked_bodies_and_those_that_wait_for_leave() -> None:
    async def main() -> None:
        head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
        chunked = b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
        async with opened() as (_, port, _):
            assert b"data: [DONE]" in await exchanged(port, head + chunked)
            waiting = head + b"content-length: %d\r\nexpect: 100-continue\r\n\r\n" % len(BODY)
            data = await exchanged(port, waiting, BODY)
        assert data.startswith(b"HTTP/1.1 100")
        assert b"data: [DONE]" in data

    run(main())


@pytest.mark.parametrize("rubbish", [b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nx y\r\n\r\n"])
def test_what_is_not_http_is_refused_and_harms_nobody(rubbish: bytes) -> None:
    async def main() -> None:
        async with opened() as (_, port, _):
            assert (await exchanged(port, rubbish)).startswith(b"HTTP/1.1 400 Bad Request\r\n")
            assert b"data: [DONE]" in await exchanged(port, post(BODY, "connection: close"))

    run(main())


def test_an_http_1_0_client_gets_a_reply_that_ends_with_the_connection() -> None:
    async def main() -> None:
        async with opened() as (_, port, _):
            data = await exchanged(port, b"GET /health HTTP/1.0\r\n\r\n")
        assert data.startswith(b"HTTP/1.1 200 OK\r\n")

    run(main())


def test_each_step_is_a_chunk_of_its_own_as_it_comes() -> None:
    async def main() -> None:
        async with opened() as (_, port, _):
            data = await exchanged(port, post(BODY, "connection: close"))
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
        client.send(h11.EndOfMessage())
        client.receive_data(data)
        chunks = []
        while not isinstance(event := client.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                chunks.append(bytes(event.data))
        assert len(chunks) >= 3
        assert all(chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") for chunk in chunks)

    run(main())


def test_a_client_that_hangs_up_frees_its_seat() -> None:
    async def main() -> None:
        async with opened() as (server, port, _):
            body = json.dumps({**json.loads(BODY), "max_tokens": 4000}).encode()
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(post(body))
            while not server.simulation.pump.engine.busy:
                await asyncio.sleep(0.01)
            writer.close()
            while server.simulation.pump.engine.running:
                await asyncio.sleep(0.01)
            assert server.simulation.pump.engine.counters.finished["length"] == 0

    run(main())


def test_closing_lets_a_request_end_within_its_grace() -> None:
    async def main() -> None:
        async with opened() as (server, port, _):
            slow = json.dumps({**json.loads(BODY), "max_tokens": 60}).encode()
            request = asyncio.create_task(exchanged(port, post(slow)))
            while not server.simulation.pump.engine.busy:
                await asyncio.sleep(0.005)
            await server.close(grace_s=5.0)
            assert b"data: [DONE]" in await request
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", port)

    run(main())


def test_a_port_that_is_taken_is_named() -> None:
    async def main() -> None:
        async with opened() as (_, port, _):
            with pytest.raises(EngineError, match="cannot listen") as caught:
                async with opened(port=port):
                    pass
        assert caught.value.where == f"127.0.0.1:{port}"

    run(main())


def test_an_engine_that_dies_ends_the_service() -> None:
    async def main() -> None:
        engine = simulated_loop("quiet")
        engine.scenario = replace(engine.scenario, faults=Faults(engine_dies_after_s=0.1))
        ports: list[int] = []
        options = ServeOptions(host="127.0.0.1", port=0, model=MODEL)
        service = asyncio.create_task(serve(engine, options, on_ready=ports.append, on_access=lambda line: None))
        while not ports:
            await asyncio.sleep(0.01)
        body = json.dumps({**json.loads(BODY), "max_tokens": 4000}).encode()
        assert b"EngineCore encountered an issue" in await exchanged(ports[0], post(body))
        with pytest.raises(EngineError, match="the engine died"):
            await service
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", ports[0])

    run(main())
