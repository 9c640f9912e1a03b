"""Streams of requests. Each sends its next one when the former has ended, and not before it is due if it is due at all.

All streams start at one moment: a closed loop begins there, and times at which requests are due count from it.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import httpx

from harness.client.openai import PreparedRequest, Sent, build_request, record, send
from harness.records.request import RequestRecord
from harness.records.trial import ClientFacts

_LAG_PERIOD_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A measured window. Times of the records count from ``epoch_s``, on the clock of the event loop."""

    epoch_s: float
    window_s: float
    requests: tuple[RequestRecord, ...]  # by stream, then turn; requests that were not reached are not in it
    client: ClientFacts
    aborted: bool  # the abort event ended the window
    sent: tuple[Sent, ...] = field(default=(), repr=False)  # with their replies, for whoever may keep texts


async def run_closed_loop(
    transport: httpx.AsyncBaseTransport,
    streams: Sequence[Sequence[PreparedRequest]],
    *,
    read_timeout_s: float,
    prewarm: Callable[[str, int], Awaitable[None]] | None = None,
    abort: asyncio.Event | None = None,
    real_time: bool = True,
) -> LoadResult:
    """Run all streams to their end and return what was measured.

    Args:
        transport: one that returns exchanges.
        streams: the requests of each stream, in order. What is due at a time (``prompt.recorded.due_s``) waits for it.
        read_timeout_s: longest wait for the next byte.
        prewarm: ``StampedTransport.prewarm``; opens the connections before the clock starts.
        abort: once set, requests in flight are cancelled and recorded as such.
        real_time: False on a clock that stands still while the client works: nothing there can make it late, so it
            neither watches itself nor keeps the garbage collector out.

    Raises:
        httpx.TransportError: from ``prewarm``; nothing was sent.
        asyncio.CancelledError: every request was cancelled and no task is left.
    """
    streams = [stream for stream in streams if stream]
    requests = [[build_request(prepared, read_timeout_s=read_timeout_s) for prepared in stream] for stream in streams]
    if prewarm is not None and streams:
        await prewarm(streams[0][0].url, len(streams))
    watch = _SelfWatch(real_time=real_time)
    start = _StartLine(len(streams), on_open=watch.start)
    sent: list[Sent] = []
    jobs = [
        _run_stream(transport, list(zip(stream, built, strict=True)), start, sent, watch)
        for stream, built in zip(streams, requests, strict=True)
    ]
    with _collector_off() if real_time else nullcontext():
        try:
            aborted = await _run_all(jobs, abort)
        finally:
            client, window_s = watch.stop()
    epoch_s = watch.started_s
    records = [record(each, epoch_s=epoch_s) for each in sent]
    records.sort(key=lambda each: (each.stream, each.turn))
    return LoadResult(
        epoch_s=epoch_s, window_s=window_s, requests=tuple(records), client=client, aborted=aborted, sent=tuple(sent)
    )


class _StartLine:
    """Holds every stream right before its first write until all have come, or dropped out."""

    def __init__(self, parties: int, *, on_open: Callable[[], None]) -> None:
        self._waiting = parties
        self._opened = asyncio.Event()
        self._on_open = on_open

    def ticket(self) -> _Ticket:
        return _Ticket(self)

    def arrive(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            self._on_open()
            self._opened.set()

    async def wait(self) -> None:
        await self._opened.wait()


class _Ticket:
    """One stream's place at the start line; counts once."""

    def __init__(self, line: _StartLine) -> None:
        self._line = line
        self._used = False

    def use(self) -> None:
        if not self._used:
            self._used = True
            self._line.arrive()

    async def wait(self) -> None:
        self.use()
        await self._line.wait()


async def _run_stream(
    transport: httpx.AsyncBaseTransport,
    requests: Sequence[tuple[PreparedRequest, httpx.Request]],
    start: _StartLine,
    sent: list[Sent],
    watch: _SelfWatch,
) -> None:
    ticket = start.ticket()
    gate: Callable[[], Awaitable[None]] | None = ticket.wait
    try:
        for prepared, request in requests:
            due_s = _due_s(prepared)
            if due_s:
                await ticket.wait()
                gate, due_s = None, watch.started_s + due_s
                await _until(due_s)
            elif due_s is not None:
                due_s = watch.started_s if gate is None else None
            sent.append(await send(transport, prepared, request, gate=gate, on_cancelled=sent.append, due_s=due_s))
            # A transport that knows no gate, or a connection that failed, must not hold up the others.
            ticket.use()
            gate = None
    finally:
        ticket.use()


def _due_s(prepared: PreparedRequest) -> float | None:
    """When a request is due, in seconds since the start; None: when the one before it has ended."""
    recorded = prepared.prompt.recorded
    return recorded.due_s if recorded is not None else None


async def _until(due_s: float) -> None:
    left_s = due_s - asyncio.get_running_loop().time()
    if left_s > 0:
        await asyncio.sleep(left_s)


async def _run_all(jobs: Sequence[Awaitable[None]], abort: asyncio.Event | None) -> bool:
    """Run ``jobs`` until all have ended or ``abort`` is set. True if it was. Leaves no task behind."""
    running = asyncio.gather(*jobs, return_exceptions=True)
    running.add_done_callback(_looked_at)
    stopper = asyncio.ensure_future(abort.wait()) if abort is not None else None
    try:
        waiting: set[asyncio.Future[Any]] = {running} if stopper is None else {running, stopper}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            return True
        failures = [result for result in running.result() if result is not None]
        if failures:
            raise failures[0]
        return False
    finally:
        left: list[asyncio.Future[Any]] = [running] if stopper is None else [running, stopper]
        for task in left:
            task.cancel()
        await asyncio.wait(left)  # unlike awaiting each, this lets a cancellation of ours through


def _looked_at(future: asyncio.Future[Any]) -> None:
    """Take the exception of a cancelled gathering, which the loop would report as lost."""
    if not future.cancelled():
        future.exception()


@contextmanager
def _collector_off() -> Iterator[None]:
    """No garbage collection inside the window: a full one stops every stream for tens of milliseconds."""
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


class _SelfWatch:
    """The window: when it began, how late the event loop ran in it, and how much processor the client took."""

    def __init__(self, *, real_time: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._real_time = real_time
        self._timer: asyncio.TimerHandle | None = None
        self.start()

    def start(self) -> None:
        self._cancel_timer()
        self.started_s = self._loop.time()
        self._lag_max_s = 0.0
        if self._real_time:
            self._cpu_s = time.process_time()
            self._schedule(self.started_s)

    def stop(self) -> tuple[ClientFacts, float]:
        self._cancel_timer()
        window_s = self._loop.time() - self.started_s
        if not self._real_time:
            return ClientFacts(), window_s
        cpu_s = time.process_time() - self._cpu_s
        ratio = cpu_s / window_s if window_s > 0 else None
        return ClientFacts(loop_lag_max_s=self._lag_max_s, cpu_ratio=ratio), window_s

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now_s = self._loop.time()
        self._lag_max_s = max(self._lag_max_s, now_s - self._due_s)
        self._schedule(now_s)

    def _schedule(self, now_s: float) -> None:
        self._due_s = now_s + _LAG_PERIOD_S
        self._timer = self._loop.call_at(self._due_s, self._look)
