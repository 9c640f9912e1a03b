"""A table view as lines of a terminal: details go first where it is narrow, then long names are cut."""

from __future__ import annotations

import textwrap
from itertools import groupby

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from harness.records.manifest import SIMULATED_MARK
from harness.report.models import Column, Row, TableView
from harness.report.text import one_line

_GAP = 2
_LEAST_NAME_WIDTH = 12
_EMPHASIS = " *"


def print_table(view: TableView, console: Console) -> None:
    """Print the table at the console's width; its groups become headings."""
    shown = _fitting_columns(view, console.width)
    widths = [_width(view, index) for index in shown]
    names = next((place for place, index in enumerate(shown) if not view.columns[index].numeric), 0)
    room = console.width - sum(widths) + widths[names] - _GAP * (len(widths) - 1)
    widths[names] = max(min(widths[names], room), min(widths[names], _LEAST_NAME_WIDTH))
    _print(console, _caption(view))
    for line in _head(view, shown, widths):
        _print(console, line)
    for name, rows in groupby(view.rows, key=lambda row: row.group):
        if name:
            _print(console, Text(one_line(name), style="bold"))
        for row in rows:
            _print(console, _line(view, row, shown, widths))
    if not view.group_label:
        for note in view.notes:
            console.print(Text(one_line(note), style="dim"), soft_wrap=not console.is_terminal)


def _print(console: Console, line: Text) -> None:
    line.rstrip()
    console.print(line, soft_wrap=True)


def _caption(view: TableView) -> Text:
    mark = f"{SIMULATED_MARK} · " if view.simulated else ""
    badge = f" (* {view.badge})" if any(row.emphasis for row in view.rows) else ""
    return Text(one_line(f"{mark}{view.caption}{badge}"), style="dim")


def _fitting_columns(view: TableView, width: int) -> list[int]:
    every = list(range(len(view.columns)))
    plain = [index for index in every if not view.columns[index].detail]
    for shown in (every, plain):
        if sum(_width(view, index) + _GAP for index in shown) - _GAP <= width:
            return shown
    return [index for index in plain if not view.columns[index].spare]


def _width(view: TableView, index: int) -> int:
    words = one_line(view.columns[index].label).split()
    return max(map(cell_len, ["", *words, *(_value(row, index) for row in view.rows)]))


def _value(row: Row, index: int) -> str:
    value = one_line(row.values[index])
    return value if index else f"{'  ' if row.group else ''}{value}{_tail(row)}"


def _tail(row: Row) -> str:
    return (_EMPHASIS if row.emphasis else "") + "".join(f" [{number}]" for number in row.doubts)


def _head(view: TableView, shown: list[int], widths: list[int]) -> list[Text]:
    """Headings wrapped at words, all standing on the last line."""
    columns = [view.columns[index] for index in shown]
    stacks = [textwrap.wrap(one_line(column.label), width) for column, width in zip(columns, widths, strict=True)]
    height = max(len(stack) for stack in stacks)
    level = [[""] * (height - len(stack)) + stack for stack in stacks]
    return [
        Text((" " * _GAP).join(map(_aligned, parts, widths, columns)), style="dim")
        for parts in zip(*level, strict=True)
    ]


def _line(view: TableView, row: Row, shown: list[int], widths: list[int]) -> Text:
    style = _style(row)
    values = [
        _marked(row, width, style)
        if index == 0 and row.doubts
        else Text(_aligned(_value(row, index), width, view.columns[index]), style=style)
        for index, width in zip(shown, widths, strict=True)
    ]
    return Text(" " * _GAP).join(values)


def _style(row: Row) -> str:
    if row.void:
        return "dim"
    return "bold green" if row.emphasis else ""


def _marked(row: Row, width: int, style: str) -> Text:
    """The first value with its doubts behind it, which are never cut off."""
    tail = _tail(row)
    name = _cut(_value(row, 0).removesuffix(tail), width - cell_len(tail))
    text = Text.assemble((name, style), (tail, "yellow"))
    return text.append(" " * max(0, width - text.cell_len))


def _aligned(text: str, width: int, column: Column) -> str:
    cut = _cut(text, width)
    pad = " " * max(0, width - cell_len(cut))
    return pad + cut if column.numeric else cut + pad


def _cut(text: str, width: int) -> str:
    """Names that differ at their end, as knob=value does, still differ when they are cut."""
    if cell_len(text) <= width:
        return text
    if width < _LEAST_NAME_WIDTH // 2:
        return f"{chop_cells(text, width - 1)[0]}…" if width > 1 else text[:1]
    head = chop_cells(text, (width - 1) // 3)[0]
    tail = text
    while cell_len(tail) > width - 1 - cell_len(head):
        tail = tail[1:]
    return f"{head}…{tail}"
