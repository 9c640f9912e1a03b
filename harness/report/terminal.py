"""The terminal: a run while it goes on, plans and results. Everything goes to stderr."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from harness.records.cell import Cell
from harness.records.events import (
    Event,
    LaunchEnded,
    LaunchProgress,
    PreparationProgress,
    TrialDone,
    TrialStarted,
)
from harness.records.manifest import SIMULATED_MARK
from harness.records.plan import Plan
from harness.records.trial import TrialRecord
from harness.report.design_view import design_table
from harness.report.labels import Labels, counted, labels_of, words
from harness.report.models import ComparisonView, DoubtGroup, NightView, ReportView, Tone, TunedView
from harness.report.night import with_sparks
from harness.report.plan_view import MOST_ROWS, cost_lines, plan_line, planned_launches, visible_lines
from harness.report.progress import ProgressState, event_words
from harness.report.screen_table import print_table
from harness.report.tables import SPEED
from harness.report.text import one_line
from harness.stats.case import Limits
from harness.stats.checks import doubts
from harness.stats.summary import trial_metrics
from harness.units import format_number, format_rate, format_seconds

_FIGURES_WIDTH = 42  # speed, acceptance and step of a finished trial
_LEAST_NAME_WIDTH = 18
_MOST_NAME_WIDTH = 48
_REFRESH_PER_S = 4
_TONES: dict[Tone, str] = {"good": "bold green", "bad": "bold red", "doubt": "bold yellow", "plain": "bold"}
_SHOWN_BELOW = (PreparationProgress, LaunchProgress, TrialStarted)  # in the live part alone


def stderr_console() -> Console:
    """Return the console that progress, tables and hints go to. It honours NO_COLOR."""
    return _Console(stderr=True, highlight=False, emoji=False, markup=False)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the caller: rich ends the program, and a run outlives whoever watches it."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads stderr")


class LiveProgress:
    """Shows events as they come. Use as a context manager and pass ``on_event`` to the run.

    On a terminal finished trials scroll by above a bar with the time left and the line of what goes on now.
    On anything else, a CI log or a file, each event is one line without control codes.

    Args:
        plan: lets names leave out what all configurations share; without it every knob is named.
        console: stderr by default.
        limits: of the doubts shown behind a trial.
        now_s: monotonic seconds, for the time left between two events.
    """

    def __init__(
        self,
        plan: Plan | None = None,
        *,
        console: Console | None = None,
        limits: Limits | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._labels = _labels_of_plan(plan) if plan else Labels()
        self._console = console or stderr_console()
        self._limits = limits or Limits()
        self._state = ProgressState(self._labels, now_s=now_s)
        self._spinner = Spinner("dots", style="cyan")
        # rich takes FORCE_COLOR for a terminal, which a CI log is not.
        live = self._console.is_terminal and self._console.file.isatty() and not self._console.is_dumb_terminal
        self._live = (
            Live(get_renderable=self._draw, console=self._console, refresh_per_second=_REFRESH_PER_S, transient=True)
            if live
            else None
        )

    def __enter__(self) -> LiveProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def on_event(self, event: Event) -> None:
        """Take one event."""
        self._state.take(event)
        if self._live is None:
            self._console.print(self._line(event), soft_wrap=True)
        elif not isinstance(event, _SHOWN_BELOW):
            self._console.print(self._line(event), no_wrap=True, overflow="ellipsis", crop=True)

    def _line(self, event: Event) -> Text:
        if isinstance(event, TrialDone):
            return self._trial_line(event.trial)
        failed = isinstance(event, LaunchEnded) and event.launch.outcome != "measured"
        return Text(event_words(event, self._labels), style="red" if failed else "dim")

    def _trial_line(self, trial: TrialRecord) -> Text:
        name = self._fitted(trial.cell)
        metrics = trial_metrics(trial)
        if metrics.values[SPEED] is None:
            reason = one_line(metrics.null_reasons.get(SPEED, "nothing was measured"))
            return Text(f"  {name}  {reason}", style="red")
        acceptance, step = metrics.values["acceptance_length"], metrics.values["iteration_s"]
        length = f"{format_number(acceptance)} tokens/step" if acceptance else ""
        figures = f"{format_rate(metrics.values[SPEED]):>5} tokens/s  {length:>16}  "
        figures += f"{format_seconds(step or metrics.values['step_s']):>8}"
        text = Text(f"  {name}  ") + Text(figures, style="bold")
        found = doubts(trial, metrics, None, self._limits)
        if found:
            void = any(doubt.void for doubt in found)
            text.append(f"  ? {', '.join(words(doubt.kind) for doubt in found)}", style="red" if void else "yellow")
        return text.append(f"  {SIMULATED_MARK}", style="red") if trial.simulated else text

    def _fitted(self, cell: Cell) -> str:
        """The cell's name at a width that leaves room for the figures; whole where nothing is aligned."""
        name = one_line(self._labels.cell(cell))
        if self._live is None:
            return name
        room = max(_LEAST_NAME_WIDTH, min(_MOST_NAME_WIDTH, self._console.width - _FIGURES_WIDTH - 4))
        if cell_len(name) > room:
            name = one_line(f"{self._labels.configuration(cell.configuration)} · {self._labels.short_load(cell.load)}")
        return set_cell_size(name, room)

    def _draw(self) -> RenderableType:
        state = self._state
        now = Table.grid(padding=(0, 1), expand=True)
        now.add_column(width=1)
        now.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        now.add_row(self._spinner, Text(state.now_line()))
        if state.detail:
            now.add_row("", Text(state.detail, style="dim"))
        bar = Table.grid(padding=(0, 1), expand=True)
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        bar.add_row(ProgressBar(total=max(1, state.trials), completed=state.done), Text(state.bar_text()))
        return Group(now, bar)


def print_plan(plan: Plan, console: Console | None = None) -> None:
    """Print what a run will do: launches in order with their times, and what is not launched, with the reason."""
    console = console or stderr_console()
    labels = _labels_of_plan(plan)
    _say(console, plan_line(plan), style="bold")
    if plan.launches:
        print_table(planned_launches(plan, labels), console)
    _print_left_out(plan, labels, console)
    shown = design_table(plan.design) if plan.design else None
    if shown is not None:
        print_table(shown, console)
    for line in (*cost_lines(plan, labels), *visible_lines(plan), *plan.notes):
        _say(console, line)


def print_result(view: ReportView, console: Console | None = None, *, report: Path | None = None) -> None:
    """Print the result table, its doubts, what was found and what to run next, and where the report lies."""
    console = console or stderr_console()
    console.print()
    _print_tables(view, console)
    console.print()
    if view.simulated:
        _say(console, f"{SIMULATED_MARK}: no engine ran; every number comes from a model.", style="bold red")
    for failure in view.failures:
        _say(console, f"{failure.configuration}: {failure.outcome}: {failure.reason}", style="red")
    _say(console, view.headline.result, style=_TONES[view.night.tone] if view.night else "bold")
    for line in view.headline.qualifications:
        _say(console, line, bullet=True)
    if view.headline.next_step:
        _say(console, f"Next: {view.headline.next_step.because} It takes about {view.headline.next_step.time}:")
        # Not wrapped: a command must survive copying.
        console.print(Text(f"  {one_line(view.headline.next_step.command)}", style="cyan"), soft_wrap=True)
    if report is not None:
        console.print(Text(f"Report: {report}"), soft_wrap=True)


def _print_tables(view: ReportView, console: Console) -> None:
    if view.night is not None:
        print_night(view.night, console)
    elif view.tuned is not None:
        _print_search(view.tuned, console)
    elif view.comparison is not None:
        _print_comparison(view.comparison, console)
    else:
        print_cells(view, console)


def print_night(view: NightView, console: Console | None = None) -> None:
    """Print the series of a night with the nights before it, what moved beside them, and what else is to be known."""
    console = console or stderr_console()
    print_table(with_sparks(view), console)
    if view.beside is not None:
        console.print()
        print_table(view.beside, console)
    for line in (view.beside_words, *view.notes, *(f"{fact.name}: {fact.value}" for fact in view.baseline)):
        if line:
            _say(console, line, style="dim")
    for one in view.watched:
        console.print()
        _say(console, f"{one.configuration} (watched, does not gate): {one.badge}", style="bold")
        print_table(with_sparks(one), console)


def _print_search(view: TunedView, console: Console) -> None:
    print_table(view.steps, console)
    if view.finalists is not None:
        console.print()
        print_table(view.finalists, console)


def _print_comparison(comparison: ComparisonView, console: Console) -> None:
    table = comparison.noise or comparison.cells
    if table.rows:
        print_table(table, console)


def print_cells(view: ReportView, console: Console | None = None) -> None:
    """Print the cells with their doubts; where they are too many for a screen, the overview."""
    console = console or stderr_console()
    table = view.cells if len(view.cells.rows) <= MOST_ROWS else view.overview
    print_table(table, console)
    if table is not view.cells:
        _say(console, f"All {len(view.cells.rows)} cells are in the report.")
    for group in view.doubts:
        _say(console, _doubt_line(group), style="yellow")


def _labels_of_plan(plan: Plan) -> Labels:
    loads = tuple(trial.load for launch in plan.launches for trial in launch.trials)
    return labels_of((*plan.configurations, *(refusal.configuration for refusal in plan.refusals)), loads)


def _print_left_out(plan: Plan, labels: Labels, console: Console) -> None:
    for refusal in plan.refusals:
        where = f" ({refusal.where})" if refusal.where else ""
        source = f" Source: {refusal.source}" if refusal.source else ""
        name = labels.configuration(refusal.configuration)
        _say(console, f"Refused: {name}: {refusal.because}{where}.{source}", style="yellow")
    for same in plan.collapsed:
        names = "; ".join(configuration.label for configuration in same.same_as)
        _say(console, f"One server: {names} is {labels.configuration(same.kept)}: {same.because}")
    if plan.excluded_configurations or plan.excluded_cells:
        configurations = counted(plan.excluded_configurations, "configuration")
        _say(console, f"Excluded by the sweep: {configurations} and {counted(plan.excluded_cells, 'cell')}")


def _doubt_line(group: DoubtGroup) -> str:
    where = group.cases[0].where + (f" and {len(group.cases) - 1} more" if len(group.cases) > 1 else "")
    void = ", not used" if group.void else ""
    return f"[{group.number}] {group.title}{void} ({where}): {group.remedy}"


def _say(console: Console, line: str, *, style: str = "", bullet: bool = False) -> None:
    """Print wrapped text; on a file every line stays whole."""
    text = Text(f"{'- ' if bullet else ''}{one_line(line)}", style=style)
    console.print(text, soft_wrap=not console.is_terminal)
