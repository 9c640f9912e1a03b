"""One HTTP exchange as a transport saw it. Here because the socket client and a simulated engine both produce it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

# Keys of httpx request extensions: what a measured request asks of any transport, and how it gives back the exchange.
DEFERRED, GATE, EXCHANGE = "deferred", "gate", "exchange"

Ended = Literal["complete", "eof", "reset", "timeout", "protocol", "cancelled"]
# complete: the message ended as its framing says. eof: the peer closed before that. protocol: not HTTP.


class BodyRead(NamedTuple):
    """Body bytes without transfer framing, and when the read that brought them returned."""

    at_s: float  # monotonic, the clock of the event loop
    data: bytes


class Exchange(Protocol):
    """A request that was sent and what came back, however it ended. Times are those of the event loop."""

    @property
    def sent_s(self) -> float:
        """When the request was handed to the socket."""

    @property
    def closed_s(self) -> float:
        """When the last byte arrived, or when the exchange was given up."""

    @property
    def status(self) -> int | None:
        """The HTTP status; None where no status line arrived."""

    @property
    def ended(self) -> Ended:
        """How it ended."""

    @property
    def detail(self) -> str | None:
        """Why it did not end as complete, in words."""

    def body_reads(self) -> Sequence[BodyRead]:
        """The body in the order of its arrival. May parse, so it is called after the measured window."""
