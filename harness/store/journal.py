"""The journal of a run: one JSON record a line, appended and fsynced when it happens, never rewritten.

A line counts once its newline is on the disk. Whatever follows the last newline was cut by a crash, and so was a last
line that is no JSON (after a power cut a file may have its length before its content). Readers pass over it, and the
next writer moves it to journal.torn.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.errors import StoreError
from harness.records.check import CheckRecord
from harness.records.codec import to_json
from harness.records.journal import LaunchStart, RunNote, SessionEnd, SessionStart
from harness.records.launch import LaunchRecord
from harness.records.trial import TrialRecord
from harness.records.tune import TuneStep
from harness.store.compression import expand_journal
from harness.store.files import disk_error
from harness.store.layout import RunFolder, sync_directory
from harness.store.locks import held, is_held

Entry = SessionStart | SessionEnd | LaunchStart | LaunchRecord | TrialRecord | RunNote | CheckRecord | TuneStep
# The name of each record in the file. Names never change: old journals hold them.
RECORD_NAMES: Final[dict[type[Entry], str]] = {
    SessionStart: "session_start",
    SessionEnd: "session_end",
    LaunchStart: "launch_started",
    LaunchRecord: "launch",
    TrialRecord: "trial",
    RunNote: "note",
    CheckRecord: "check",
    TuneStep: "tune_step",
}


class Journal:
    """The one writer of a run. Use ``open_journal``."""

    def __init__(self, folder: RunFolder, descriptor: int) -> None:
        self._path = folder.journal
        self._descriptor = descriptor
        self._valid_bytes = os.fstat(descriptor).st_size
        self._damaged = False

    def append(self, entry: Entry) -> None:
        """Write one record; when this returns, it survives a crash and a power cut.

        Raises:
            StoreError: it could not be written. The journal holds every earlier record and nothing of this one.
            ValueError: the record holds NaN or infinity.
        """
        if self._damaged:
            raise StoreError(
                "the journal could not be repaired after a failed write",
                where=str(self._path),
                hint="Free space or check the disk, then resume the run: reopening repairs it.",
            )
        line = _line(entry)
        try:
            _write_all(self._descriptor, line)
            _sync(self._descriptor, self._path)
        except OSError as error:
            self._cut_back()
            raise disk_error(error, self._path) from error
        except StoreError:
            # After a failed fsync nobody knows what the disk holds; only a fresh look can tell.
            self._cut_back()
            self._damaged = True
            raise
        self._valid_bytes += len(line)

    def _cut_back(self) -> None:
        """Take half a record off again, so that the next one does not stick to it."""
        try:
            os.ftruncate(self._descriptor, self._valid_bytes)
        except OSError:
            self._damaged = True


@contextmanager
def open_journal(folder: RunFolder, *, at: str) -> Iterator[Journal]:
    """Open the journal of a run for appending, as its only writer; repair a line that a crash cut, and note it.

    One that was compressed is a plain file again from then on. The lock is the kernel's and ends with the process,
    however it ends.

    Args:
        folder: of the run.
        at: wall clock, for the note.

    Raises:
        StoreError: another process writes this run, or the disk does not let us.
    """
    with run_lock(folder):
        expand_journal(folder)
        try:
            descriptor = _open_synced(folder)
        except OSError as error:
            raise disk_error(error, folder.journal) from error
        try:
            repaired = _repair(folder, descriptor)
            journal = Journal(folder, descriptor)
            if repaired:
                journal.append(RunNote(at=at, text=repaired))
            yield journal
        finally:
            os.close(descriptor)


def is_json(line: bytes) -> bool:
    """Return whether a line was written whole."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def is_being_written(folder: RunFolder) -> bool:
    """Return whether some process holds this run open for writing."""
    return is_held(folder.lock)


@contextmanager
def run_lock(folder: RunFolder) -> Iterator[None]:
    """Be the only process that changes this run. Raises StoreError where another one does."""

    def refusal(owner: str) -> StoreError:
        return StoreError(
            f"{owner} is writing this run",
            where=str(folder.path),
            hint=f"Watch it with: harness show {folder.run_id} --follow. Or wait for it, or stop it, and try again.",
        )

    with held(folder.lock, refusal):
        yield


def _open_synced(folder: RunFolder) -> int:
    is_new = not folder.journal.exists()
    descriptor = os.open(folder.journal, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    if is_new:
        sync_directory(folder.path)
    return descriptor


def _repair(folder: RunFolder, descriptor: int) -> str | None:
    """Move what a crash cut to journal.torn. Returns what was done, in words."""
    size = os.fstat(descriptor).st_size
    valid = _end_of_last_line(descriptor, size)
    if valid == size:
        start = _end_of_last_line(descriptor, max(0, size - 1))
        if size == 0 or is_json(_read_range(descriptor, start, size)):
            return None
        valid = start
    try:
        _keep_aside(folder.torn, _read_range(descriptor, valid, size))
        os.ftruncate(descriptor, valid)
        os.fsync(descriptor)
    except OSError as error:
        raise disk_error(error, folder.journal) from error
    return f"the last record was cut short by a crash: its {size - valid} bytes were moved to {folder.torn.name}"


def _end_of_last_line(descriptor: int, size: int) -> int:
    """The offset behind the last newline; read backwards, since a journal may be large."""
    end = size
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        newline = _read_range(descriptor, start, end).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _read_range(descriptor: int, start: int, end: int) -> bytes:
    parts = []
    while start < end:
        part = os.pread(descriptor, end - start, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _keep_aside(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _line(entry: Entry) -> bytes:
    body = to_json(entry)
    return f'{{"record":"{RECORD_NAMES[type(entry)]}",{body[1:]}\n'.encode()


def _write_all(descriptor: int, content: bytes) -> None:
    """A write on a nearly full disk may take only a part; the next one then says why."""
    while content:
        content = content[os.write(descriptor, content) :]


def _sync(descriptor: int, path: Path) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise disk_error(error, path) from error


_BLOCK_BYTES = 1 << 16
