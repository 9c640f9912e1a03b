"""A server on loopback that answers with the bytes it was given, whatever they are."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

Step = bytes | float | Literal["reset", "close", "hang"]
_ABORTIVE_CLOSE = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class ByteServer:
    """One script per request, in order; the last one is used again. A float is a pause in seconds."""

    scripts: Sequence[Sequence[Step]]
    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)  # a client hung up, or was sent away


@asynccontextmanager
async def byte_server(*scripts: Sequence[Step]) -> AsyncIterator[ByteServer]:
    """Serve ``scripts`` while the context is open."""
    state = ByteServer(scripts)
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        state.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                script = state.scripts[min(len(state.requests), len(state.scripts) - 1)]
                state.requests.append(request)
                if not await _play(script, writer):
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            state.closed.set()
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    state.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield state
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader) -> bytes | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    return head + await reader.readexactly(length)


async def _play(script: Sequence[Step], writer: asyncio.StreamWriter) -> bool:
    """False once the connection is not to be used any more."""
    for step in script:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
        elif isinstance(step, float):
            await asyncio.sleep(step)
        elif step == "hang":
            await asyncio.Event().wait()
        else:
            if step == "reset":
                sock: socket.socket = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTIVE_CLOSE)
            return False
    return True


def reply(status: int, body: bytes, *, kind: str = "application/json") -> bytes:
    """Return a whole reply with a length."""
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def chunked(*events: bytes, end: bool = True) -> bytes:
    """Return a whole streamed reply, one chunk an event."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"".join(chunk(event) for event in events) + (b"0\r\n\r\n" if end else b"")


def chunk(event: bytes) -> bytes:
    """Return one chunk."""
    return b"%x\r\n%s\r\n" % (len(event), event)
