"""`harness workload record`: stand in front of a server for an afternoon, and write down what passes."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import click

from harness.cli.streams import shown_if_possible
from harness.client.recording import line_of
from harness.client.relay import Relay, Relayed, Upstream, upstream_from
from harness.errors import InputError, StoreError

_SAY_EVERY = 100  # requests


@click.command("record")
@click.option("--upstream", metavar="URL", required=True, help="The server that requests are passed on to.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The trace.")
@click.option("--listen", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port; 0: any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--append", is_flag=True, help="Go on with a trace that is there.")
def record_command(upstream: str, out: Path, listen: int, host: str, append: bool) -> None:
    """Pass requests on to the server at --upstream until Ctrl-C, and write completions to --out.

    Point your clients at this port. Streams go through untouched and at once. The trace holds whole prompts and is
    readable for its owner alone; keys and headers are not in it.
    """
    behind = upstream_from(upstream)
    descriptor = _opened(out, append=append)
    try:
        count = asyncio.run(_record(behind, descriptor, host, listen, out))
    finally:
        os.close(descriptor)
    with shown_if_possible():
        click.echo(f"{count} requests in {out}: harness workload inspect {out}", err=True)


def _opened(out: Path, *, append: bool) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | (0 if append else os.O_EXCL)
    try:
        descriptor = os.open(out, flags, 0o600)
        os.fchmod(descriptor, 0o600)
    except FileExistsError as error:
        raise InputError("the file is there already", where=str(out), hint="Name another, or add --append.") from error
    except OSError as error:
        raise StoreError(f"the trace cannot be written: {error.strerror}", where=str(out)) from error
    return descriptor


class _Book:
    """Writes down what passes. A disk that takes no more ends the recording."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._began_s = datetime.now(tz=UTC).timestamp() - asyncio.get_running_loop().time()
        self._lock = asyncio.Lock()
        self.stop = asyncio.Event()
        self.failure: OSError | None = None
        self.count = 0

    async def keep(self, relayed: Relayed) -> None:
        """Write one request down, off the loop: streams that go on must not wait."""
        line = await asyncio.to_thread(line_of, relayed, at_s=round(self._began_s + relayed.arrived_s, 3))
        if line is None:
            return
        async with self._lock:
            try:
                await asyncio.to_thread(_write_whole, self._descriptor, line + b"\n")
            except OSError as error:
                self.failure = error
                self.stop.set()
                return
        self.count += 1
        if self.count % _SAY_EVERY == 0:
            with shown_if_possible():
                click.echo(f"{self.count} requests", err=True)


async def _record(upstream: Upstream, descriptor: int, host: str, port: int, out: Path) -> int:
    book = _Book(descriptor)
    relay = Relay(upstream, book.keep)
    try:
        bound = await relay.listen(host, port)
    except OSError as error:
        raise InputError(f"cannot listen: {error.strerror or error}", where=f"{host}:{port}") from error
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, book.stop.set)
    with shown_if_possible():
        where = f"{'https' if upstream.tls else 'http'}://{upstream.named.decode()}{upstream.path}"
        click.echo(f"recording: http://{host}:{bound} passes on to {where}. Ctrl-C stops it.", err=True)
    await book.stop.wait()
    await relay.aclose()
    if book.failure is not None:
        raise StoreError(f"the trace cannot be written: {book.failure.strerror}", where=str(out))
    return book.count


def _write_whole(descriptor: int, line: bytes) -> None:
    view = memoryview(line)
    while view:
        view = view[os.write(descriptor, view) :]
