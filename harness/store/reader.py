"""Reading runs back: whole, or record by record while they are being written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from harness.errors import UnreadableRunError
from harness.records.check import CheckRecord
from harness.records.codec import from_json, to_json
from harness.records.journal import LaunchStart, RunData, RunNote, SessionEnd, SessionStart
from harness.records.launch import LaunchRecord
from harness.records.manifest import RECORD_VERSION, Manifest
from harness.records.plan import Plan
from harness.records.trial import TrialRecord
from harness.records.tune import TuneStep
from harness.store.compression import open_stored_journal, readable
from harness.store.files import disk_error, write_whole
from harness.store.journal import RECORD_NAMES, Entry, is_json
from harness.store.layout import RunFolder

Record = TypeVar("Record")
_RESTORE = "Put a copy of it back; the measurements are in the journal beside it."


def write_manifest(folder: RunFolder, manifest: Manifest) -> None:
    """Store where the run's numbers come from. Raises StoreError."""
    write_whole(folder.manifest, f"{to_json(manifest)}\n".encode())


def write_plan(folder: RunFolder, plan: Plan) -> None:
    """Store what the run will do, in place of an earlier plan. Raises StoreError."""
    write_whole(folder.plan, f"{to_json(plan)}\n".encode())


def read_manifest(folder: RunFolder) -> Manifest:
    """Return the provenance of a run.

    Raises:
        StoreError: this is no run, it is damaged, or a newer harness wrote it.
    """
    text = _text(folder.manifest, missing="this is not the folder of a run")
    _require_readable_version(text, folder)
    return _record(Manifest, text, where=str(folder.manifest), hint=_RESTORE)


def read_plan(folder: RunFolder) -> Plan | None:
    """Return what a run does; None where it was killed before it knew. Raises StoreError where it is damaged."""
    if not folder.plan.exists():
        return None
    return _record(Plan, _text(folder.plan, missing="there is no plan"), where=str(folder.plan), hint=_RESTORE)


def read_run(folder: RunFolder) -> RunData:
    """Return everything that a run's folder holds. A run that is being written may be read at any time.

    Raises:
        StoreError: as ``read_manifest``; or a line inside the journal is not a record, which names the line.
    """
    manifest = read_manifest(folder)
    plan = read_plan(folder)
    tail = JournalTail(folder)
    entries = list(tail.new_entries())
    return RunData(
        manifest=manifest,
        plan=plan,
        launches=tuple({launch.launch_id: launch for launch in _of(LaunchRecord, entries)}.values()),
        trials=_of(TrialRecord, entries),
        notes=_of(RunNote, entries),
        launch_starts=_of(LaunchStart, entries),
        sessions=_of(SessionStart, entries),
        ends=_of(SessionEnd, entries),
        checks=_of(CheckRecord, entries),
        tune_steps=_of(TuneStep, entries),
        torn=tail.torn,
    )


class JournalTail:
    """A reader that remembers how far it has read, for following a run that is being written."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._offset = 0
        self._line = 0
        self.torn = False  # after the last complete line there was more

    def new_entries(self) -> Iterator[Entry]:
        """Yield the records that are complete and were not there the last time.

        Raises:
            StoreError: a line is not a record; the message names the line and does not quote it.
        """
        opened = open_stored_journal(self._folder)
        if opened is None:
            return
        path, file = opened
        with file, readable(path):
            file.seek(self._offset)
            self.torn = False
            while raw := file.readline():
                is_last = not file.peek(1)
                if not raw.endswith(b"\n") or (is_last and not is_json(raw)):
                    self.torn = True
                    return
                self._offset += len(raw)
                self._line += 1
                yield _entry(raw, where=f"{path}:{self._line}")


_KINDS: dict[str, type[Entry]] = {name: kind for kind, name in RECORD_NAMES.items()}


def _of(kind: type[Record], entries: list[Entry]) -> tuple[Record, ...]:
    return tuple(entry for entry in entries if isinstance(entry, kind))


def _entry(raw: bytes, *, where: str) -> Entry:
    try:
        text = raw.decode()
        kind = _KINDS[json.loads(text)["record"]]
    except (ValueError, KeyError, TypeError):
        raise _damaged(where) from None
    return _record(kind, text, where=where)


def _record(kind: type[Record], text: str, *, where: str, hint: str | None = None) -> Record:
    try:
        return from_json(kind, text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise _damaged(where, f"not a {kind.__name__}: {field}: {first['msg']}", hint=hint) from None


def _damaged(where: str, what: str = "not a record", *, hint: str | None = None) -> UnreadableRunError:
    remedy = hint or "Take that line out (keep a copy) to use the rest."
    return UnreadableRunError(what, where=where, hint=f"The file was changed or the disk lost data. {remedy}")


def _require_readable_version(text: str, folder: RunFolder) -> None:
    try:
        tree: Any = json.loads(text)
        version = tree["record_version"]
    except (ValueError, KeyError, TypeError):
        raise _damaged(str(folder.manifest), "not a manifest", hint=_RESTORE) from None
    if not isinstance(version, int) or version > RECORD_VERSION:
        writer = tree.get("harness_version", "a newer version")
        raise UnreadableRunError(
            f"written as record version {version}; this harness reads up to {RECORD_VERSION}",
            where=str(folder.path),
            hint=f"Read it with harness {writer} or newer. Nothing was changed.",
        )


def _text(path: Path, *, missing: str) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise UnreadableRunError(
            missing, where=str(path.parent), hint="harness show latest shows the newest run."
        ) from None
    except OSError as error:
        raise disk_error(error, path) from error
    except UnicodeDecodeError:
        raise _damaged(str(path), "not text", hint=_RESTORE) from None
