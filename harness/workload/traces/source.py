"""The bytes of a trace file, streamed: plain, gz or zstd, in lines of a bounded length. Never loaded whole."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import zstandard

from harness.errors import InputError
from harness.workload.traces.entry import Reason

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_LINE_BYTES = 32 * 1024 * 1024  # a million tokens with pictures stay far below it
_READ_BYTES = 1024 * 1024
_PACKED_BYTES = 64 * 1024  # at a time: a thousand times as much may be in it
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")
_SUFFIXES = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}


class Line(NamedTuple):
    """One line without its end, or why there is none."""

    number: int  # from 1
    content: bytes
    reason: Reason | None = None
    last: bool = False  # the file ends here, without an end of line


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader[Any]]:
    """Open a trace and look through its compression, whatever its name says.

    Raises:
        InputError: there is no such file, it is a folder, empty, not what its suffix says, or no UTF-8 text. Also while
            it is read, where a compressed file is damaged.
    """
    with _raw(path) as raw:
        head = raw.peek(4)[:4]
        kind = "gzip" if head.startswith(_GZIP) else "zstd" if head.startswith(_ZSTD) else "plain"
        promised = _SUFFIXES.get(path.suffix.lower())
        if not head:
            raise InputError("the trace is empty", where=str(path))
        if promised is not None and promised != kind:
            hint = "Rename it if it is not compressed, or copy it again."
            raise InputError(f"the trace is not {promised}, as its name says", where=str(path), hint=hint)
        try:
            with _decompressed(raw, kind) as stream:
                _require_text(stream, path)
                yield stream
        except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError, EOFError) as error:
            what = f"the {kind} file is damaged or cut off"
            raise InputError(what, where=str(path), hint="Copy it again, or unpack what can be saved.") from error


def lines(stream: io.BufferedReader[Any], *, most_bytes: int = MOST_LINE_BYTES) -> Iterator[Line]:
    """Yield the lines that are not blank. One that is too long is passed over without being held."""
    number = 0
    while True:
        content = stream.readline(most_bytes + 1)
        if not content:
            return
        number += 1
        ended = content.endswith(b"\n")
        if not ended and len(content) > most_bytes:
            _pass_over(stream, most_bytes)
            yield Line(number, b"", Reason.TOO_LONG)
            continue
        content = content.rstrip(b"\r\n")
        if content.strip():
            yield Line(number, content, last=not ended)


def _pass_over(stream: io.BufferedReader[Any], most_bytes: int) -> None:
    while (more := stream.readline(most_bytes)) and not more.endswith(b"\n"):
        pass


@contextmanager
def _raw(path: Path) -> Iterator[io.BufferedReader[Any]]:
    try:
        raw = io.BufferedReader(path.open("rb", buffering=0), _READ_BYTES)
    except IsADirectoryError:
        raise InputError("the trace is a folder", where=str(path), hint="Name one file of it.") from None
    except OSError as error:
        raise InputError(f"the trace cannot be read: {error.strerror}", where=str(path)) from error
    with raw:
        yield raw


@contextmanager
def _decompressed(raw: io.BufferedReader[Any], kind: str) -> Iterator[io.BufferedReader[Any]]:
    if kind == "plain":
        yield raw
        return
    inner = gzip.GzipFile(fileobj=raw) if kind == "gzip" else _ZstdFile(raw)
    with io.BufferedReader(cast(io.RawIOBase, inner), _READ_BYTES) as stream:
        yield stream


class _ZstdFile(io.RawIOBase):
    """What a zstd file holds. Unlike the library's own reader it does not take a cut file for a whole one.

    Several frames in one file are what `zstd` writes with threads, and what appending makes.
    """

    def __init__(self, packed: io.BufferedReader[Any]) -> None:
        self._packed = packed
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._ready = memoryview(b"")
        self._begun = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Unpack as much as is at hand. Raises EOFError where the file ends inside a frame."""
        target = memoryview(buffer).cast("B")
        while not self._ready:
            packed = self._next_frame() if self._frame.eof else self._packed.read1(_PACKED_BYTES)
            if not packed:
                if self._begun:
                    raise EOFError
                return 0
            self._begun = True
            self._ready = memoryview(self._frame.decompress(packed))
            if self._frame.eof and not self._frame.unused_data:
                self._begun = False
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _next_frame(self) -> bytes:
        packed = self._frame.unused_data or self._packed.read1(_PACKED_BYTES)
        if packed:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        return packed


def _require_text(stream: io.BufferedReader[Any], path: Path) -> None:
    head = stream.peek(64)[:64]
    if head.startswith(_BOM):
        stream.read(len(_BOM))
        head = head[len(_BOM) :]
    if not head.strip() and not stream.peek(1):
        raise InputError("the trace is empty", where=str(path))
    if head.startswith(_WIDE_BOMS) or b"\0" in head:
        wide = head.startswith(_WIDE_BOMS) or (len(head) > 3 and not (any(head[0::2]) and any(head[1::2])))
        what = "the trace is UTF-16 or UTF-32" if wide else "the trace is no text"
        hint = "Write it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE > OUT." if wide else None
        raise InputError(what, where=str(path), hint=hint)
