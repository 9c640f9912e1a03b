"""A server that passes each request on to another one and its reply back, byte by byte, and tells of both afterwards.

Nothing is held back or changed on the way but the Host field, which names the other server. What a reply was is worked
out after its last byte has gone to the client.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx

from harness.client.framing import ReplyEnd
from harness.errors import InputError

_READ_BYTES = 256 * 1024
_MOST_HEAD_BYTES = 64 * 1024
MOST_BODY_BYTES = 64 * 1024 * 1024  # of a request or reply that is kept; longer ones are passed on and not told of
_HEAD_END = b"\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The server that requests are passed on to."""

    host: str
    port: int
    tls: bool
    path: str  # before the path of each request; empty or with a leading slash

    @property
    def named(self) -> bytes:
        """As the Host field has it."""
        usual = 443 if self.tls else 80
        name = f"[{self.host}]" if ":" in self.host else self.host
        return (name if self.port == usual else f"{name}:{self.port}").encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Relayed:
    """One request that was passed on, and what came back. No headers: a key is among them."""

    method: str
    path: str  # without the query
    body: bytes | None = field(repr=False)  # None: too long to keep
    arrived_s: float  # on the loop's clock: the head was read
    reads: tuple[tuple[float, bytes], ...] = field(repr=False)  # of the reply; empty if it was too long to keep
    complete: bool


class _Head(NamedTuple):
    method: str
    target: str
    raw: bytes  # as it is passed on
    length: int
    chunked: bool
    waits: bool  # for a word that its body may come


def upstream_from(url: str) -> Upstream:
    """Return the server at a URL; a /v1 at its end is dropped, since clients send it. Raises InputError."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InputError(f"not a URL: {url}", where="--upstream") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InputError(f"not the URL of a server: {url}", where="--upstream", hint="As in http://127.0.0.1:8000.")
    tls = parsed.scheme == "https"
    path = parsed.path.rstrip("/").removesuffix("/v1")
    return Upstream(host=parsed.host, port=parsed.port or (443 if tls else 80), tls=tls, path=path)


class Relay:
    """Serves connections. ``on_relayed`` is told of each request once its reply has been passed on, or broke off."""

    def __init__(self, upstream: Upstream, on_relayed: Callable[[Relayed], Awaitable[None]]) -> None:
        self._upstream = upstream
        self._on_relayed = on_relayed
        self._tasks: set[asyncio.Task[None]] = set()
        self._telling: set[asyncio.Future[Any]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Start to serve and return the port. Raises OSError if it is taken."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_READ_BYTES)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def aclose(self) -> None:
        """Take no more connections, and end those that are open."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._telling:
            await asyncio.wait(self._telling)

    def _tell(self, relayed: Relayed) -> None:
        """Beside the connection, which may have its next request by now."""
        task = asyncio.ensure_future(self._on_relayed(relayed))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # a server's callback runs in one
        self._tasks.add(task)
        connection = _Connection(self._upstream, self._tell, reader, writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, ValueError):  # whoever closed, or sent no HTTP
                await connection.run()
        except asyncio.CancelledError:
            pass  # the relay closes
        finally:
            self._tasks.discard(task)
            connection.close()


class _Connection:
    """One client's connection, with one of its own to the upstream server."""

    def __init__(
        self,
        upstream: Upstream,
        tell: Callable[[Relayed], None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._upstream = upstream
        self._tell = tell
        self._client_reader, self._client = reader, writer
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._pending = b""  # read from the client, and not yet used
        self._watch: asyncio.Task[bytes] | None = None  # a read that waits for what the client does next

    async def run(self) -> None:
        """Pass on one request after the other, until one of the sides closes."""
        while (head := await self._head()) is not None:
            arrived_s = asyncio.get_running_loop().time()
            if not await self._connected():
                return
            body = await self._pass_request(head)
            end = ReplyEnd(method=head.method)
            reads: list[tuple[float, bytes]] = []
            try:
                kept = await self._pass_reply(end, reads)
            finally:
                complete = end.mode == "done" or (end.complete_at_eof and self._reader_at_end())
                self._tell(
                    Relayed(
                        method=head.method,
                        path=head.target.partition("?")[0],
                        body=body,
                        arrived_s=arrived_s,
                        reads=tuple(reads),
                        complete=complete,
                    )
                )
            if not end.reusable or not kept:
                return

    def close(self) -> None:
        """Close both sides."""
        if self._watch is not None:
            self._watch.cancel()
        for writer in (self._client, self._writer):
            if writer is not None:
                writer.close()

    async def _connected(self) -> bool:
        if self._writer is not None:
            return True
        upstream = self._upstream
        context = ssl.create_default_context() if upstream.tls else None
        try:
            self._reader, self._writer = await asyncio.open_connection(
                upstream.host, upstream.port, ssl=context, limit=_READ_BYTES
            )
        except OSError as error:
            said = f"the server behind this recorder does not answer: {error.strerror or error}".encode()
            self._client.write(
                b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: "
                + f"{len(said)}\r\n\r\n".encode()
                + said
            )
            await self._client.drain()
            return False
        return True

    async def _more(self) -> bytes:
        """Return what the client sends next; b"" at its end."""
        if self._pending:
            data, self._pending = self._pending, b""
            return data
        if self._watch is not None:
            watch, self._watch = self._watch, None
            return await watch
        return await self._client_reader.read(_READ_BYTES)

    async def _head(self) -> _Head | None:
        data = b""
        while _HEAD_END not in data:
            more = await self._more()
            if not more or len(data) > _MOST_HEAD_BYTES:
                return None
            data += more
        raw, _, self._pending = data.partition(_HEAD_END)
        head = self._read_head(raw)
        if head is None:
            self._client.write(_BAD_REQUEST)
            await self._client.drain()
        return head

    def _read_head(self, raw: bytes) -> _Head | None:
        first, _, rest = raw.partition(b"\r\n")
        words = first.split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return None
        fields, others = _fields(rest)
        length = fields.get(b"content-length", b"0")
        if not length.isdigit():
            return None
        method, target = words[0].decode("latin-1"), words[1].decode("latin-1")
        passed = [
            b" ".join((words[0], self._upstream.path.encode() + words[1], words[2])),
            b"host: " + self._upstream.named,
            *others,
        ]
        chunked = b"chunked" in fields.get(b"transfer-encoding", b"").lower()
        return _Head(method, target, b"\r\n".join(passed) + _HEAD_END, int(length), chunked, b"expect" in fields)

    async def _pass_request(self, head: _Head) -> bytes | None:
        assert self._writer is not None  # _connected made it
        self._writer.write(head.raw)
        if head.waits:
            self._client.write(_CONTINUE)
        if head.chunked:
            return await self._pass_chunks()
        left, kept = head.length, bytearray()
        while left > 0:
            data = await self._more()
            if not data:
                raise asyncio.IncompleteReadError(bytes(kept), head.length)
            data, self._pending = data[:left], data[left:]
            left -= len(data)
            if head.length <= MOST_BODY_BYTES:
                kept += data
            self._writer.write(data)
            await self._writer.drain()
        await self._writer.drain()
        return bytes(kept) if head.length <= MOST_BODY_BYTES else None

    async def _pass_chunks(self) -> bytes | None:
        """Pass a body on whose length nobody said, and return what is in its chunks."""
        assert self._writer is not None
        kept, buffer = bytearray(), b""
        while True:
            line, found, rest = buffer.partition(b"\r\n")
            size = int(line.split(b";")[0], 16) if found else -1
            if found and len(rest) >= size + 2:
                self._writer.write(line + b"\r\n" + rest[: size + 2])
                kept += rest[:size]
                buffer = rest[size + 2 :]
                if size == 0:
                    self._pending = buffer
                    await self._writer.drain()
                    return bytes(kept) if len(kept) <= MOST_BODY_BYTES else None
                continue
            more = await self._more()
            if not more:
                raise asyncio.IncompleteReadError(bytes(kept), None)
            buffer += more

    async def _pass_reply(self, end: ReplyEnd, reads: list[tuple[float, bytes]]) -> bool:
        """Pass a reply on and keep its reads. False where the server closed before its end."""
        assert self._reader is not None
        loop = asyncio.get_running_loop()
        size = 0
        while data := await self._reply_read(self._reader):
            self._client.write(data)
            complete = end.feed(data)
            size += len(data)
            if size <= MOST_BODY_BYTES:
                reads.append((loop.time(), data))
            else:
                reads.clear()
            await self._client.drain()
            if complete:
                return True
        return False

    async def _reply_read(self, reader: asyncio.StreamReader) -> bytes:
        """Return what the server sends next. A client that goes away takes its request with it."""
        reading = asyncio.ensure_future(reader.read(_READ_BYTES))
        try:
            while not reading.done():
                if self._watch is None and not self._pending:
                    self._watch = asyncio.ensure_future(self._client_reader.read(_READ_BYTES))
                waiting = {reading} if self._watch is None else {reading, self._watch}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if self._watch is not None and self._watch.done():
                    self._pending, self._watch = self._watch.result(), None
                    if not self._pending and not reading.done():
                        raise ConnectionResetError("the client went away")
            return reading.result()
        finally:
            reading.cancel()

    def _reader_at_end(self) -> bool:
        return self._reader is not None and self._reader.at_eof()


def _fields(rest: bytes) -> tuple[dict[bytes, bytes], list[bytes]]:
    """Return the fields of a head, and its lines without those that this relay answers for."""
    fields: dict[bytes, bytes] = {}
    others = []
    for line in rest.split(b"\r\n"):
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip()
        if line and name.strip().lower() not in (b"host", b"expect"):
            others.append(line)
    return fields, others
