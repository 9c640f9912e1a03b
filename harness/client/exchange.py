"""Raw reads of one reply, and the parsed reply that h11 finds in them once nobody is waiting for the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import h11

from harness.records.exchange import BodyRead, Ended

_MAX_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """What is in the bytes: as much of the reply as arrived."""

    status: int | None
    headers: tuple[tuple[bytes, bytes], ...]
    body: tuple[BodyRead, ...]
    problem: str | None  # where the bytes stop being HTTP


@dataclass(frozen=True, kw_only=True)
class SocketExchange:
    """The bytes of one reply as they came from the socket, each read with its stamp. An ``Exchange``."""

    method: str
    sent_s: float
    closed_s: float
    ended: Ended
    status: int | None
    reads: tuple[tuple[float, bytes], ...]
    detail: str | None = None

    @cached_property
    def reply(self) -> ParsedReply:
        """The parsed reply; the first access pays for the parsing."""
        return parse_reply(self.reads, method=self.method, closed=self.ended in ("complete", "eof"))

    def body_reads(self) -> Sequence[BodyRead]:
        """The body without its chunk framing, one piece per read and chunk."""
        return self.reply.body

    @property
    def body(self) -> bytes:
        """The whole body as far as it arrived."""
        return b"".join(read.data for read in self.reply.body)


def parse_reply(reads: Sequence[tuple[float, bytes]], *, method: str, closed: bool) -> ParsedReply:
    """Return the reply in ``reads``; each piece of body keeps the stamp of the read that brought it.

    Args:
        reads: arrival time and bytes, in order.
        method: of the request; HEAD has replies without body.
        closed: nothing follows, so a body without framing is complete.
    """
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
    connection.send(h11.Request(method=method, target="/", headers=[("host", "reply")]))
    connection.send(h11.EndOfMessage())
    reply = _Reply()
    try:
        for at_s, data in reads:
            connection.receive_data(data)
            if _drain(connection, reply, at_s):
                break
        else:
            if closed and reads and reply.until_close:
                connection.receive_data(b"")
                _drain(connection, reply, reads[-1][0])
    except h11.RemoteProtocolError as failure:
        reply.problem = str(failure)
    return ParsedReply(status=reply.status, headers=tuple(reply.headers), body=tuple(reply.body), problem=reply.problem)


class _Reply:
    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        self.body: list[BodyRead] = []
        self.problem: str | None = None

    @property
    def until_close(self) -> bool:
        names = {name for name, _ in self.headers}
        return not names & {b"content-length", b"transfer-encoding"}


def _drain(connection: h11.Connection, reply: _Reply, at_s: float) -> bool:
    """Take what one read completed. True at the end of the message."""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA or event is h11.PAUSED:
            return False
        if isinstance(event, h11.Response):
            reply.status, reply.headers = event.status_code, list(event.headers)
        elif isinstance(event, h11.Data):
            reply.body.append(BodyRead(at_s, bytes(event.data)))
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return True
