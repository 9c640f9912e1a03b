"""A trace file -> its records: objects on lines, objects of one JSON array, or rows of a table with a head."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Container, Iterator
from typing import Any, NamedTuple, NoReturn

from harness.workload.traces.entry import Reason, Record, Skipped
from harness.workload.traces.source import MOST_LINE_BYTES, Line, lines

_CHUNK_BYTES = 4 * 1024 * 1024
_TABLE_MARKS = (b",", b";", b"\t")


class Numbered(NamedTuple):
    """A record and the line on which it begins."""

    line: int
    record: Record
    text: str | None = None  # of the line that is all of it


class _NotFiniteError(ValueError):
    """NaN or an infinity, which Python's parser would take."""


def records(stream: io.BufferedReader[Any], *, wanted: Container[int] | None = None) -> Iterator[Numbered | Skipped]:
    """Yield what a file holds, record by record, and what is none of it.

    ``wanted`` are the lines on which records begin that matter: of a file of lines only those are parsed.
    """
    head = stream.peek(4096)
    first = head.lstrip()[:1]
    if first == b"[" and not _is_one_line_array(head):
        return _elements(stream)
    if first not in (b"{", b"[") and _looks_like_a_table(head):
        return _rows(stream)
    return _on_lines(stream, wanted)


def _on_lines(stream: io.BufferedReader[Any], wanted: Container[int] | None) -> Iterator[Numbered | Skipped]:
    for line in lines(stream):
        if wanted is not None and line.number not in wanted:
            continue
        try:
            text = line.content.decode("utf-8")
            parsed = None if line.reason else _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            yield Skipped(line=line.number, reason=_reason(error, line))
            continue
        if line.reason:
            yield Skipped(line=line.number, reason=line.reason)
        elif isinstance(parsed, dict):
            yield Numbered(line.number, parsed, text)
        else:
            yield Skipped(line=line.number, reason=Reason.NO_OBJECT)


def _refuse(constant: str) -> NoReturn:
    raise _NotFiniteError(constant)


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _reason(error: Exception, line: Line) -> Reason:
    if isinstance(error, UnicodeDecodeError):
        return Reason.NOT_UTF8
    if isinstance(error, _NotFiniteError):
        return Reason.NOT_FINITE
    if isinstance(error, RecursionError):
        return Reason.TOO_DEEP
    return Reason.BROKEN_OFF if line.last else Reason.NOT_JSON


# -- one array ---------------------------------------------------------------------------------------------------------


def _is_one_line_array(head: bytes) -> bool:
    """Lines that are arrays each, as no trace has them: let them be told one by one."""
    first, end, rest = head.lstrip().partition(b"\n")
    return bool(end) and first.rstrip().endswith(b"]") and bool(rest.strip())


def _elements(stream: io.BufferedReader[Any]) -> Iterator[Numbered | Skipped]:
    array = _Array(stream)
    array.skip("[")
    while not array.at_end():
        line = array.line
        try:
            element = array.next_element()
        except _NotFiniteError:
            yield Skipped(line=line, reason=Reason.NOT_FINITE)
            continue
        except UnicodeEncodeError:
            yield Skipped(line=line, reason=Reason.NOT_UTF8)
            continue
        except (ValueError, RecursionError) as error:
            # Where one element ends is not known once it is damaged: the rest of the file cannot be told apart.
            yield Skipped(line=line, reason=array.why(error))
            return
        yield (Numbered(line, element) if isinstance(element, dict) else Skipped(line=line, reason=Reason.NO_OBJECT))
    if not array.closed:
        yield Skipped(line=array.line, reason=Reason.BROKEN_OFF)


class _Array:
    """The elements of one JSON array, parsed one at a time out of a text that moves along."""

    def __init__(self, stream: io.BufferedReader[Any]) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._text = ""
        self._at = 0
        self._ended = False
        self._plain = json.JSONDecoder(parse_constant=_refuse)
        self._lenient = json.JSONDecoder()
        self.line = 1

    def at_end(self) -> bool:
        """Move to the next element; True where there is none."""
        self.skip(",")
        return self._text[self._at : self._at + 1] in ("", "]")

    @property
    def closed(self) -> bool:
        """The array's end is at hand."""
        return self._text[self._at : self._at + 1] == "]"

    def skip(self, mark: str) -> None:
        """Pass over blanks, and ``mark`` among them."""
        while True:
            if self._at >= len(self._text) and not self._more():
                return
            character = self._text[self._at]
            if character != mark and not character.isspace():
                return
            self.line += character == "\n"
            self._at += 1

    def next_element(self) -> Any:
        """Return the element at hand, and move behind it even where it is none that may be used.

        Raises:
            _NotFiniteError, UnicodeEncodeError: it cannot be used.
            ValueError, RecursionError: it is damaged, and its end is not known.
        """
        while True:
            try:
                found, end = self._lenient.raw_decode(self._text, self._at)
                complete = end < len(self._text) or self._ended
            except json.JSONDecodeError:
                complete = False
                if self._ended or len(self._text) - self._at > MOST_LINE_BYTES:
                    raise
            if complete:
                return self._take(found, end)
            self._more()

    def why(self, error: Exception) -> Reason:
        """Return what is wrong with the element at hand."""
        if isinstance(error, RecursionError):
            return Reason.TOO_DEEP
        if len(self._text) - self._at > MOST_LINE_BYTES:
            return Reason.TOO_LONG
        return Reason.BROKEN_OFF if self._ended and self._reached_the_end(error) else Reason.NOT_JSON

    def _reached_the_end(self, error: Exception) -> bool:
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._text.rstrip())

    def _take(self, found: Any, end: int) -> Any:
        text = self._text[self._at : end]
        self.line += text.count("\n")
        strange = "NaN" in text or "Infinity" in text
        start, self._at = self._at, end
        if not text.isascii():
            text.encode("utf-8")  # bytes that are none came in as half surrogate pairs
        if strange:
            self._plain.raw_decode(self._text, start)  # inside a string they are words
        return found

    def _more(self) -> bool:
        """Read on, forgetting what was parsed. False at the end of the file."""
        chunk = self._stream.read(max(_CHUNK_BYTES, len(self._text) - self._at))
        self._ended = not chunk
        self._text = self._text[self._at :] + self._decode(chunk, self._ended)
        self._at = 0
        return bool(chunk)


# -- a table -----------------------------------------------------------------------------------------------------------


def _looks_like_a_table(head: bytes) -> bool:
    first = head.partition(b"\n")[0]
    return any(mark in first for mark in _TABLE_MARKS) and b"{" not in first


def _rows(stream: io.BufferedReader[Any]) -> Iterator[Numbered | Skipped]:
    first = stream.peek(4096).partition(b"\n")[0]
    mark = max(_TABLE_MARKS, key=first.count)
    csv.field_size_limit(MOST_LINE_BYTES)
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
    reader = csv.reader(text, delimiter=mark.decode())
    names = next(reader, [])
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error:
            yield Skipped(line=line, reason=Reason.TOO_LONG)
            continue
        if row:
            yield _row(line, names, row)
    text.detach()


def _row(line: int, names: list[str], row: list[str]) -> Numbered | Skipped:
    if len(row) != len(names):
        return Skipped(line=line, reason=Reason.MALFORMED)
    try:
        return Numbered(line, {name: _cell(text) for name, text in zip(names, row, strict=True)})
    except UnicodeEncodeError:
        return Skipped(line=line, reason=Reason.NOT_UTF8)
    except _NotFiniteError:
        return Skipped(line=line, reason=Reason.NOT_FINITE)
    except RecursionError:
        return Skipped(line=line, reason=Reason.TOO_DEEP)


def _cell(text: str) -> Any:
    """An empty cell is nothing, JSON in a cell is what it says, and anything else a string."""
    if not text:
        return None
    text.encode("utf-8")
    if text[0] in '{["' and text[-1] in '}]"':
        try:
            return json.loads(text, parse_constant=_refuse)
        except json.JSONDecodeError:
            return text
    return text
