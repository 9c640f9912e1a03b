"""An engine's log, read while it is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWindow:
    """Whole lines from one offset on, and where the next window begins."""

    lines: tuple[str, ...]
    end: int  # bytes from the start of the file


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReader:
    """Reads by byte offset, so that a window of time can be read again. A half-written last line is left for later."""

    path: Path

    def size(self) -> int:
        """The offset that marks now; 0 where there is no log."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def since(self, offset: int, *, with_partial: bool = False) -> LogWindow:
        """Return the lines after ``offset``; a progress bar counts as its last state."""
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except OSError:
            return LogWindow(lines=(), end=offset)
        whole = data if with_partial else data[: data.rfind(b"\n") + 1]
        lines = whole.decode(errors="replace").split("\n")
        if not lines[-1]:
            lines.pop()
        return LogWindow(lines=tuple(_last_state(line) for line in lines), end=offset + len(whole))

    def matching(self, offset: int, patterns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the lines after ``offset`` that match one of ``patterns``, the last partial one included."""
        compiled = [re.compile(pattern) for pattern in patterns]
        lines = self.since(offset, with_partial=True).lines
        return tuple(line for line in lines if any(pattern.search(line) for pattern in compiled))

    def tail(self, count: int) -> tuple[str, ...]:
        """Return the last ``count`` lines that are not blank."""
        start = max(0, self.size() - 64 * 1024)
        lines = [line for line in self.since(start, with_partial=True).lines if line.strip()]
        return tuple(lines[-count:])


def _last_state(line: str) -> str:
    return line.rstrip("\r").rsplit("\r", 1)[-1]
