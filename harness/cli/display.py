"""A run on the terminal: while it goes on, and what it says in the end. Imports nothing that draws figures."""

from __future__ import annotations

from types import TracebackType

from harness.cli.comparing import stored_comparison, stored_confirmation
from harness.cli.loading import limits_of, summaries_of
from harness.cli.streams import shown_if_possible
from harness.records.events import Event
from harness.records.plan import Plan
from harness.report.facts import run_facts
from harness.report.models import ReportView
from harness.report.terminal import LiveProgress, stderr_console
from harness.report.view import report_view
from harness.store.layout import RunFolder
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
    cells = summaries_of(run)
    tuned = stored_confirmation(folder, run, cells)
    return report_view(run_facts(run, cells, stored_comparison(folder, run, cells), tuned=tuned))
