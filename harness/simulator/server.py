"""The simulated engine over real HTTP/1.1, in real time: what any client of vLLM can talk to.

As behind a real server, a client that reads slowly does not slow the engine down, and one that hangs up takes its
request with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import cast

import h11

from harness.simulator.front import EVENTS, JSON, Call, Generation, Plain
from harness.simulator.replies import ENGINE_DEAD, Reply, compact, error_tree
from harness.simulator.request import Batch, Job
from harness.simulator.transport import Simulation

_BACKLOG = 2048
_Header = tuple[str, str]


class SimulatedServer:
    """Serves one simulation on one port."""

    def __init__(self, simulation: Simulation, *, on_access: Callable[[str], None] = lambda line: None) -> None:
        """``on_access`` gets a line for each answered request."""
        self.simulation = simulation
        self.on_access = on_access
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._quiet = asyncio.Event()

    async def listen(self, host: str, port: int) -> int:
        """Begin to serve and return the port; 0 asks for any free one. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), host, port, backlog=_BACKLOG)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self, *, grace_s: float = 0.0) -> None:
        """Take no more connections, let requests end for ``grace_s``, then close what is left."""
        if self._server is not None:
            self._server.close()
        self.settled()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._quiet.wait()
        for connection in tuple(self.connections):
            connection.close()
        await asyncio.sleep(0)

    def settled(self) -> None:
        """Note that a request has ended."""
        if any(each.answering for each in self.connections):
            self._quiet.clear()
        else:
            self._quiet.set()


class _Connection(asyncio.Protocol):
    """One client. Requests on it are answered one after the other."""

    def __init__(self, server: SimulatedServer) -> None:
        self._server = server
        self._http = h11.Connection(h11.SERVER)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._job: Job | None = None
        self._reply: Reply | None = None
        self._stream = False

    @property
    def answering(self) -> bool:
        """Whether a request waits for the end of its reply."""
        return self._job is not None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._read()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._transport = None
        self._hang_up()

    # Requests.

    def close(self) -> None:
        """Close, what was written still leaves."""
        self._hang_up()
        if self._transport is not None:
            self._transport.close()

    def _read(self) -> None:
        """Take what has come, until a request is complete or more must come."""
        try:
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    break
                if isinstance(event, h11.ConnectionClosed):
                    self.close()
                    break
                self._take(event)
        except h11.RemoteProtocolError as problem:
            self._refuse(problem)

    def _take(self, event: object) -> None:
        if isinstance(event, h11.Request):
            self._request, self._body = event, bytearray()
            if self._http.they_are_waiting_for_100_continue:
                self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        elif isinstance(event, h11.Data):
            self._body += event.data
        elif isinstance(event, h11.EndOfMessage):
            self._answer()

    def _answer(self) -> None:
        answer = self._server.simulation.front.answer(self._call())
        if isinstance(answer, Plain):
            self._send(answer.status, answer.headers, answer.body)
        else:
            self._begin(answer)

    def _call(self) -> Call:
        request = self._request
        assert request is not None  # a message that has ended has begun
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers}
        path = request.target.decode("latin-1").partition("?")[0]
        return Call(method=request.method.decode("latin-1"), path=path, headers=headers, body=bytes(self._body))

    def _begin(self, generation: Generation) -> None:
        self._stream = generation.stream
        self._job = self._server.simulation.pump.submit(generation.order, self._deliver)
        self._reply = generation.reply_for(self._job)
        if self._stream:
            self._head(200, [("content-type", EVENTS), ("vary", "Origin")])

    def _deliver(self, batch: Batch) -> None:
        reply, last = self._reply, batch.error or batch.cut or batch.finish_reason is not None
        if reply is None:
            return
        if last:
            self._job = self._reply = None
            self._server.settled()
        if self._stream:
            self._write(self._http.send(h11.Data(data=reply.events(batch))))
            if last:
                self._end()
        elif batch.error or batch.cut:
            body = compact(error_tree(ENGINE_DEAD, kind="InternalServerError", param=None, code=500))
            self._send(500, _json_headers(body), body)
        elif batch.finish_reason is not None:
            body = reply.whole(batch.finish_reason)
            self._send(200, _json_headers(body), body)

    # Replies.

    def _send(self, status: int, headers: list[_Header], body: bytes) -> None:
        self._head(status, headers)
        is_head = self._request is not None and self._request.method == b"HEAD"
        if body and not is_head:
            self._write(self._http.send(h11.Data(data=body)))
        self._end()

    def _head(self, status: int, headers: list[_Header]) -> None:
        phrase = HTTPStatus(status).phrase
        self._log(f"{status} {phrase}")
        first = [("date", formatdate(usegmt=True)), ("server", "simulated")]
        response = h11.Response(status_code=status, headers=[*first, *headers], reason=phrase.encode())
        self._write(self._http.send(response))

    def _end(self) -> None:
        self._write(self._http.send(h11.EndOfMessage()))
        if self._http.our_state is h11.MUST_CLOSE or self._http.their_state is not h11.DONE:
            self.close()
            return
        self._http.start_next_cycle()
        # From the loop, not from here: a client that sends ahead must not deepen the stack.
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._transport is not None and self._http.our_state is h11.IDLE:
            self._read()

    def _refuse(self, problem: h11.RemoteProtocolError) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = b"Invalid HTTP request received."
            self._request = None
            headers = [("content-length", str(len(body))), ("content-type", "text/plain; charset=utf-8")]
            self._head(problem.error_status_hint, [*headers, ("connection", "close")])
            self._write(self._http.send(h11.Data(data=body)))
        self.close()

    def _write(self, data: bytes | None) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    def _hang_up(self) -> None:
        job, self._job, self._reply = self._job, None, None
        if job is not None:
            self._server.simulation.pump.abort(job)
            self._server.settled()

    def _log(self, status: str) -> None:
        peer = self._transport.get_extra_info("peername") if self._transport else None
        where = f"{peer[0]}:{peer[1]}" if peer else "-"
        request = self._request
        what = f"{request.method.decode()} {request.target.decode()}" if request else "-"
        self._server.on_access(f'INFO:     {where} - "{what} HTTP/1.1" {status}')


def _json_headers(body: bytes) -> list[_Header]:
    return [("content-length", str(len(body))), ("content-type", JSON), ("vary", "Origin")]
