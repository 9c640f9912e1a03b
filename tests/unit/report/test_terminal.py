"""The terminal: aligned and readable on a narrow one, plain where there is none."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from harness.records.events import (
    Event,
    LaunchEnded,
    LaunchProgress,
    LaunchReady,
    LaunchStarted,
    Note,
    PreparationProgress,
    RunStarted,
    TrialDone,
    TrialStarted,
)
from harness.records.plan import Plan, PlannedTrial
from harness.report.labels import labels_of, streams
from harness.report.models import ReportView
from harness.report.progress import ProgressState
from harness.report.terminal import LiveProgress, print_plan, print_result
from harness.units import format_tokens
from tests.fakes.run_builder import FakeRun, RunShape, fake_run

RUN = fake_run(RunShape(contexts=(256,), repeats=1))
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _console(width: int = 100) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False), file


def _events(run: FakeRun) -> list[Event]:
    events: list[Event] = [
        RunStarted(run_id="r1", launches=len(run.launches), trials=len(run.trials), done_trials=0, predicted_s=600.0),
        PreparationProgress(step="engine", detail="3.4 GB to download"),
        Note(text="the server says \x1b[2Jhello"),
    ]
    for number, launch in enumerate(run.launches, start=1):
        events.append(LaunchStarted(ordinal=number, launches=7, configuration=launch.configuration, expected_s=26.0))
        events.append(LaunchProgress(text="Loading weights\x1b[31m 50%\r"))
        if launch.ready_s is not None:
            events.append(LaunchReady(ready_s=launch.ready_s, proof="drafted / drafts = k"))
        for trial in run.trials:
            if trial.launch_id == launch.launch_id:
                events.append(TrialStarted(cell=trial.cell, ordinal=1, trials=len(run.trials)))
                events.append(TrialDone(trial=trial, remaining_s=100.0))
        events.append(LaunchEnded(launch=launch))
    return events


def test_without_a_terminal_each_event_is_one_line_without_control_codes() -> None:
    console, file = _console(width=40)
    events = _events(RUN)

    with LiveProgress(RUN.plan, console=console) as progress:
        for event in events:
            progress.on_event(event)

    lines = file.getvalue().splitlines()
    assert len(lines) == len(events)
    assert CONTROL.search(file.getvalue().replace("\n", "")) is None
    assert any("k=4 · 256 tokens · 1 stream" in line and "tokens/s" in line for line in lines)
    assert any("k=10 · 256 tokens · 1 stream" in line and "? jit in window" in line for line in lines)
    assert lines[-1].startswith("k=14: failed to boot: the engine ended with exit code 1")


def test_a_colour_request_does_not_turn_a_log_into_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    file = io.StringIO()

    with LiveProgress(RUN.plan, console=Console(file=file, width=80)) as progress:
        for event in _events(RUN):
            progress.on_event(event)

    assert not re.search(r"\x1b\[\??\d*[A-HJKlh]", file.getvalue())  # no cursor is moved, hidden or shown


@dataclass(frozen=True, slots=True)
class _Terminal:
    console: Console
    drain: Callable[[], str]


@contextmanager
def _terminal(columns: int) -> Iterator[_Terminal]:
    """A real pseudo-terminal of this width."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    os.set_blocking(reader, False)
    file = os.fdopen(writer, "w")
    console = Console(file=file, width=columns, height=40, highlight=False, markup=False, _environ={"TERM": "xterm"})

    def drain() -> str:
        file.flush()
        text = b""
        try:
            while chunk := os.read(reader, 1 << 16):
                text += chunk
        except BlockingIOError:
            pass
        return text.decode()

    try:
        yield _Terminal(console, drain)
    finally:
        file.close()
        os.close(reader)


@pytest.mark.parametrize("columns", [80, 100, 50])
def test_on_a_terminal_finished_trials_fit_the_width(columns: int) -> None:
    with _terminal(columns) as terminal:
        text = ""
        with LiveProgress(RUN.plan, console=terminal.console) as progress:
            for event in _events(RUN):
                progress.on_event(event)
                text += terminal.drain()
        text += terminal.drain()

    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    lines = [part for line in plain.split("\n") for part in line.split("\r")]
    assert max(map(cell_len, lines)) <= columns
    assert any(line.lstrip().startswith("k=4 · 256") and "tokens/s" in line for line in lines)
    assert "12 trials" in plain
    assert "\x1b[2J" not in text  # what the engine wrote cannot clear the screen
    assert text.count("\x1b[?25h") >= 1  # the cursor is back


def test_the_display_counts_down_between_events(view: ReportView) -> None:
    now = [100.0]
    state = ProgressState(labels_of(RUN.plan.configurations, ()), now_s=lambda: now[0])

    state.take(RunStarted(run_id="r", launches=1, trials=4, done_trials=1, predicted_s=90.0))
    state.take(LaunchStarted(ordinal=1, launches=1, configuration=RUN.plan.configurations[1], expected_s=26.0))
    state.take(LaunchProgress(text="loading"))
    now[0] += 30.0

    assert state.bar_text() == "1 of 4 trials · about 1 min left"
    assert state.now_line() == "launch 1/1: k=1, about 26.0 s · 30 s, longer than expected"
    assert state.detail == "loading"

    state.take(LaunchReady(ready_s=30.0, proof="x"))
    assert state.detail == ""
    assert state.now_line() == "ready after 30.0 s (x) · 0 s"


@pytest.mark.parametrize("width", [80, 100])
def test_the_result_table_keeps_every_row_on_one_line(view: ReportView, width: int) -> None:
    console, file = _console(width)

    print_result(view, console)

    lines = file.getvalue().splitlines()
    rows = [line for line in lines if re.match(r"  (k=|no speculation)", line)]
    assert len(rows) == len(view.cells.rows)
    assert max(map(cell_len, rows)) <= width
    assert any(line.startswith("  k=6 * [2]") for line in rows)
    assert any(line.startswith("[1] jit in window, not used") for line in lines)
    assert any(line.startswith("k=4 is the fastest of 5 configurations") for line in lines)
    assert "  harness sweep sweeps/laptop.yaml --resume 20261130-132811-laptop-4f2a9c --launches 3" in lines


def test_details_appear_where_there_is_room(view: ReportView) -> None:
    wide, wide_file = _console(160)
    narrow, narrow_file = _console(90)

    print_result(view, wide)
    print_result(view, narrow)

    assert "accepted" in wide_file.getvalue()
    assert "accepted" not in narrow_file.getvalue()


def test_a_long_name_is_cut_and_keeps_its_doubts(view: ReportView) -> None:
    console, file = _console(80)
    rows = tuple(replace(row, values=("x" * 200, *row.values[1:])) for row in view.cells.rows)

    print_result(replace(view, cells=replace(view.cells, rows=rows)), console)

    cut = [line for line in file.getvalue().splitlines() if line.startswith("  xx")]
    assert max(map(cell_len, cut)) <= 80
    assert any("…" in line and "x [2]" in line for line in cut)


def test_names_that_differ_at_their_end_still_differ_when_they_are_cut(view: ReportView) -> None:
    console, file = _console(80)
    names = [f"{'threshold_' * 20}={number}" for number in range(len(view.cells.rows))]
    rows = tuple(replace(row, values=(name, *row.values[1:])) for name, row in zip(names, view.cells.rows, strict=True))

    print_result(replace(view, cells=replace(view.cells, rows=rows)), console)

    cut = [line.split("  ")[1] for line in file.getvalue().splitlines() if line.startswith("  thr")]
    assert len(set(cut)) == len(names)


def test_too_many_cells_for_a_screen_become_the_overview(view: ReportView) -> None:
    console, file = _console(100)

    print_result(replace(view, cells=replace(view.cells, rows=view.cells.rows * 3)), console)

    assert "tokens/s by configuration and load" in file.getvalue()
    assert "All 72 cells are in the report." in file.getvalue()


def test_the_plan_names_order_refusals_and_time() -> None:
    console, file = _console(100)

    print_plan(RUN.plan, console)

    text = file.getvalue()
    assert text.startswith("laptop on vllm-cpu-tiny: 7 configurations, 7 launches, 14 trials, about 5 min 1 s")
    assert "Refused: k=32: the recipe allows up to 16" in text
    assert "inert without speculation" in text
    assert "differences from about 12.6 % on can be seen" in text


def test_the_plan_says_what_the_dearest_cells_cost_and_what_will_not_end() -> None:
    console, file = _console(200)
    first, *rest = RUN.plan.launches
    cheap, dear, *others = first.trials
    trials = (replace(cheap, predicted_s=60.0), replace(dear, predicted_s=900.0, uncut_s=1500.0, ttft_s=282.0))
    plan: Plan = replace(RUN.plan, launches=(replace(first, trials=(*trials, *others)), *rest))

    print_plan(plan, console)

    lines = file.getvalue().splitlines()
    (dearest,) = [line for line in lines if line.startswith("Dearest cells of a launch: ")]
    assert dearest.split(": ", 1)[1].startswith(f"{_load_of(dear)}: 25 min (time to first token 4 min 42 s); ")
    (cut,) = [line for line in lines if line.startswith("budget.cell ends after 15 min, before ")]
    assert _load_of(dear) in cut and _load_of(cheap) not in cut


def _load_of(trial: PlannedTrial) -> str:
    return f"{format_tokens(trial.load.context_tokens)} tokens · {streams(trial.load.concurrency)}"


def test_the_plan_says_what_is_done_and_what_does_not_fit() -> None:
    console, file = _console(100)
    first, second, *rest = RUN.plan.launches
    done = replace(first, trials=tuple(replace(trial, done=True) for trial in first.trials))
    plan: Plan = replace(RUN.plan, launches=(done, replace(second, fits_budget=False), *rest))

    print_plan(plan, console)

    text = file.getvalue()
    assert "2 trials done already, 1 launch beyond the budget" in text
    assert re.search(r"^1 .*done$", text, re.M)
    assert re.search(r"^2 .*does not fit the budget$", text, re.M)


def test_without_a_plan_every_knob_is_named() -> None:
    console, file = _console(100)

    with LiveProgress(console=console) as progress:
        progress.on_event(TrialDone(trial=RUN.trials[2], remaining_s=None))

    assert "k=1 · prose · 256 tokens · 1 stream" in file.getvalue()
