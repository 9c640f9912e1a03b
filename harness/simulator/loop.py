"""An asyncio event loop in virtual time: its clock stands still while anything can happen, and then jumps.

Code that waits on the loop (asyncio.sleep, timeouts, loop.time) runs unchanged and waits for nothing: the clock jumps
to the next timer once no callback is ready and no thread, subprocess or socket is pending. What is real takes no
virtual time, so its speed does not show in any stamp.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import stat
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from os import dup, fstat
from typing import Any, TypeVar, TypeVarTuple

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")
_START = datetime(2026, 1, 1, tzinfo=UTC)
_LOOK_EVERY = 64  # turns without a look at the loop's own pipe, by which signals come: a look costs more than a turn
_PATIENCE_S = 30.0  # real seconds: something real that is silent for longer hangs, and timers that guard it may fire


def run_virtual(main: Coroutine[Any, Any, _Result]) -> _Result:
    """Run ``main`` like asyncio.run, in virtual time from 0 on."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class VirtualClock:
    """The clock of a virtual loop; a Clock. Its wall clock starts on a fixed date, so stamps repeat."""

    def now_s(self) -> float:
        """Seconds of the running loop; 0 outside one."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(seconds)

    def stamp(self) -> str:
        """The fixed date plus virtual time, as ISO 8601 with zone, to the second."""
        return (_START + timedelta(seconds=self.now_s())).isoformat(timespec="seconds")


class VirtualLoop(asyncio.SelectorEventLoop):
    """``patience_s`` is in real seconds: how long the clock stands still for something real that gives no sign."""

    def __init__(self, *, patience_s: float = _PATIENCE_S) -> None:
        self._now_s = 0.0
        self._held = 0
        self._subprocesses: list[asyncio.SubprocessTransport] = []
        self._jumping = _JumpingSelector(self._is_outside_busy, self._jump, patience_s)
        super().__init__(self._jumping)
        self._jumping.own = len(self._jumping.get_map())  # the pipe by which the loop wakes itself

    def time(self) -> float:
        """Virtual seconds."""
        return self._now_s

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Let the clock stand still for something real that the loop does not know of."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Arguments], _Result], *args: *_Arguments
    ) -> asyncio.Future[_Result]:
        """As always; the clock stands still until the thread is done."""
        future = super().run_in_executor(executor, func, *args)
        self._held += 1
        future.add_done_callback(self._release)
        return future

    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:
        """As always; the clock stands still until the process has ended."""
        return self._watched(await super().subprocess_exec(*args, **options))

    async def subprocess_shell(self, *args: Any, **options: Any) -> Any:
        """As subprocess_exec."""
        return self._watched(await super().subprocess_shell(*args, **options))

    async def shutdown_default_executor(self, *args: Any) -> None:
        """As always; how long threads take to end is real time, not virtual."""
        with self.holding():
            await super().shutdown_default_executor(*args)

    def _watched(self, made: tuple[asyncio.SubprocessTransport, Any]) -> tuple[asyncio.SubprocessTransport, Any]:
        self._subprocesses.append(made[0])
        return made

    def _release(self, future: asyncio.Future[Any]) -> None:
        self._held -= 1

    def _is_outside_busy(self) -> bool:
        if self._subprocesses:
            self._subprocesses = [each for each in self._subprocesses if each.get_returncode() is None]
        return bool(self._held or self._subprocesses)

    def _jump(self, seconds: float) -> None:
        self._now_s += max(seconds, 0.0)


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for real events in real time, and for timers not at all."""

    def __init__(self, is_busy: Callable[[], bool], jump: Callable[[float], None], patience_s: float) -> None:
        super().__init__()
        self.own = 0  # descriptors that are always there
        self._is_busy = is_busy
        self._jump = jump
        self._patience_s = patience_s
        self._pending: set[int] = set()  # descriptors that something real will come from
        self._turns = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        if not _is_listener(key.fd):
            self._pending.add(key.fd)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self._pending.discard(key.fd)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)  # no timer: only something real can go on
        busy = len(self._pending) > self.own or self._is_busy()
        self._turns += 1
        ready = super().select(0) if busy or self._turns % _LOOK_EVERY == 0 else []
        if not ready and busy and timeout > 0:
            ready = self._select_patiently()
        if not ready:
            self._jump(timeout)
        return ready

    def _select_patiently(self) -> list[tuple[selectors.SelectorKey, int]]:
        until_s = time.monotonic() + self._patience_s
        while (left_s := until_s - time.monotonic()) > 0:
            if ready := super().select(left_s):
                return ready
        return []


def _is_listener(descriptor: int) -> bool:
    """A listening socket waits for others; nothing is pending on it."""
    with suppress(OSError):
        if stat.S_ISSOCK(fstat(descriptor).st_mode):
            with socket.socket(fileno=dup(descriptor)) as copy:
                return bool(copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    return False
