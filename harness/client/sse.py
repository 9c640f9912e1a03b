"""Server-sent events from reads that end anywhere, each event with the stamp of the read that completed it.

The event stream format of the HTML standard: lines end at CR LF, LF or CR and nowhere else (U+2028 is text), a BOM at
the very start is dropped, an event ends at a blank line, and what follows the last blank line is no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from harness.records.exchange import BodyRead

_BOM = b"\xef\xbb\xbf"
_CR, _LF = b"\r", b"\n"


class ServerEvent(NamedTuple):
    """One event with data."""

    at_s: float  # of the read that brought its last byte
    data: str
    kind: str = "message"


class EventDecoder:
    """Bytes in, events out. Splitting the bytes differently yields the same events."""

    def __init__(self) -> None:
        self._pending = bytearray()  # an unfinished line
        self._data: list[str] = []
        self._kind = ""
        self._after_cr = False  # an LF that comes next belongs to the line that is already done
        self._at_start = True

    def feed(self, read: BodyRead) -> list[ServerEvent]:
        """Return the events that ``read`` completes."""
        self._pending += read.data
        if self._at_start and not self._skip_bom():
            return []
        events = []
        for line in self._lines():
            if line:
                self._take_field(line)
            elif (event := self._dispatch(read.at_s)) is not None:
                events.append(event)
        return events

    def _skip_bom(self) -> bool:
        """Drop a BOM. False while the bytes may still become one."""
        start = bytes(self._pending[: len(_BOM)])
        if len(start) < len(_BOM) and _BOM.startswith(start):
            return False
        if start == _BOM:
            del self._pending[: len(_BOM)]
        self._at_start = False
        return True

    def _lines(self) -> Iterator[bytes]:
        buffer, position = bytes(self._pending), 0
        while position < len(buffer):
            if self._after_cr:
                self._after_cr = False
                if buffer.startswith(_LF, position):
                    position += 1
                    continue
            end = _line_end(buffer, position)
            if end < 0:
                break
            self._after_cr = buffer.startswith(_CR, end)
            yield buffer[position:end]
            position = end + 1
        self._pending = bytearray(buffer[position:])

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.decode("utf-8", errors="replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value

    def _dispatch(self, at_s: float) -> ServerEvent | None:
        data, kind = self._data, self._kind
        self._data, self._kind = [], ""
        return ServerEvent(at_s, "\n".join(data), kind or "message") if data else None


def decode_events(reads: Iterable[BodyRead]) -> Iterator[ServerEvent]:
    """Yield the events of a whole body."""
    decoder = EventDecoder()
    for read in reads:
        yield from decoder.feed(read)


def _line_end(buffer: bytes, start: int) -> int:
    """Index of the next CR or LF; -1 if there is none."""
    line_feed = buffer.find(_LF, start)
    carriage_return = buffer.find(_CR, start, line_feed if line_feed >= 0 else len(buffer))
    return carriage_return if carriage_return >= 0 else line_feed
