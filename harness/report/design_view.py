"""What a plan can show, as a line and a table."""

from __future__ import annotations

from harness.records.design import Design, DesignRow
from harness.report.labels import counted, streams
from harness.report.models import Column, Row, TableView
from harness.stats.power import MOST_LAUNCHES
from harness.units import format_ratio, format_seconds, format_tokens


def design_lines(design: Design) -> tuple[str, ...]:
    """Return what the whole workload can show, and what more would take."""
    whole = design.rows[0]
    noise = _noise_words(whole)
    each = counted(whole.launches, "launch", "launches")
    if whole.smallest_visible_ratio is None:
        seen = f"With {each} of each configuration nothing below a slow boot can be told apart ({noise})."
    else:
        least = format_ratio(whole.smallest_visible_ratio)
        seen = f"With {each} of each configuration a gain of {least} is found in 80 of 100 comparisons ({noise})."
    wanted = (
        f"A gain of 3 % needs {_launches(whole.launches_for_3_percent, design)} of each of two configurations, one of "
        f"5 % {_launches(whole.launches_for_5_percent, design)}; that there is no difference within "
        f"{format_ratio(design.margin_ratio)}, {_launches(whole.launches_for_no_difference, design)}."
    )
    return seen, wanted


def design_table(design: Design) -> TableView | None:
    """Return a row for each shape whose noise is known; None where none is."""
    if len(design.rows) < 2:
        return None
    return TableView(
        caption="What this plan can show, by the noise floor of this rig",
        columns=(
            Column(label="load", numeric=False),
            Column(label="launches differ by"),
            Column(label="smallest gain"),
            Column(label="launches for 3 %"),
            Column(label="for 5 %"),
            Column(label="for no difference"),
        ),
        rows=tuple(
            Row(
                values=(
                    _load(row),
                    format_ratio(row.floor.sigma_ratio),
                    "one launch" if row.smallest_visible_ratio is None else format_ratio(row.smallest_visible_ratio),
                    _count(row.launches_for_3_percent),
                    _count(row.launches_for_5_percent),
                    _count(row.launches_for_no_difference),
                )
            )
            for row in design.rows
        ),
    )


def _noise_words(row: DesignRow) -> str:
    sigma = format_ratio(row.floor.sigma_ratio)
    if row.floor.source == "stored":
        return f"launches of this rig differ by {sigma}, A/A of {(row.floor.measured_at or '')[:10]}"
    return f"launches are assumed to differ by {sigma}; harness ab FILE --same measures it"


def _load(row: DesignRow) -> str:
    if row.context_tokens is None or row.concurrency is None:
        return "whole workload"
    return f"{format_tokens(row.context_tokens)} tokens · {streams(row.concurrency)}"


def _launches(count: int | None, design: Design) -> str:
    if count is None:
        return f"more than {MOST_LAUNCHES} launches"
    return f"{counted(count, 'launch', 'launches')} ({format_seconds(count * design.round_s)})"


def _count(count: int | None) -> str:
    return f"> {MOST_LAUNCHES}" if count is None else str(count)
