"""One keep-alive connection. A request leaves in one write; every read is stamped before anything else happens."""

from __future__ import annotations

import asyncio
import math
import select
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from harness.client.exchange import SocketExchange
from harness.client.framing import ReplyEnd
from harness.records.exchange import Ended

WRITE_STALLED = "the server took no byte of the request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for the peer. None waits for ever."""

    connect_s: float | None = None
    write_s: float | None = None  # without a byte leaving
    read_s: float | None = None  # between two reads


class Connection(asyncio.Protocol):
    """Carries one request at a time. ``now`` is the clock of all its stamps."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reads: list[tuple[float, bytes]] = []
        self._followed = 0  # of the reads: how many the framing has seen
        self._is_due = False  # to follow them, once all sockets that are ready have been read
        self._end: ReplyEnd | None = None  # None between requests
        self._outcome: asyncio.Future[tuple[Ended, str | None]] | None = None
        self._lost = asyncio.Event()
        self.exchanges = 0
        self.idle_since_s = now()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Stamp one read. What it means is looked at after the other sockets that are ready have been stamped too."""
        self._reads.append((self._now(), data))
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._follow)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange that was waiting, if any."""
        self._follow()
        self._transport = None
        self._lost.set()
        if exc is not None:
            self._settle(("reset", str(exc) or type(exc).__name__))
        elif self._end is not None and self._end.complete_at_eof:
            self._settle(("complete", None))
        else:
            self._settle(("eof", "the server closed the connection before the reply was complete"))

    @property
    def _has_unfollowed(self) -> bool:
        return self._followed < len(self._reads)

    def _follow(self) -> None:
        """Look for the end of the reply in the reads that have come."""
        self._is_due = False
        for _, data in self._reads[self._followed :]:
            self._followed += 1
            if self._end is None:
                self.abort()  # bytes that answer no request
            elif self._end.feed(data):
                broken = self._end.mode == "broken"
                self._settle(("protocol", "the reply is not HTTP/1") if broken else ("complete", None))

    # What the pool calls.

    @property
    def reusable(self) -> bool:
        """Open, idle, and with nothing unread: a peer that closed in the meantime shows here."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._end is not None or self._has_unfollowed:
            return False
        poller = select.poll()
        poller.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poller.poll(0)

    def abort(self) -> None:
        """Close at once, unsent bytes are dropped."""
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        """Close and let the event loop finish it. A request in flight ends as cancelled."""
        self._settle(("cancelled", "the client closed the connection"))
        self.abort()
        await self._lost.wait()

    async def exchange(
        self, message: bytes, *, method: str, patience: Patience, keep: Callable[[SocketExchange], None]
    ) -> SocketExchange:
        """Send ``message`` and wait until its reply is complete or will never be.

        Args:
            message: head and body of one request.
            method: its method.
            patience: ends the exchange as "timeout".
            keep: is given the exchange, also when this task is cancelled.

        Raises:
            ConnectionResetError: the connection was lost before anything was sent.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the connection was lost before the request was sent")
        self._follow()  # what came unasked
        if transport.is_closing():
            raise ConnectionResetError("the connection was lost before the request was sent")
        self._reads, self._followed = [], 0
        self._end, self._outcome = ReplyEnd(method=method), self._loop.create_future()
        ended: tuple[Ended, str | None] = ("cancelled", "the request was cancelled")
        sent_s = self._now()
        transport.write(message)
        watch = _Watch(self, transport, sent_s, patience)
        try:
            ended = await self._outcome
        finally:
            watch.stop()
            exchange = self._close_exchange(sent_s, ended, method)
            keep(exchange)
        return exchange

    def _close_exchange(self, sent_s: float, ended: tuple[Ended, str | None], method: str) -> SocketExchange:
        reads, end, surplus = self._reads, self._end, self._has_unfollowed
        now_s = self._now()
        self._reads, self._followed, self._end, self._outcome = [], 0, None, None
        self.exchanges += 1
        self.idle_since_s = now_s
        unsent = self._transport is not None and self._transport.get_write_buffer_size() > 0
        if ended[0] != "complete" or end is None or not end.reusable or unsent or surplus:
            self.abort()
        return SocketExchange(
            method=method,
            sent_s=sent_s,
            closed_s=reads[-1][0] if ended[0] == "complete" and reads else now_s,
            ended=ended[0],
            status=end.status if end is not None else None,
            reads=tuple(reads),
            detail=ended[1],
        )

    @property
    def last_read_s(self) -> float:
        """When the last read of this exchange came; minus infinity before the first."""
        return self._reads[-1][0] if self._reads else -math.inf

    def time_out(self, detail: str) -> None:
        """End the exchange that is waiting."""
        self._settle(("timeout", detail))

    def _settle(self, outcome: tuple[Ended, str | None]) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(outcome)


class _Watch:
    """Enforces write and read timeouts with one timer that looks back, so that a read costs nothing."""

    def __init__(self, connection: Connection, transport: asyncio.Transport, sent_s: float, patience: Patience) -> None:
        self._connection = connection
        self._transport = transport
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._progress_s = sent_s
        self._unsent_bytes = transport.get_write_buffer_size()
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        limit_s = self._patience.write_s if self._unsent_bytes else self._patience.read_s
        if limit_s is None and self._unsent_bytes:
            limit_s = self._patience.read_s
        self._timer = None
        if limit_s is not None:
            # At most a second while writing: how far a write got is only seen by looking.
            wait_s = min(limit_s, 1.0) if self._unsent_bytes else self._progress_s + limit_s - self._loop.time()
            self._timer = self._loop.call_later(max(wait_s, 0.001), self._look)

    def _look(self) -> None:
        now_s, unsent = self._loop.time(), self._transport.get_write_buffer_size()
        if unsent < self._unsent_bytes:
            self._progress_s = now_s
        self._progress_s = max(self._progress_s, self._connection.last_read_s)
        self._unsent_bytes = unsent
        limit_s = self._patience.write_s if unsent else self._patience.read_s
        if limit_s is not None and now_s - self._progress_s >= limit_s:
            verb = WRITE_STALLED if unsent else "no byte came"
            self._connection.time_out(f"{verb} for {limit_s:g} s")
            return
        self._arm()
