"""What moved beside the series that are judged: figures of single cells, the boot, the cache. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from harness.records.metrics import METRICS
from harness.records.nightly import Load
from harness.report.labels import counted
from harness.report.models import Column, Row, TableView
from harness.stats.baseline import BOOT_S, FAILED_LAUNCHES, KV_CACHE_TOKENS
from harness.stats.beside import FALSE_DISCOVERY_RATE, BesideFigure
from harness.stats.morning import Morning
from harness.units import (
    MISSING,
    format_change,
    format_number,
    format_rate,
    format_ratio,
    format_seconds,
    format_tokens,
)

_LAUNCH = {BOOT_S: "boot", KV_CACHE_TOKENS: "KV cache tokens", FAILED_LAUNCHES: "launches that failed"}
Format = Callable[[float | None], str]
_FORMATS: Mapping[str, Format] = {"s": format_seconds, "tokens/s": format_rate}


def beside_table(morning: Morning) -> TableView | None:
    """Return what moved, the surest first; None where nothing did."""
    moved = sorted((one for one in morning.beside if one.moved), key=lambda one: 0.0 if one.p is None else one.p)
    if not moved:
        return None
    against = "baseline" if moved[0].against == "baseline" else "nights before"
    return TableView(
        caption="What moved beside them (for information: it never judges)",
        columns=(
            Column(label="figure", numeric=False),
            Column(label="cell", numeric=False),
            Column(label="tonight"),
            Column(label=f"median of {against}", detail=True),
            Column(label="change"),
            Column(label="that is", numeric=False),
            Column(label="p", detail=True),
        ),
        rows=tuple(_row(one) for one in moved),
        simulated=morning.night.simulated,
    )


def beside_words(morning: Morning) -> str:
    """Return how much was looked at beside, how much of it moved, and what could not be told; "" where nothing was."""
    if not morning.beside:
        return ""
    moved = sum(one.moved for one in morning.beside)
    reasons = Counter(one.null_reason for one in morning.beside if one.null_reason)
    untold = "; ".join(f"{count} cannot be told ({reason})" for reason, count in reasons.items())
    looked = counted(len(morning.beside), "figure")
    words = f"Beside them {looked} of cells and boots were looked at: {moved or 'none'} moved"
    limit = f" (false discovery rate {format_ratio(FALSE_DISCOVERY_RATE)})" if moved else ""
    return f"{words}{limit}{f'; {untold}' if untold else ''}."


def _row(one: BesideFigure) -> Row:
    label, shown = _shown_as(one.name)
    return Row(
        values=(
            label,
            _cell(one.load) if one.load else MISSING if one.load_id is None else one.load_id,
            shown(one.value),
            shown(one.usual),
            format_change(one.ratio),
            {True: "worse", False: "better", None: "moved"}[one.is_worse],
            MISSING if one.p is None else f"{one.p:.1g}",
        )
    )


def _shown_as(name: str) -> tuple[str, Format]:
    """What a figure is called, and how its values are written."""
    if name in METRICS:
        return METRICS[name].label, _FORMATS.get(METRICS[name].unit, format_number)
    return _LAUNCH.get(name, name), format_seconds if name == BOOT_S else format_number


def _cell(load: Load) -> str:
    context, streams = load.get("context_tokens"), load.get("concurrency")
    size = f"{format_tokens(context) if isinstance(context, int) else context} × {streams}"
    return " · ".join(str(part) for part in (load.get("class"), size, load.get("cache")) if part)
