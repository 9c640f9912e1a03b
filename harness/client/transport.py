"""An httpx transport whose stamps are taken at the socket: right before the write, and first thing after each read.

A measured request sets ``request.extensions["deferred"]``: the call returns when the whole reply has arrived, nothing
is parsed, and ``response.extensions["exchange"]`` holds the raw reads. Once such a request has been sent, a timeout, a
reset or an early end is no exception but how the exchange ended, so that a partial stream stays a fact. The exchange is
in ``request.extensions["exchange"]`` too, also where the request was cancelled. Any other request sees a plain httpx
transport that buffers the reply.

``request.extensions["gate"]``, a function without arguments that returns an awaitable, is awaited when everything is
ready for the write: it lets many requests start together.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import NoReturn

import httpx

from harness.client.connection import WRITE_STALLED, Connection, Patience
from harness.client.exchange import SocketExchange
from harness.records.exchange import DEFERRED, EXCHANGE, GATE

_OPENING_AT_ONCE = 64  # below the listen backlog of common servers
_NO_STATUS = 0  # httpx has no response without a status; the exchange says None
_LENGTH_FIELDS = (b"content-length", b"transfer-encoding")
_METHODS_WITH_BODY = ("POST", "PUT", "PATCH")
_LINE_BREAK = re.compile(rb"[\r\n\0]")
_HTTPS_PORT, _HTTP_PORT = 443, 80

_Origin = tuple[str, str, int]


class StampedTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 over keep-alive connections, one request in flight on each, as many as there are requests."""

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext | None = None,
        keepalive_s: float = 2.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a transport for the running event loop.

        Args:
            ssl_context: for https; by default certificates are verified.
            keepalive_s: a used connection that was idle for longer is not trusted: servers close theirs after 5 s.
            now: the clock of the stamps; the same as ``loop.time``.
        """
        self._ssl_context = ssl_context
        self._keepalive_s = keepalive_s
        self._now = now
        self._idle: defaultdict[_Origin, list[Connection]] = defaultdict(list)
        self._busy: set[Connection] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and return when its reply is complete."""
        message = _serialise(request, await request.aread())
        patience = _patience(request)
        connection = await self._acquire(request, patience)
        try:
            gate = request.extensions.get(GATE)
            if gate is not None:
                await gate()
            exchange = await self._exchange(connection, request, message, patience)
        finally:
            self._release(connection, request)
        return _deferred_response(exchange) if request.extensions.get(DEFERRED) else _response(exchange, request)

    async def prewarm(self, url: str | httpx.URL, connections: int) -> None:
        """Open connections until ``connections`` of them are idle. Raises httpx.ConnectError or ConnectTimeout."""
        request = httpx.Request("GET", url)
        origin = _origin(request.url)
        self._idle[origin] = [each for each in self._idle[origin] if self._trusted(each)]
        slots = asyncio.Semaphore(_OPENING_AT_ONCE)

        async def open_one() -> None:
            async with slots:
                self._idle[origin].append(await self._open(request, Patience(connect_s=10.0)))

        missing = connections - len(self._idle[origin])
        results = await asyncio.gather(*(open_one() for _ in range(missing)), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            raise failures[0]

    async def aclose(self) -> None:
        """Close every connection, idle or not."""
        connections = [*self._busy, *(each for idle in self._idle.values() for each in idle)]
        self._idle.clear()
        for connection in connections:
            await connection.closed()

    async def _exchange(
        self, connection: Connection, request: httpx.Request, message: bytes, patience: Patience
    ) -> SocketExchange:
        def keep(exchange: SocketExchange) -> None:
            request.extensions[EXCHANGE] = exchange

        try:
            return await connection.exchange(message, method=request.method, patience=patience, keep=keep)
        except ConnectionResetError as failure:
            raise httpx.WriteError(str(failure), request=request) from failure

    async def _acquire(self, request: httpx.Request, patience: Patience) -> Connection:
        idle = self._idle[_origin(request.url)]
        while idle:
            connection = idle.pop()
            if self._trusted(connection):
                break
            connection.abort()
        else:
            connection = await self._open(request, patience)
        self._busy.add(connection)
        return connection

    def _trusted(self, connection: Connection) -> bool:
        fresh = connection.exchanges == 0 or self._now() - connection.idle_since_s < self._keepalive_s
        return fresh and connection.reusable

    def _release(self, connection: Connection, request: httpx.Request) -> None:
        self._busy.discard(connection)
        if connection.reusable:
            self._idle[_origin(request.url)].append(connection)
        else:
            connection.abort()

    async def _open(self, request: httpx.Request, patience: Patience) -> Connection:
        scheme, host, port = _origin(request.url)
        context = self._tls() if scheme == "https" else None
        try:
            async with asyncio.timeout(patience.connect_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._now),
                    host,
                    port,
                    ssl=context,
                    server_hostname=host if context else None,
                )
        except TimeoutError as failure:
            what = f"no connection to {host}:{port} within {patience.connect_s:g} s"
            raise httpx.ConnectTimeout(what, request=request) from failure
        except OSError as failure:
            raise httpx.ConnectError(f"{host}:{port}: {failure}", request=request) from failure
        return connection

    def _tls(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            self._ssl_context = httpx.create_ssl_context()
        return self._ssl_context


class _LateBody(httpx.AsyncByteStream):
    """The body of a deferred reply, parsed only if somebody reads it."""

    def __init__(self, exchange: SocketExchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for read in self._exchange.body_reads():
            yield read.data


def _origin(url: httpx.URL) -> _Origin:
    if url.scheme not in ("http", "https"):
        raise httpx.UnsupportedProtocol(f"only http and https, not {url.scheme!r}")
    return url.scheme, url.host, url.port or (_HTTPS_PORT if url.scheme == "https" else _HTTP_PORT)


def _patience(request: httpx.Request) -> Patience:
    timeout = request.extensions.get("timeout", {})
    return Patience(connect_s=timeout.get("connect"), write_s=timeout.get("write"), read_s=timeout.get("read"))


def _serialise(request: httpx.Request, body: bytes) -> bytes:
    """The whole request as it goes over the wire. The body is known, so it has a length whatever its stream had."""
    target = request.url.raw_path
    fields = [(name, value) for name, value in request.headers.raw if name.lower() not in _LENGTH_FIELDS]
    if body or request.method in _METHODS_WITH_BODY:
        fields.append((b"Content-Length", b"%d" % len(body)))
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), target)]
    lines += [b"%s: %s" % field for field in fields]
    if any(_LINE_BREAK.search(line) for line in lines):
        raise httpx.LocalProtocolError("a header of the request has a line break in it", request=request)
    return b"\r\n".join([*lines, b"", body])


def _deferred_response(exchange: SocketExchange) -> httpx.Response:
    status = _NO_STATUS if exchange.status is None else exchange.status
    return httpx.Response(status, stream=_LateBody(exchange), extensions={EXCHANGE: exchange})


def _response(exchange: SocketExchange, request: httpx.Request) -> httpx.Response:
    reply = exchange.reply
    if exchange.ended != "complete":
        _raise(exchange, request)
    if reply.status is None or reply.problem is not None:
        raise httpx.RemoteProtocolError(reply.problem or "no HTTP reply", request=request)
    stream = httpx.ByteStream(exchange.body)
    return httpx.Response(reply.status, headers=list(reply.headers), stream=stream, extensions={EXCHANGE: exchange})


def _raise(exchange: SocketExchange, request: httpx.Request) -> NoReturn:
    what = exchange.detail or exchange.ended
    if exchange.ended == "timeout":
        kind = httpx.WriteTimeout if what.startswith(WRITE_STALLED) else httpx.ReadTimeout
        raise kind(what, request=request)
    if exchange.ended == "reset":
        raise httpx.ReadError(what, request=request)
    raise httpx.RemoteProtocolError(what, request=request)
