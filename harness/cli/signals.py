"""Signals of a long run: Ctrl-C stops it in good order, a lost terminal does not stop it at all."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import click


def stop_on_signals(task: asyncio.Task[Any] | None) -> None:
    """Cancel ``task`` on SIGINT and SIGTERM: once in good order, a second time at once."""
    if task is None:
        return
    loop = asyncio.get_running_loop()
    presses = 0

    def stop() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            click.echo("stopping the engine; once more kills it at once", err=True)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


def survive_hangup() -> None:
    """Go on without a terminal: what it would show is lost, and `harness show RUN --follow` takes its place."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _leave_terminal)


def _leave_terminal() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is not None and stream.isatty():
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
