"""Signals of a long run: Ctrl-C stops it in good order, a lost terminal does not stop it at all."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from harness.cli.streams import STDERR, STDIN, STDOUT, is_lost, silence

_APART_S = 0.1  # two cancellations in one turn of the loop would be one
_STOPPING = b"stopping the engine; once more kills it at once\n"


class RunSignals:
    """Takes Ctrl-C, SIGTERM and SIGHUP for the whole of a run; a context manager, for the main thread.

    A task that is held by ``cancelling`` is cancelled: once in good order, a second time at once. Without one, while
    planning or reporting, KeyboardInterrupt is raised, for SIGTERM too.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._told = False

    def __enter__(self) -> RunSignals:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stop)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._leave_terminal)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def cancelling(self, task: asyncio.Task[Any] | None) -> Iterator[None]:
        """Cancel ``task`` on a signal, within this context.

        Raises:
            KeyboardInterrupt: at the end, if the signal came when nothing was left to cancel.
        """
        self._task = task
        try:
            yield
        finally:
            self._task = None
        if self._told:
            raise KeyboardInterrupt

    def _stop(self, number: int, frame: FrameType | None) -> None:
        task = self._task
        if task is None:
            raise KeyboardInterrupt
        if not self._told:
            self._told = True
            with suppress(OSError):
                os.write(STDERR, _STOPPING)  # not through sys.stderr, which may be in the middle of a write
            task.get_loop().call_soon_threadsafe(task.cancel)
        else:
            loop = task.get_loop()
            loop.call_soon_threadsafe(lambda: loop.call_later(_APART_S, task.cancel))

    def _leave_terminal(self, number: int, frame: FrameType | None) -> None:
        """Go on without a terminal: what it would show is lost, and `harness show RUN --follow` takes its place."""
        for descriptor in (STDIN, STDOUT, STDERR):
            if is_lost(descriptor):
                silence(descriptor)
