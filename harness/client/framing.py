"""Where an HTTP/1 reply ends, found without parsing its body while streams are being timed.

h11 builds events from every chunk, at several times the cost. Here a read that is one whole chunk, as servers send
events, costs one look at its size; anything else is followed from chunk to chunk. Content, and whether all of this was
proper HTTP, is h11's business, later (client.exchange).
"""

from __future__ import annotations

import re
from typing import Literal

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: |\r|\n|$)")
_FRAMING_FIELD = re.compile(rb"\n(connection|transfer-encoding|content-length)[ \t]*:[ \t]*([^\r\n]*)")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,16}")
_MAX_HEAD_BYTES = 64 * 1024
_BODYLESS = (204, 304)

Mode = Literal["head", "chunked", "length", "until_close", "done", "broken"]


class ReplyEnd:
    """Fed with every read of one reply; says when the reply is complete."""

    def __init__(self, *, method: str) -> None:
        self.status: int | None = None
        self.reusable = False  # after a complete reply the connection may carry another request
        self._method = method
        self._mode: Mode = "head"
        self._buffer = bytearray()  # from the last confirmed boundary on
        self._left_bytes = 0

    @property
    def mode(self) -> Mode:
        """Where in the reply it stands; "broken" means that these bytes are not HTTP."""
        return self._mode

    @property
    def complete_at_eof(self) -> bool:
        """The reply has no framing of its own and ends where the peer closes."""
        return self._mode == "until_close"

    def feed(self, data: bytes) -> bool:
        """Take one read. True once the reply is complete, or is known to be no HTTP reply."""
        if self._mode == "chunked":
            if not self._buffer and _is_one_chunk(data):
                return False
            self._buffer += data
            return self._follow_chunks()
        if self._mode == "length":
            self._left_bytes -= len(data)
            return self._check_length()
        if self._mode == "until_close":
            return False
        self._buffer += data
        return self._read_head()

    def _read_head(self) -> bool:
        end = _HEAD_END.search(self._buffer)
        if end is None:
            return self._break() if len(self._buffer) > _MAX_HEAD_BYTES or not self._may_be_http() else False
        head = bytes(self._buffer[: end.start()])
        del self._buffer[: end.end()]
        status_line = _STATUS_LINE.match(head)
        if status_line is None:
            return self._break()
        status = int(status_line[2])
        if 100 <= status < 200 and status != 101:
            return self._read_head() if self._buffer else False
        self.status = status
        self._choose_mode(dict(_FRAMING_FIELD.findall(head.lower())), http_minor=status_line[1])
        return self._read_first_body()

    def _may_be_http(self) -> bool:
        start = bytes(self._buffer[:7])
        return b"HTTP/1."[: len(start)] == start

    def _choose_mode(self, fields: dict[bytes, bytes], *, http_minor: bytes) -> None:
        connection = fields.get(b"connection", b"")
        self.reusable = b"keep-alive" in connection if http_minor == b"0" else b"close" not in connection
        if self._method == "HEAD" or self.status in _BODYLESS:
            self._mode, self._left_bytes = "length", 0
        elif b"chunked" in fields.get(b"transfer-encoding", b""):
            self._mode = "chunked"
        elif fields.get(b"content-length", b"").isdigit():
            self._mode, self._left_bytes = "length", int(fields[b"content-length"])
        else:
            self._mode, self.reusable = "until_close", False

    def _read_first_body(self) -> bool:
        if self._mode == "chunked":
            return self._follow_chunks()
        if self._mode == "length":
            self._left_bytes -= len(self._buffer)
            return self._check_length()
        return False

    def _check_length(self) -> bool:
        if self._left_bytes > 0:
            return False
        self._finish(surplus_bytes=-self._left_bytes)
        return True

    def _follow_chunks(self) -> bool:
        buffer, position = self._buffer, 0
        while (line_end := buffer.find(b"\r\n", position)) >= 0:
            size = _HEX.match(buffer, position)
            if size is None:
                return self._break()
            body_start, chunk_bytes = line_end + 2, int(size[0], 16)
            if chunk_bytes == 0:
                return self._read_trailers(body_start)
            if body_start + chunk_bytes + 2 > len(buffer):
                break
            position = body_start + chunk_bytes + 2
        del buffer[:position]
        return False

    def _read_trailers(self, start: int) -> bool:
        if self._buffer.startswith(b"\r\n", start):
            end = start + 2
        else:
            blank = self._buffer.find(b"\r\n\r\n", start)
            if blank < 0:
                return False
            end = blank + 4
        self._finish(surplus_bytes=len(self._buffer) - end)
        return True

    def _finish(self, *, surplus_bytes: int) -> None:
        self._mode = "done"
        # Bytes beyond the reply answer no request of ours: this connection is not to be trusted again.
        self.reusable = self.reusable and surplus_bytes == 0

    def _break(self) -> bool:
        self._mode, self.reusable = "broken", False
        return True


def _is_one_chunk(data: bytes) -> bool:
    """``data`` is exactly one chunk of a body, and not the last, which has no bytes."""
    line_end = data.find(b"\r\n", 0, 18)
    if line_end < 1:
        return False
    try:
        chunk_bytes = int(data[:line_end], 16)
    except ValueError:
        return False
    return chunk_bytes > 0 and line_end + 2 + chunk_bytes + 2 == len(data)
