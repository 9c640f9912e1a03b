"""What every transport must do, checked against a real loopback server.

``PLAIN`` are httpx transports for requests of any kind: httpx's own is among them, so that the suite itself is right.
``MEASURING`` return an exchange for a deferred request, however it ended.
"""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx
import pytest

from harness.client.transport import StampedTransport
from harness.records.exchange import DEFERRED, EXCHANGE, GATE, Exchange
from tests.fakes.byte_server import ByteServer, Step, byte_server, chunk, chunked, reply

PLAIN = [StampedTransport, httpx.AsyncHTTPTransport]
MEASURING = [StampedTransport]
FIRST, SECOND = chunk(b"data: 1\n\n"), chunk(b"data: 2\n\n")
HEAD = chunked(end=False)

plain = pytest.mark.parametrize("make", PLAIN)
measuring = pytest.mark.parametrize("make", MEASURING)
Make = Callable[[], httpx.AsyncBaseTransport]


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` and demand that it leaves no task behind."""

    async def checked() -> None:
        await asyncio.wait_for(main, 20)  # noqa: TID251 - nobody cancels it
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    asyncio.run(checked())


async def measured(
    transport: httpx.AsyncBaseTransport, server: ByteServer, *, timeout: float = 5.0, body: bytes = b"{}"
) -> Exchange:
    extensions = {DEFERRED: True, "timeout": httpx.Timeout(timeout).as_dict()}
    request = httpx.Request("POST", f"{server.url}/v1/completions", content=body, extensions=extensions)
    response = await transport.handle_async_request(request)
    exchange: Exchange = response.extensions[EXCHANGE]
    kept: object = request.extensions[EXCHANGE]
    assert kept is exchange
    return exchange


def body_of(exchange: Exchange) -> bytes:
    return b"".join(read.data for read in exchange.body_reads())


# A plain httpx transport.


@plain
def test_a_request_arrives_whole_and_its_reply_comes_back(make: Make) -> None:
    async def main() -> None:
        async with byte_server([reply(201, b'{"a": 1}')]) as server, httpx.AsyncClient(transport=make()) as http:
            response = await http.post(f"{server.url}/x?y=%20z", json={"k": "ü"}, headers={"X-Key": "v"})
            assert response.status_code == 201
            assert response.headers["content-type"] == "application/json"
            assert response.json() == {"a": 1}
            request = server.requests[0]
            assert request.startswith(b"POST /x?y=%20z HTTP/1.1\r\n")
            assert b"\r\nx-key: v\r\n" in request.lower()
            assert request.endswith('\r\n\r\n{"k":"ü"}'.encode())

    run(main())


@plain
def test_every_framing_of_a_reply(make: Make) -> None:
    replies = [
        (chunked(b"ab", b"cd"), b"abcd"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + reply(200, b"x"), b"x"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", b"ok"),
    ]

    async def main() -> None:
        scripts: list[list[Step]] = [[data] for data, _ in replies]
        scripts.append([b"HTTP/1.1 200 OK\r\n\r\nuntil the end", "close"])
        async with byte_server(*scripts) as server, httpx.AsyncClient(transport=make()) as http:
            for _, body in replies:
                assert (await http.get(server.url)).content == body
            assert (await http.get(server.url)).content == b"until the end"

    run(main())


@plain
def test_a_reply_to_head_has_no_body(make: Make) -> None:
    async def main() -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n"
        async with byte_server([head]) as server, httpx.AsyncClient(transport=make()) as http:
            for _ in range(2):
                response = await http.head(server.url)
                assert (response.content, response.headers["content-length"]) == (b"", "10")

    run(main())


@plain
def test_a_streamed_upload_and_a_streamed_download(make: Make) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"cd"

    async def main() -> None:
        async with byte_server([chunked(b"1", b"2")]) as server, httpx.AsyncClient(transport=make()) as http:
            headers = {"content-length": "4"}
            async with http.stream("POST", server.url, content=parts(), headers=headers) as response:
                assert b"".join([data async for data in response.aiter_raw()]) == b"12"
            assert server.requests[0].endswith(b"\r\n\r\nabcd")

    run(main())


@plain
def test_a_compressed_reply_is_unpacked(make: Make) -> None:
    async def main() -> None:
        packed = gzip.compress(b"hello")
        head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
        async with byte_server([head + packed]) as server, httpx.AsyncClient(transport=make()) as http:
            assert (await http.get(server.url)).text == "hello"

    run(main())


@plain
def test_connections_are_used_again(make: Make) -> None:
    async def main() -> None:
        async with byte_server([reply(200, b"{}")]) as server, httpx.AsyncClient(transport=make()) as http:
            for _ in range(3):
                await http.get(server.url)
            assert (len(server.requests), server.connections) == (3, 1)
            await asyncio.gather(*(http.get(server.url) for _ in range(4)))
            assert server.connections <= 4

    run(main())


@plain
def test_a_connection_that_the_server_closed_is_not_used_again(make: Make) -> None:
    async def main() -> None:
        async with byte_server([reply(200, b"{}"), "close"]) as server, httpx.AsyncClient(transport=make()) as http:
            for expected in (1, 2):
                assert (await http.get(server.url)).status_code == 200
                await server.closed.wait()
                server.closed.clear()
                assert server.connections == expected

    run(main())


@plain
@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", "hang"], httpx.ReadTimeout),
        (["hang"], httpx.ReadTimeout),
        (["close"], httpx.RemoteProtocolError),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", "close"], httpx.RemoteProtocolError),
        ([HEAD + FIRST, "close"], httpx.RemoteProtocolError),
        ([b"SSH-2.0-x\r\n\r\n"], httpx.RemoteProtocolError),
        ([HEAD + b"zz\r\n", "close"], httpx.RemoteProtocolError),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", 0.05, "reset"], httpx.ReadError),
    ],
)
def test_failures_have_the_names_that_httpx_gives_them(
    make: Make, script: list[Any], kind: type[httpx.TransportError]
) -> None:
    async def main() -> None:
        async with byte_server(script) as server, httpx.AsyncClient(transport=make(), timeout=0.3) as http:
            with pytest.raises(kind):
                await http.get(server.url)

    run(main())


@plain
def test_nobody_listens(make: Make) -> None:
    async def main() -> None:
        async with byte_server([b""]) as server:
            url = server.url
        async with httpx.AsyncClient(transport=make()) as http:
            with pytest.raises(httpx.ConnectError):
                await http.get(url)
            with pytest.raises(httpx.UnsupportedProtocol):
                await http.get("ftp://127.0.0.1/")

    run(main())


@plain
def test_a_cancelled_request_closes_its_connection(make: Make) -> None:
    async def main() -> None:
        async with byte_server([HEAD + FIRST, "hang"]) as server, httpx.AsyncClient(transport=make()) as http:
            task = asyncio.create_task(http.get(server.url))
            while not server.requests:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())


# What ours adds.


def test_a_cancelled_request_hangs_up_at_once_and_keeps_what_came() -> None:
    async def main() -> None:
        transport = StampedTransport()
        async with byte_server([HEAD + FIRST, 30.0]) as server, transport:
            request = httpx.Request("POST", server.url, extensions={DEFERRED: True})
            task = asyncio.create_task(transport.handle_async_request(request))
            while not server.requests:
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            exchange: Exchange = request.extensions[EXCHANGE]
            assert exchange.ended == "cancelled"
            assert body_of(exchange) == b"data: 1\n\n"

    run(main())


@measuring
def test_a_deferred_reply_is_an_exchange_with_stamps(make: Make) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with byte_server([0.05, HEAD + FIRST, 0.05, SECOND, 0.05, b"0\r\n\r\n"]) as server, make() as transport:
            before_s = loop.time()
            exchange = await measured(transport, server)
            after_s = loop.time()
        assert (exchange.ended, exchange.status, exchange.detail) == ("complete", 200, None)
        stamps = [read.at_s for read in exchange.body_reads()]
        assert [read.data for read in exchange.body_reads()] == [b"data: 1\n\n", b"data: 2\n\n"]
        assert before_s <= exchange.sent_s < stamps[0] < stamps[1] < exchange.closed_s <= after_s
        assert stamps[0] - exchange.sent_s >= 0.045
        assert stamps[1] - stamps[0] >= 0.045
        assert exchange.closed_s - stamps[1] >= 0.045

    run(main())


@measuring
@pytest.mark.parametrize(
    ("script", "ended", "status", "body"),
    [
        ([HEAD + FIRST, "hang"], "timeout", 200, b"data: 1\n\n"),
        (["hang"], "timeout", None, b""),
        ([HEAD[:20], "hang"], "timeout", None, b""),
        ([HEAD + FIRST, "close"], "eof", 200, b"data: 1\n\n"),
        (["close"], "eof", None, b""),
        ([HEAD + FIRST, 0.05, "reset"], "reset", 200, b"data: 1\n\n"),
        ([HEAD + FIRST + b"zz\r\n"], "protocol", 200, b"data: 1\n\n"),
        ([b"SSH-2.0-x\r\n"], "protocol", None, b""),
        ([reply(400, b'{"error": {}}')], "complete", 400, b'{"error": {}}'),
        ([b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n", "close"], "complete", 200, b"data: 1\n\n"),
        ([HEAD + FIRST + b"0\r\n\r\n" + b"HTTP/1.1 500 Garbage\r\n\r\n"], "complete", 200, b"data: 1\n\n"),
    ],
)
def test_once_sent_a_failure_is_how_the_exchange_ended(
    make: Make, script: list[Any], ended: str, status: int | None, body: bytes
) -> None:
    async def main() -> None:
        async with byte_server(script) as server, make() as transport:
            exchange = await measured(transport, server, timeout=0.3)
        assert (exchange.ended, exchange.status, body_of(exchange)) == (ended, status, body)
        assert (exchange.detail is None) == (ended == "complete")

    run(main())


@measuring
def test_the_read_timeout_counts_from_the_last_read(make: Make) -> None:
    async def main() -> None:
        script = [HEAD, *[step for _ in range(4) for step in (0.2, FIRST)], b"0\r\n\r\n"]
        async with byte_server(script) as server, make() as transport:
            exchange = await measured(transport, server, timeout=0.4)
        assert exchange.ended == "complete"
        assert exchange.closed_s - exchange.sent_s >= 0.75

    run(main())


def test_a_server_that_reads_nothing_is_a_write_timeout() -> None:
    async def main() -> None:
        async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await stop.wait()
            writer.close()

        stop = asyncio.Event()
        server = await asyncio.start_server(ignore, "127.0.0.1", 0, limit=1024)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        timeout = httpx.Timeout(5.0, write=0.3)
        async with httpx.AsyncClient(transport=StampedTransport(), timeout=timeout) as http:
            with pytest.raises(httpx.WriteTimeout):
                await http.post(url, content=b"x" * 20_000_000)
        stop.set()
        server.close()
        await server.wait_closed()

    run(main())


def test_a_large_request_arrives_whole() -> None:
    async def main() -> None:
        body = bytes(range(256)) * 8000
        async with byte_server([reply(200, b"{}")]) as server, StampedTransport() as transport:
            exchange = await measured(transport, server, body=body)
            assert exchange.status == 200
            assert server.requests[0].endswith(body)

    run(main())


def test_prewarmed_connections_are_those_that_are_used() -> None:
    async def main() -> None:
        transport = StampedTransport()
        async with byte_server([reply(200, b"{}")]) as server, transport:
            await transport.prewarm(server.url, 5)
            await transport.prewarm(server.url, 5)
            await asyncio.gather(*(measured(transport, server) for _ in range(5)))
            assert (server.connections, len(server.requests)) == (5, 5)

    run(main())


def test_prewarm_says_when_nobody_listens() -> None:
    async def main() -> None:
        async with byte_server([b""]) as server:
            url = server.url
        async with StampedTransport() as transport:
            with pytest.raises(httpx.ConnectError, match=r"127\.0\.0\.1"):
                await transport.prewarm(url, 3)

    run(main())


def test_a_connection_that_was_idle_too_long_is_replaced() -> None:
    async def main() -> None:
        transport = StampedTransport(keepalive_s=0.0)
        async with byte_server([reply(200, b"{}")]) as server, transport:
            for expected in (1, 2):
                await measured(transport, server)
                assert server.connections == expected

    run(main())


def test_the_gate_is_the_last_thing_before_the_write() -> None:
    async def main() -> None:
        async with byte_server([reply(200, b"{}")]) as server, StampedTransport() as transport:
            opened, reached = asyncio.Event(), asyncio.Event()

            async def gate() -> None:
                reached.set()
                await opened.wait()

            request = httpx.Request("POST", server.url, content=b"{}", extensions={DEFERRED: True, GATE: gate})
            task = asyncio.create_task(transport.handle_async_request(request))
            await reached.wait()
            assert not server.requests
            opened_s = asyncio.get_running_loop().time()
            opened.set()
            await task
            assert request.extensions[EXCHANGE].sent_s >= opened_s

    run(main())


def test_a_header_with_a_line_break_is_refused() -> None:
    async def main() -> None:
        async with StampedTransport() as transport:
            request = httpx.Request("GET", "http://127.0.0.1:1", headers={"x": "a\r\ny: b"})
            with pytest.raises(httpx.LocalProtocolError):
                await transport.handle_async_request(request)

    run(main())


def test_closing_the_transport_closes_what_is_in_flight() -> None:
    async def main() -> None:
        transport = StampedTransport()
        async with byte_server([HEAD + FIRST, "hang"]) as server:
            task = asyncio.create_task(measured(transport, server))
            while not server.requests:
                await asyncio.sleep(0)
            await transport.aclose()
            assert (await task).ended == "cancelled"

    run(main())


def test_tls_is_asked_of_the_event_loop() -> None:
    async def main() -> None:
        # A server that speaks no TLS: the handshake fails, and says so as a connection error.
        async with byte_server([reply(200, b"{}")]) as server:
            transport = StampedTransport(ssl_context=ssl.create_default_context())
            async with httpx.AsyncClient(transport=transport, timeout=0.5) as http:
                with pytest.raises((httpx.ConnectError, httpx.ConnectTimeout)):
                    await http.get(server.url.replace("http:", "https:"))

    run(main())
