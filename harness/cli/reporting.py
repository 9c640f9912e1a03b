"""Derived files and the report of a stored run. Everything here can be made again from the journal."""

from __future__ import annotations

from pathlib import Path

from harness.cli.loading import summaries_of
from harness.cli.streams import shown_if_possible
from harness.errors import InputError
from harness.records.journal import RunData
from harness.records.summary import CellSummary
from harness.report.facts import run_facts
from harness.report.terminal import print_result, stderr_console
from harness.report.view import report_view
from harness.report.write import write_report
from harness.store.frames import write_derived
from harness.store.layout import RunFolder, report_directory
from harness.store.reader import read_run


def report_run(folder: RunFolder, root: Path) -> tuple[RunData, tuple[CellSummary, ...]]:
    """Write cells.csv, cells.parquet and the report, and show the result, even where it cannot be written.

    Returns:
        What was read, and its cells.

    Raises:
        InputError: the run is empty.
        StoreError: something cannot be written.
    """
    run = read_run(folder)
    if not run.trials and not run.launches:
        raise InputError(f"run {folder.run_id} has measured nothing", hint="Resume it, or start it again.")
    cells = summaries_of(run)
    view = report_view(run_facts(run, cells))
    directory = report_directory(
        root, date=run.manifest.started_at[:10], sweep=run.manifest.sweep, run_id=folder.run_id
    )
    written: Path | None = None
    try:
        write_derived(folder, cells)
        written = write_report(view, directory).html
    finally:
        with shown_if_possible():
            print_result(view, stderr_console(), report=written)
    return run, cells
