"""The figures of a report as data: which panel, which line, which points."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from harness.records.cell import LoadPoint
from harness.records.summary import CellSummary
from harness.report.facts import trial_values
from harness.report.labels import streams
from harness.report.models import FigureView, Line, Panel, Point
from harness.report.reading import Reading
from harness.report.tables import SPEED, step_seconds
from harness.units import format_tokens

DRAFTED = "drafted tokens per step, k"
_Item = TypeVar("_Item")


def figures(reading: Reading) -> tuple[FigureView, ...]:
    """Return the three figures, each with its data or with the reason why it shows nothing."""
    return (_speed(reading), _acceptance(reading), _step(reading))


def _speed(reading: Reading) -> FigureView:
    """Tokens per second by k: a panel for each context, a line for each concurrency and other knob."""
    cells = [facts for facts in _with_depth(reading) if facts.values.get(SPEED) is not None]
    concurrencies = sorted({facts.cell.load.concurrency for facts in cells})
    others = _distinct(reading.labels.others(facts.cell.configuration) for facts in cells)
    panels = []
    for title, group in _by_panel(reading, cells):
        lines = []
        for concurrency in concurrencies:
            for other in others:
                chosen = [
                    facts
                    for facts in group
                    if facts.cell.load.concurrency == concurrency
                    and reading.labels.others(facts.cell.configuration) == other
                ]
                style = _Style(colour=concurrencies.index(concurrency), dash=others.index(other))
                lines += _line(", ".join(filter(None, (streams(concurrency), other))), chosen, _speed_values, style)
        panels.append(Panel(title=title, x_label=DRAFTED, y_label="tokens/s of one stream", lines=tuple(lines)))
    return FigureView(
        name="speed",
        title="Decode speed by k",
        caption="A dot is a trial, the line joins the medians, a ring is a cell with a doubt. k = 0 is no speculation.",
        panels=tuple(panels),
        shared_y=True,
        simulated=reading.facts.manifest.simulated,
        absent_because=None if panels else _why_nothing(reading, SPEED, "no cell has a decode rate"),
    )


def _acceptance(reading: Reading) -> FigureView:
    """Acceptance by position: a panel for each context at its fewest streams, a line for each k."""
    cells = [facts for facts in _with_depth(reading) if facts.by_position]
    depths = sorted({facts.cell.configuration.num_speculative_tokens or 0 for facts in cells})
    others = _distinct(reading.labels.others(facts.cell.configuration) for facts in cells)
    panels = []
    for title, group in _by_panel(reading, cells):
        fewest = min(facts.cell.load.concurrency for facts in group)
        shown = [facts for facts in group if facts.cell.load.concurrency == fewest]
        lines = [
            _position_line(facts, _position_label(reading, facts), _style_of(reading, facts, depths, others))
            for facts in shown
        ]
        panels.append(
            Panel(
                title=f"{title}, {streams(fewest)}",
                x_label="position in the draft",
                y_label="accepted, % of drafts",
                lines=tuple(lines),
                y_limit=100.0,
                factor=100.0,
            )
        )
    return FigureView(
        name="acceptance",
        title="Acceptance by position",
        caption="The share of drafts in which the token at a position was accepted. One line for each k.",
        panels=tuple(panels),
        shared_y=True,
        simulated=reading.facts.manifest.simulated,
        absent_because=None
        if panels
        else _why_nothing(reading, "acceptance_by_position", "no cell has acceptance by position"),
    )


def _step(reading: Reading) -> FigureView:
    """Tokens per step beside the time of a step, by k: a line for each load and other knob."""
    cells = list(_with_depth(reading))
    length = _by_load_lines(reading, cells, _length_values)
    time = _by_load_lines(reading, cells, _step_values)
    absent = None
    if not length:
        absent = _why_nothing(reading, "acceptance_length", "no cell has an acceptance length")
    elif not time:
        absent = _why_nothing(reading, "step_s", "no cell has a step time")
    return FigureView(
        name="step",
        title="Where a step's time goes",
        caption="Speed is the left figure divided by the right one: a deeper draft brings more tokens, and costs time.",
        panels=(
            Panel(title="What a step brings", x_label=DRAFTED, y_label="tokens per step", lines=length),
            Panel(title="What a step costs", x_label=DRAFTED, y_label="step time, ms", lines=time, factor=1000.0),
        ),
        simulated=reading.facts.manifest.simulated,
        absent_because=absent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    colour: int
    dash: int


def _with_depth(reading: Reading) -> tuple[CellSummary, ...]:
    return tuple(
        facts
        for facts in reading.cells()
        if not facts.void and facts.cell.configuration.num_speculative_tokens is not None
    )


def _by_panel(reading: Reading, cells: Iterable[CellSummary]) -> list[tuple[str, list[CellSummary]]]:
    groups: dict[str, list[CellSummary]] = {}
    for facts in cells:
        groups.setdefault(_panel_title(reading, facts.cell.load), []).append(facts)
    return list(groups.items())


def _panel_title(reading: Reading, load: LoadPoint) -> str:
    """The load without its streams."""
    return reading.labels.load(load).replace(f" · {streams(load.concurrency)}", "")


def _by_load_lines(
    reading: Reading, cells: list[CellSummary], values: Callable[[CellSummary], tuple[float | None, tuple[float, ...]]]
) -> tuple[Line, ...]:
    """A line for each load: colour by streams, dash by context and whatever else varies."""
    concurrencies = sorted({facts.cell.load.concurrency for facts in cells})
    groups: dict[tuple[str, str], list[CellSummary]] = {}
    for facts in cells:
        key = (reading.labels.load(facts.cell.load), reading.labels.others(facts.cell.configuration))
        groups.setdefault(key, []).append(facts)
    dashes = _distinct(
        (_panel_title(reading, facts.cell.load), key[1]) for key, group in groups.items() for facts in group
    )
    lines: list[Line] = []
    for (load, other), group in groups.items():
        one = group[0].cell.load
        style = _Style(
            colour=concurrencies.index(one.concurrency), dash=dashes.index((_panel_title(reading, one), other))
        )
        lines += _line(", ".join(filter(None, (_short(load, one), other))), group, values, style)
    return tuple(lines)


def _short(label: str, load: LoadPoint) -> str:
    return label.replace(
        f"{format_tokens(load.context_tokens)} tokens · {streams(load.concurrency)}",
        f"{format_tokens(load.context_tokens)} × {load.concurrency}",
    )


def _line(
    label: str,
    cells: list[CellSummary],
    values: Callable[[CellSummary], tuple[float | None, tuple[float, ...]]],
    style: _Style,
) -> list[Line]:
    points = []
    for facts in sorted(cells, key=lambda one: one.cell.configuration.num_speculative_tokens or 0):
        median, trials = values(facts)
        if median is not None:
            k = facts.cell.configuration.num_speculative_tokens or 0
            points.append(Point(k=k, median=median, values=trials, doubtful=bool(facts.doubts)))
    return [Line(label=label, points=tuple(points), colour=style.colour, dash=style.dash)] if points else []


def _position_line(facts: CellSummary, label: str, style: _Style) -> Line:
    points = tuple(
        Point(k=position, median=ratio, values=(ratio,), doubtful=False)
        for position, ratio in enumerate(facts.by_position or (), start=1)
    )
    return Line(label=label, points=points, colour=style.colour, dash=style.dash)


def _position_label(reading: Reading, facts: CellSummary) -> str:
    k = f"k={facts.cell.configuration.num_speculative_tokens}"
    return ", ".join(filter(None, (k, reading.labels.others(facts.cell.configuration))))


def _style_of(reading: Reading, facts: CellSummary, depths: list[int], others: list[str]) -> _Style:
    configuration = facts.cell.configuration
    return _Style(
        colour=depths.index(configuration.num_speculative_tokens or 0),
        dash=others.index(reading.labels.others(configuration)),
    )


def _speed_values(facts: CellSummary) -> tuple[float | None, tuple[float, ...]]:
    return facts.values.get(SPEED), trial_values(facts, SPEED)


def _length_values(facts: CellSummary) -> tuple[float | None, tuple[float, ...]]:
    if facts.cell.configuration.num_speculative_tokens == 0:
        return 1.0, (1.0,)  # by definition: without drafts a step is a token
    return facts.values.get("acceptance_length"), trial_values(facts, "acceptance_length")


def _step_values(facts: CellSummary) -> tuple[float | None, tuple[float, ...]]:
    name, median = step_seconds(facts)
    return median, trial_values(facts, name)


def _distinct(items: Iterable[_Item]) -> list[_Item]:
    return list(dict.fromkeys(items))


def _why_nothing(reading: Reading, metric: str, otherwise: str) -> str:
    """The commonest reason why a figure is missing."""
    if not any(not facts.void for facts in reading.facts.cells):
        return "no cell has a usable trial"
    if all(facts.cell.configuration.num_speculative_tokens is None for facts in reading.facts.cells):
        return "num_speculative_tokens is not set in this sweep, so there is no k to draw against"
    reasons = [facts.null_reasons[metric] for facts in reading.facts.cells if metric in facts.null_reasons]
    return f"{otherwise} ({max(sorted(set(reasons)), key=reasons.count)})" if reasons else otherwise
