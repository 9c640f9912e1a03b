"""A trace file -> its entries, one at a time, and what cannot be replayed, by line and reason."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from harness.errors import InputError
from harness.workload.traces.entry import Entry, NotReplayableError, Reason, Skipped
from harness.workload.traces.formats import FORMATS, TraceFormat, guess
from harness.workload.traces.records import Numbered, records
from harness.workload.traces.source import opened

AUTO = "auto"
_GUESSED_FROM = 50  # records


def read_trace(
    path: Path, *, format_name: str = AUTO, wanted: Container[int] | None = None
) -> Iterator[Entry | Skipped]:
    """Yield what a trace holds, in the order of the file.

    Args:
        path: of the file; gz and zstd are looked through.
        format_name: of FORMATS, or auto.
        wanted: lines on which the entries begin that matter, all of them if None. Others may be left out.

    Raises:
        InputError: the file cannot be read, or its format is not known. No text of the trace is in it.
    """
    with opened(path) as stream:
        found = records(stream, wanted=wanted)
        first = list(islice(found, _GUESSED_FROM))
        chosen = _chosen([each.record for each in first if isinstance(each, Numbered)], format_name, path)
        for each in chain(first, found):
            if isinstance(each, Skipped):
                yield each
            else:
                yield from _entries(chosen, each)


def format_of(path: Path, *, format_name: str = AUTO) -> TraceFormat:
    """Return the format of a trace. Raises InputError."""
    with opened(path) as stream:
        first = list(islice(records(stream), _GUESSED_FROM))
        return _chosen([each.record for each in first if isinstance(each, Numbered)], format_name, path)


def _chosen(first: list[dict[str, object]], format_name: str, path: Path) -> TraceFormat:
    if format_name != AUTO:
        if format_name in FORMATS:
            return FORMATS[format_name]
        near = difflib.get_close_matches(format_name, FORMATS, n=1)
        hint = f'Did you mean "{near[0]}"? ' if near else ""
        raise InputError(
            f'unknown trace format "{format_name}"', hint=f"{hint}Known here: {AUTO}, {', '.join(FORMATS)}."
        )
    found = guess(first)
    if found is None:
        hint = f"Name one with --format: {', '.join(FORMATS)}. A file holds objects on lines, or one array of them."
        raise InputError("the trace is of no known format", where=str(path), hint=hint)
    return found


def _entries(chosen: TraceFormat, numbered: Numbered) -> Iterator[Entry | Skipped]:
    line, record, text = numbered
    if not chosen.fits(record):
        yield Skipped(line=line, reason=Reason.OTHER_FORMAT)
        return
    try:
        for entry in chosen.read(record, line):
            is_all = text is not None and isinstance(entry, Entry) and entry.body == record
            yield replace(entry, body_json=text) if is_all and isinstance(entry, Entry) else entry
    except NotReplayableError as refused:
        yield Skipped(line=line, reason=refused.reason)
