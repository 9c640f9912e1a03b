"""stdout and stderr of a command whose reader may go away: a terminal that closes, `| head`, a log that is full."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager

import click

from harness.errors import StoreError

STDIN, STDOUT, STDERR = 0, 1, 2


def write_document(text: str) -> None:
    """Write to stdout. A reader that has seen enough ends it quietly. Raises StoreError where a file takes no more."""
    try:
        click.echo(text)
    except BrokenPipeError:
        silence(STDOUT)
    except OSError as error:
        silence(STDOUT)
        raise StoreError(
            f"cannot write to stdout: {error.strerror}", hint="Make room, or write it elsewhere."
        ) from error


@contextmanager
def shown_if_possible() -> Iterator[None]:
    """Around writing to stderr: if nobody takes it any more, go on in silence."""
    try:
        yield
    except OSError:
        silence(STDERR)


def is_lost(descriptor: int) -> bool:
    """Return whether the other end has gone: a terminal was hung up, or the reader of a pipe has ended."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def silence(descriptor: int) -> None:
    """Let what is written from now on, and what is still in a buffer, go nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
