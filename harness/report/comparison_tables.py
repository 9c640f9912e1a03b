"""The tables and the figure of a comparison: verdicts by cell, what they are made of, looks, and the noise floor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.records.noise import StoredNoise
from harness.records.verdict import CellVerdict, Comparison, Effect, Part, Verdict
from harness.report.comparison_words import change, interval, percent
from harness.report.labels import Labels, streams
from harness.report.models import Column, ForestRow, ForestView, Row, TableView
from harness.stats.floor import noise_rows
from harness.units import MISSING, format_rate, format_ratio, format_seconds, format_tokens

_LABELS = {
    "decode_tokens_per_s": "decode speed",
    "delivered_per_step": "tokens per step",
    "step_s": "step time",
    "ttft_s": "first token after",
    "worst_stream_tokens_per_s": "worst stream",
    "prefill_tokens_per_s": "prefill",
}
_BY_CELL = ("decode_tokens_per_s", "delivered_per_step", "step_s", "ttft_s")
_TIMES = ("step_s", "ttft_s")  # shown as times: below 0 is better
_TIMES_NOTE = "step time and time to the first token are times: below 0 is better; everywhere else above 0 is"
_WIDEST_BAR = 2.0  # times the largest estimate
_ROOM = 0.03  # of the width, on each side
_MOST_HEADING = 16  # characters of an arm's name at the head of a column


def cells_table(comparison: Comparison, cells: Sequence[CellVerdict], labels: Labels) -> TableView:
    """Return the verdict on each cell."""
    weighted = len({round(cell.weight, 9) for cell in cells}) > 1
    base, candidate = comparison.base.name, comparison.candidate.name
    long = max(len(base), len(candidate)) > _MOST_HEADING
    seconds = comparison.objective == "seconds"
    what = "seconds of a request" if seconds else comparison.objective
    notes = (
        f"effect: on {what}, above 0 is better; better and worse only where a false-discovery rate of 5 % over all "
        "cells allows it",
        "can show: the smallest true gain that 80 of 100 comparisons like this one find",
    )
    return TableView(
        caption=f"{candidate} (candidate) against {base} (base), cell by cell",
        columns=(
            Column(label="load", numeric=False),
            *([Column(label="weight", detail=True)] if weighted else []),
            Column(label="verdict", numeric=False),
            Column(label="effect"),
            Column(label="interval"),
            Column(label="base" if long else base, detail=True),
            Column(label="candidate" if long else candidate, detail=True),
            Column(label="can show", spare=True),
        ),
        rows=tuple(_cell_row(comparison, cell, labels, weighted=weighted) for cell in cells),
        notes=notes,
        simulated=comparison.simulated,
    )


def _cell_row(comparison: Comparison, cell: CellVerdict, labels: Labels, *, weighted: bool) -> Row:
    return Row(
        values=(
            labels.load(cell.load),
            *([format_ratio(cell.weight)] if weighted else []),
            cell.verdict,
            change(cell.seconds.effect),
            interval(cell.seconds.effect),
            _value(comparison.objective, cell.seconds.base),
            _value(comparison.objective, cell.seconds.candidate),
            MISSING if cell.smallest_visible_ratio is None else format_ratio(cell.smallest_visible_ratio),
        )
    )


def _value(objective: str, value: float | None) -> str:
    if value is None:
        return MISSING
    return format_seconds(value) if objective == "seconds" or objective.endswith("_s") else format_rate(value)


def cell_parts_table(comparison: Comparison, cells: Sequence[CellVerdict], labels: Labels) -> TableView:
    """Return what the effect on each cell is made of."""
    rows = []
    for cell in cells:
        parts = {part.metric: part for part in cell.parts}
        rows.append(Row(values=(labels.load(cell.load), *(_with_interval(parts.get(name)) for name in _BY_CELL))))
    return TableView(
        caption="What each effect is made of: decode speed = tokens per step / step time",
        columns=(Column(label="load", numeric=False), *(Column(label=_LABELS[name]) for name in _BY_CELL)),
        rows=tuple(rows),
        notes=(_TIMES_NOTE,),
        simulated=comparison.simulated,
    )


def _with_interval(part: Part | None) -> str:
    if part is None or part.effect is None:
        return MISSING
    estimate, low, high = shown(part.metric, part.effect)
    return f"{percent(estimate)} ({_whole(low)} … {_whole(high)})"


def _whole(log_ratio: float) -> str:
    return f"{math.expm1(log_ratio) * 100:+.0f}"


def shown(metric: str, effect: Effect) -> tuple[float, float, float]:
    """Return estimate, low and high as a reader thinks of the figure: a time as a time, not as a speed."""
    if metric in _TIMES:
        return -effect.log_ratio, -effect.high, -effect.low
    return effect.log_ratio, effect.low, effect.high


def parts_table(comparison: Comparison) -> TableView:
    """Return what the effect on the whole workload is made of."""
    unknown = any(part.effect is None for part in comparison.overall)
    rows = []
    for part in comparison.overall:
        label = _LABELS.get(part.metric, part.metric)
        values = (label, MISSING, MISSING)
        if part.effect is not None:
            estimate, low, high = shown(part.metric, part.effect)
            values = (label, percent(estimate), f"{percent(low)} … {percent(high)}")
        rows.append(Row(values=(*values, *([part.null_reason or ""] if unknown else []))))
    return TableView(
        caption="What the effect is made of, over the whole workload",
        columns=(
            Column(label="figure", numeric=False),
            Column(label="effect"),
            Column(label="interval"),
            *([Column(label="why there is none", numeric=False)] if unknown else []),
        ),
        rows=tuple(rows),
        notes=(_TIMES_NOTE,),
        simulated=comparison.simulated,
    )


def looks_table(comparison: Comparison) -> TableView | None:
    """Return how the verdict stood after each block; None where it was looked at once."""
    if not comparison.looks:
        return None
    rows = [
        Row(values=(str(look.launches), look.verdict, change(look.effect), interval(look.effect)))
        for look in comparison.looks
    ]
    return TableView(
        caption="The verdict after each block of launches",
        columns=(
            Column(label="launches of each arm"),
            Column(label="verdict", numeric=False),
            Column(label="effect"),
            Column(label="interval"),
        ),
        rows=tuple(rows),
        notes=("intervals of early looks are wider, so that all looks together raise a false alarm in 5 %",),
        simulated=comparison.simulated,
    )


def forest(comparison: Comparison, cells: Sequence[CellVerdict], labels: Labels) -> ForestView:
    """Return the effects below one another, the whole workload first."""
    rows = [_forest_row("whole workload", comparison.effect, comparison.verdict, whole=True)]
    rows += [_forest_row(labels.load(cell.load), cell.seconds.effect, cell.verdict) for cell in cells]
    known = tuple(row for row in rows if row is not None)
    return ForestView(
        name="effects",
        title="Effect by cell",
        caption="Points are estimates, bars 95 % intervals; within the grey band a difference does not matter. "
        "A bar that reaches the edge goes on beyond it.",
        rows=known,
        shown=_shown_range(known, comparison.margin_ratio),
        margin_ratio=comparison.margin_ratio,
        x_label="candidate against base, % (right is better)",
        simulated=comparison.simulated,
        absent_because=None if known else comparison.null_reason or "no cell has an effect",
    )


def _shown_range(rows: Sequence[ForestRow], margin_ratio: float) -> tuple[float, float]:
    """From left to right: every estimate and the whole workload's bar, but no bar so wide that it hides the others."""
    inner = [margin_ratio, *(abs(row.estimate) for row in rows)]
    inner += [abs(end) for row in rows if row.whole for end in (row.low, row.high)]
    most = _WIDEST_BAR * max(inner)
    low = min([-margin_ratio, *(max(row.low, -most) for row in rows)])
    high = max([margin_ratio, *(min(row.high, most) for row in rows)])
    room = _ROOM * (high - low)
    return max(low - room, -1.0), high + room


def _forest_row(label: str, effect: Effect | None, verdict: Verdict, *, whole: bool = False) -> ForestRow | None:
    if effect is None:
        return None
    return ForestRow(
        label=label,
        estimate=math.expm1(effect.log_ratio),
        low=math.expm1(effect.low),
        high=math.expm1(effect.high),
        verdict=verdict,
        whole=whole,
    )


def noise_table(comparison: Comparison, noise: StoredNoise) -> TableView:
    """Return the noise floor that an A/A found."""
    rows = [Row(values=("whole workload", format_ratio(noise.total_sigma_ratio), MISSING, str(noise.launches)))]
    rows += [
        Row(
            values=(
                f"{format_tokens(cell.context_tokens)} tokens · {streams(cell.concurrency)}",
                format_ratio(cell.between_sigma_ratio),
                MISSING if cell.within_sigma_ratio is None else format_ratio(cell.within_sigma_ratio),
                f"{cell.degrees + 1:.0f}",
            )
        )
        for cell in noise_rows(noise, noise.objective)
    ]
    return TableView(
        caption=f"The noise floor of this rig, measured on {comparison.base.name.removesuffix(' (A)')}",
        columns=(
            Column(label="load", numeric=False),
            Column(label="between launches"),
            Column(label="between requests"),
            Column(label="launches"),
        ),
        rows=tuple(rows),
        notes=(
            "standard deviations; between launches: of a launch's mean over its prompts; between requests: of one "
            "prompt, from launch to launch, beyond that",
        ),
        simulated=comparison.simulated,
    )
