"""Derived files and the report of a stored run. Everything here can be made again from the journal."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from harness.cli.loading import limits_of, summaries_of
from harness.cli.streams import shown_if_possible
from harness.errors import InputError
from harness.records.events import Event
from harness.records.plan import Plan
from harness.report.facts import run_facts
from harness.report.models import ReportView
from harness.report.terminal import LiveProgress, print_result, stderr_console
from harness.report.view import report_view
from harness.report.write import ReportPaths, write_report
from harness.store.frames import write_derived
from harness.store.layout import RunFolder, report_directory
from harness.store.reader import read_run


def progress_of(plan: Plan) -> LiveProgress:
    """Return the live display of a run with this plan."""
    return LiveProgress(console=stderr_console(), plan=plan, limits=limits_of(plan))


class LastingProgress:
    """The live display of a run that outlives it: if the terminal or the pipe goes away, the run goes on unseen."""

    def __init__(self, plan: Plan) -> None:
        self._live = progress_of(plan)

    def __enter__(self) -> LastingProgress:
        with shown_if_possible():
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with shown_if_possible():
            self._live.__exit__(kind, error, trace)

    def on_event(self, event: Event) -> None:
        """Show one event."""
        with shown_if_possible():
            self._live.on_event(event)


def view_of(folder: RunFolder) -> ReportView:
    """Return what a report of the run says. Raises InputError where nothing was planned."""
    run = read_run(folder)
    return report_view(run_facts(run, summaries_of(run)))


def report_run(folder: RunFolder, root: Path) -> ReportPaths:
    """Write cells.csv, cells.parquet and the report, and show the result. Raises InputError for an empty run."""
    run = read_run(folder)
    if not run.trials and not run.launches:
        raise InputError(f"run {folder.run_id} has measured nothing", hint="Resume it, or start it again.")
    cells = summaries_of(run)
    write_derived(folder, cells)
    view = report_view(run_facts(run, cells))
    directory = report_directory(
        root, date=run.manifest.started_at[:10], sweep=run.manifest.sweep, run_id=folder.run_id
    )
    paths = write_report(view, directory)
    with shown_if_possible():
        print_result(view, stderr_console(), report=paths.html)
    return paths
