"""The simulated engine behind httpx, in the process and on the event loop of its client: an AsyncBaseTransport.

On a virtual loop a 282 s time to first token passes in milliseconds, and every timeout fires in virtual time. It keeps
the promises of the socket transport for measured requests: the "deferred" and "gate" extensions, an exchange with
stamps, and failures after the send as how the exchange ended. A network takes no time here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn

import httpx

from harness.records.exchange import DEFERRED, EXCHANGE, GATE, BodyRead, Ended
from harness.simulator.front import EVENTS, JSON, Call, Front, Generation, Plain
from harness.simulator.pump import Pump
from harness.simulator.replies import ENGINE_DEAD, Reply, compact, error_tree
from harness.simulator.request import Batch, Job

Link = Literal["up", "refused", "silent"]  # silent: nobody says that nobody listens


@dataclass(slots=True, kw_only=True)
class Simulation:
    """A simulated server as its clients reach it."""

    front: Front
    pump: Pump
    link: Link = "up"


class SimulatedTransport(httpx.AsyncBaseTransport):
    """Carries any number of requests to one simulation, whatever host their addresses name."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._in_flight: set[_Conversation] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and return when its reply is complete."""
        body = await request.aread()
        timeout = request.extensions.get("timeout", {})
        await self._connect(request, timeout.get("connect"))
        gate = request.extensions.get(GATE)
        if gate is not None:
            await gate()
        self._require_link(request)  # it may have gone while the gate was closed
        conversation = _Conversation(self._simulation, request, body, read_timeout_s=timeout.get("read"))
        self._in_flight.add(conversation)
        try:
            exchange = await conversation.ended()
        finally:
            self._in_flight.discard(conversation)
        return _deferred(exchange) if request.extensions.get(DEFERRED) else _response(exchange, request)

    async def prewarm(self, url: str | httpx.URL, connections: int) -> None:
        """Raise httpx.ConnectError or ConnectTimeout where no connection could be made; else do nothing."""
        await self._connect(httpx.Request("GET", url), 10.0)

    async def aclose(self) -> None:
        """End what is in flight as cancelled."""
        for conversation in tuple(self._in_flight):
            conversation.close()
        await asyncio.sleep(0)

    async def _connect(self, request: httpx.Request, timeout_s: float | None) -> None:
        if request.url.scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(f"only http and https, not {request.url.scheme!r}")
        if self._simulation.link == "silent":
            try:
                async with asyncio.timeout(timeout_s):
                    await asyncio.Event().wait()
            except TimeoutError as failure:
                what = f"no connection to {request.url.host} within {timeout_s:g} s"
                raise httpx.ConnectTimeout(what, request=request) from failure
        self._require_link(request)

    def _require_link(self, request: httpx.Request) -> None:
        if self._simulation.link != "up":
            raise httpx.ConnectError(f"{request.url.host}: connection refused", request=request)


@dataclass(frozen=True, kw_only=True)
class SimulatedExchange:
    """An ``Exchange`` whose bytes are only written where somebody reads them."""

    sent_s: float
    closed_s: float
    ended: Ended
    status: int | None
    headers: tuple[tuple[str, str], ...]
    reads: tuple[tuple[float, bytes | Batch], ...]
    reply: Reply | None  # of a generation; writes its batches
    detail: str | None = None

    def body_reads(self) -> Sequence[BodyRead]:
        """The body, one piece per engine step."""
        return self._body

    @cached_property
    def _body(self) -> tuple[BodyRead, ...]:
        return tuple(BodyRead(at_s, self._written(part)) for at_s, part in self.reads)

    def _written(self, part: bytes | Batch) -> bytes:
        if isinstance(part, bytes):
            return part
        assert self.reply is not None  # only a generation has batches
        return self.reply.events(part)


class _Conversation:
    """One request and its reply, on their way."""

    def __init__(
        self, simulation: Simulation, request: httpx.Request, body: bytes, *, read_timeout_s: float | None
    ) -> None:
        self._simulation = simulation
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._patience_s = read_timeout_s
        self._sent_s = self._last_s = self._loop.time()
        self._outcome: asyncio.Future[tuple[Ended, str | None]] = self._loop.create_future()
        self._reads: list[tuple[float, bytes | Batch]] = []
        self._status: int | None = None
        self._headers: tuple[tuple[str, str], ...] = ()
        self._job: Job | None = None
        self._reply: Reply | None = None
        self._stream = False
        self._timer: asyncio.TimerHandle | None = None
        self._start(Call(method=request.method, path=request.url.path, headers=_lower(request), body=body))

    async def ended(self) -> SimulatedExchange:
        """Wait for the end, leave the exchange with the request, and return it."""
        ended: tuple[Ended, str | None] = ("cancelled", "the request was cancelled")
        try:
            self._arm()
            ended = await self._outcome
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._job is not None:
                self._simulation.pump.abort(self._job)
            exchange = self._exchange(*ended)
            self._request.extensions[EXCHANGE] = exchange
        return exchange

    def close(self) -> None:
        """The client closes the connection."""
        self._settle("cancelled", "the client closed the connection")

    def _start(self, call: Call) -> None:
        answer = self._simulation.front.answer(call)
        if isinstance(answer, Plain):
            self._status, self._headers = answer.status, tuple(answer.headers)
            body = b"" if call.method == "HEAD" else answer.body
            self._reads += [(self._sent_s, body)] if body else []
            self._settle("complete")
            return
        self._begin(answer)

    def _begin(self, generation: Generation) -> None:
        self._stream = generation.stream
        if self._stream:
            self._status, self._headers = 200, (("content-type", EVENTS), ("vary", "Origin"))
        self._job = self._simulation.pump.submit(generation.order, self._take)
        self._reply = generation.reply_for(self._job)

    def _take(self, batch: Batch) -> None:
        self._last_s = self._loop.time()
        if self._stream:
            self._reads.append((self._last_s, batch))
            if batch.error or batch.cut or batch.finish_reason is not None:
                self._settle("complete")
        elif batch.error or batch.cut:
            self._whole(500, compact(error_tree(ENGINE_DEAD, kind="InternalServerError", param=None, code=500)))
        elif batch.finish_reason is not None and self._reply is not None:
            self._whole(200, self._reply.whole(batch.finish_reason))

    def _whole(self, status: int, body: bytes) -> None:
        self._status, self._headers = status, (("content-length", str(len(body))), ("content-type", JSON))
        self._reads.append((self._last_s, body))
        self._settle("complete")

    def _settle(self, ended: Ended, detail: str | None = None) -> None:
        if not self._outcome.done():
            self._outcome.set_result((ended, detail))

    def _arm(self) -> None:
        if self._patience_s is not None and not self._outcome.done():
            self._timer = self._loop.call_at(self._last_s + self._patience_s, self._look)

    def _look(self) -> None:
        if self._patience_s is not None and self._last_s + self._patience_s <= self._loop.time():
            self._settle("timeout", f"no byte came for {self._patience_s:g} s")
        else:
            self._arm()

    def _exchange(self, ended: Ended, detail: str | None) -> SimulatedExchange:
        return SimulatedExchange(
            sent_s=self._sent_s,
            closed_s=self._last_s if ended == "complete" else self._loop.time(),
            ended=ended,
            status=self._status,
            headers=self._headers,
            reads=tuple(self._reads),
            reply=self._reply,
            detail=detail,
        )


class _LateBody(httpx.AsyncByteStream):
    def __init__(self, exchange: SimulatedExchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for read in self._exchange.body_reads():
            yield read.data


def _lower(request: httpx.Request) -> dict[str, str]:
    # Not through its items, for each of which httpx looks at all to guess their encoding.
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers.raw}


def _deferred(exchange: SimulatedExchange) -> httpx.Response:
    return httpx.Response(exchange.status or 0, stream=_LateBody(exchange), extensions={EXCHANGE: exchange})


def _response(exchange: SimulatedExchange, request: httpx.Request) -> httpx.Response:
    if exchange.ended != "complete" or exchange.status is None:
        _raise(exchange, request)
    stream = httpx.ByteStream(b"".join(read.data for read in exchange.body_reads()))
    extensions = {EXCHANGE: exchange}
    return httpx.Response(exchange.status, headers=list(exchange.headers), stream=stream, extensions=extensions)


def _raise(exchange: SimulatedExchange, request: httpx.Request) -> NoReturn:
    what = exchange.detail or exchange.ended
    if exchange.ended == "timeout":
        raise httpx.ReadTimeout(what, request=request)
    raise httpx.RemoteProtocolError(what, request=request)
