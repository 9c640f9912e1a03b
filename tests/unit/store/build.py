"""Small records for the store's tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.records.journal import RunNote
from harness.store.journal import Entry, open_journal
from harness.store.layout import RunFolder, create_run
from harness.store.reader import write_manifest, write_plan
from tests.fakes.run_builder import FakeRun, RunShape, fake_run

AT = "2026-11-30T13:28:11+00:00"
RUN_ID = "20261130-132811-laptop-4f2a9c"
SMALL = RunShape(tokens=(0, 2), concurrencies=(1,), contexts=(256,), repeats=1, with_doubts=False, with_failure=False)


def note(text: str) -> RunNote:
    return RunNote(at=AT, text=text)


def new_folder(root: Path, run: FakeRun | None = None) -> RunFolder:
    """A run's folder with manifest and plan, and an empty journal."""
    run = run or fake_run(SMALL)
    folder = create_run(root, RUN_ID)
    write_manifest(folder, run.manifest)
    write_plan(folder, run.plan)
    return folder


def write(folder: RunFolder, entries: Iterable[Entry]) -> None:
    with open_journal(folder, at=AT) as journal:
        for entry in entries:
            journal.append(entry)
