"""Watch a run that another process writes, from its journal."""

from __future__ import annotations

import asyncio

from harness.cli.display import progress_of
from harness.errors import InputError
from harness.records.check import CheckRecord, check_words
from harness.records.events import Event, LaunchEnded, LaunchStarted, Note, RunStarted, TrialDone
from harness.records.journal import LaunchStart, RunNote, SessionEnd
from harness.records.launch import LaunchRecord
from harness.records.trial import TrialRecord
from harness.records.tune import TuneStep, step_words
from harness.run.pace import Pace
from harness.store.journal import Entry, is_being_written
from harness.store.layout import RunFolder
from harness.store.reader import JournalTail, read_run

_POLL_S = 0.5


async def follow(folder: RunFolder) -> None:
    """Show what happens until the run's process ends. Returns at once if none writes it."""
    run = read_run(folder)
    if run.plan is None:
        raise InputError(f"run {folder.run_id} has no plan yet", hint="Try again in a moment.")
    tail = JournalTail(folder)
    pace = Pace(run.plan)
    launches = pace.launches
    started: RunStarted = pace.started(folder.run_id, launches=launches)
    with progress_of(run.plan) as progress:
        progress.on_event(started)
        while True:
            writing = is_being_written(folder)  # before the read, so that the last records are seen
            for entry in tail.new_entries():
                event = _event(entry, launches)
                if event is not None:
                    progress.on_event(event)
            if not writing:
                return
            await asyncio.sleep(_POLL_S)


def _event(entry: Entry, launches: int) -> Event | None:
    if isinstance(entry, LaunchStart):
        return LaunchStarted(
            ordinal=entry.ordinal, launches=launches, configuration=entry.configuration, expected_s=None
        )
    if isinstance(entry, TrialRecord):
        return TrialDone(trial=entry, remaining_s=None)
    if isinstance(entry, LaunchRecord):
        return LaunchEnded(launch=entry)
    if isinstance(entry, RunNote):
        return Note(text=entry.text)
    if isinstance(entry, TuneStep):
        return Note(text=step_words(entry))
    if isinstance(entry, CheckRecord):
        return Note(text=check_words(entry))
    if isinstance(entry, SessionEnd) and entry.outcome != "finished":
        return Note(text=f"the run was {entry.outcome}{f': {entry.reason}' if entry.reason else ''}")
    return None
