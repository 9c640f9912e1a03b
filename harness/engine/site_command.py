"""Run a command of the site against a running engine: with a limit, its output redacted, nothing of it left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from harness.engine.diagnosis import ending
from harness.engine.redact import redacted_text

_KEPT_LINES = 200
_LINE_CHARACTERS = 400
_READ_BYTES = 65536
_LONGEST_LINE_BYTES = 1 << 20  # what has no newline by then is cut there
_LAST_WORDS_S = 1.0  # for output of something that the command left running


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCommand:
    """What to run."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)  # added to ours; may hold a key
    secrets: Sequence[str] = field(repr=False)  # hidden in its output
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How it ended."""

    exit_code: int | None  # None: it was stopped, or never ran
    lines: tuple[str, ...]  # the last ones of stdout and stderr together, redacted
    reason: str | None = None  # why it did not end by itself, or by which signal


async def run_site_command(command: SiteCommand, *, until: asyncio.Event, until_reason: str) -> CommandResult:
    """Run a command to its end, its limit, or the moment when ``until`` is set, and kill all of its process group.

    Raises:
        asyncio.CancelledError: the caller gave up; nothing of the command is left.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **command.environment},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return CommandResult(exit_code=None, lines=(), reason=f"it cannot be run: {said}")
    output = _Output(command.secrets)
    reading = asyncio.create_task(output.read(process))
    stopper = asyncio.create_task(until.wait())
    ended = asyncio.create_task(process.wait())
    reason: str | None = None
    try:
        await asyncio.wait({ended, stopper}, timeout=command.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            reason = until_reason if stopper.done() else f"it took longer than its limit of {command.timeout_s:g} s"
    finally:
        stopper.cancel()
        _kill_group(process.pid)
        await asyncio.wait({ended})
        await asyncio.wait({reading}, timeout=_LAST_WORDS_S)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
    code = None if reason is not None else process.returncode
    if code is not None and code < 0:
        reason = f"it {ending(code)}"
    return CommandResult(exit_code=code, lines=output.lines(), reason=reason)


class _Output:
    """The last lines of a command, cut into lines before they are redacted, so that no key lies across a cut."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = secrets
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._open = b""

    async def read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # it is a pipe
        while data := await process.stdout.read(_READ_BYTES):
            *whole, self._open = (self._open + data).split(b"\n")
            if len(self._open) > _LONGEST_LINE_BYTES:
                whole, self._open = [*whole, self._open], b""
            for line in whole:
                self._keep(line)

    def lines(self) -> tuple[str, ...]:
        if self._open:
            self._keep(self._open)
            self._open = b""
        return tuple(self._lines)

    def _keep(self, line: bytes) -> None:
        text = redacted_text(line.decode(errors="replace").rstrip("\r").rsplit("\r", 1)[-1], self._secrets)
        if text.strip():
            self._lines.append("".join(c for c in text if c == "\t" or c.isprintable())[:_LINE_CHARACTERS])


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
