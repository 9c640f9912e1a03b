"""Of a search: what is fastest where, and at which depth. Maps, no verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.records.cell import Configuration
from harness.records.summary import CellSummary
from harness.report.labels import NO_SPECULATION, load_order, streams
from harness.report.models import Column, Row, TableView
from harness.report.reading import Reading
from harness.units import MISSING, format_change, format_rate

_SPEED = "decode_tokens_per_s"


def best_by_load(reading: Reading, reference_id: str) -> TableView:
    """Return the fastest configuration of each load among those that were launched."""
    by_load: dict[str, list[CellSummary]] = {}
    for cell in reading.cells():
        if cell.values.get(_SPEED):
            by_load.setdefault(cell.cell.load.load_id, []).append(cell)
    rows = []
    for cells in sorted(by_load.values(), key=lambda of: load_order(of[0].cell.load)):
        best = max(cells, key=lambda cell: cell.values[_SPEED] or 0.0)
        base = next((one for one in cells if one.cell.configuration.configuration_id == reference_id), None)
        ratio = (best.values[_SPEED] or 0.0) / (base.values[_SPEED] or 1.0) if base else None
        rows.append(
            Row(
                values=(
                    reading.labels.load(best.cell.load),
                    reading.labels.configuration(best.cell.configuration),
                    format_rate(best.values[_SPEED]),
                    MISSING if ratio is None else format_change(ratio),
                    str(best.launches),
                )
            )
        )
    return TableView(
        caption="Fastest decode by load, among what was launched",
        columns=(
            Column(label="load", numeric=False),
            Column(label="configuration", numeric=False),
            Column(label="tokens/s"),
            Column(label="vs incumbent"),
            Column(label="launches", detail=True),
        ),
        rows=tuple(rows),
        notes=("a map, not a verdict: most of these were launched once",),
        simulated=reading.facts.manifest.simulated,
    )


def depth_by_streams(reading: Reading, pick: Configuration | None) -> TableView | None:
    """Return the best depth by streams; None where one depth is best for all, or where it pays too little."""
    if pick is None:
        return None
    rates: dict[int, dict[int, list[float]]] = {}
    for cell in reading.facts.cells:
        k, rate = cell.cell.configuration.num_speculative_tokens, cell.values.get(_SPEED)
        if k is not None and rate and _is_kin(cell.cell.configuration, pick):
            rates.setdefault(cell.cell.load.concurrency, {}).setdefault(k, []).append(math.log(rate))
    best = {count: max(by_k, key=lambda k: _mean(by_k[k])) for count, by_k in rates.items() if len(by_k) > 1}
    margin = math.log1p(reading.facts.plan.margin_ratio)
    own = pick.num_speculative_tokens or 0
    gains = {n: _mean(rates[n][k]) - _mean(rates[n].get(own, [-math.inf])) for n, k in best.items()}
    if len(set(best.values())) < 2 or not any(margin < gain < math.inf for gain in gains.values()):
        return None
    rows = [
        Row(values=(streams(n), f"k={best[n]}" if best[n] else NO_SPECULATION, format_change(math.exp(gains[n]))))
        for n in sorted(best)
    ]
    return TableView(
        caption="Best depth by streams",
        columns=(
            Column(label="streams", numeric=False),
            Column(label="depth", numeric=False),
            Column(label=f"vs k={own}"),
        ),
        rows=tuple(rows),
        notes=(
            "upstream vLLM takes one depth per batch size (num_speculative_tokens_per_batch_size); it then uses "
            "piecewise graphs, which has cost 14 % at one stream: measure that before you use it",
        ),
        simulated=reading.facts.manifest.simulated,
    )


def _is_kin(one: Configuration, pick: Configuration) -> bool:
    """The same but for depth and what follows from it."""
    skip = (
        {"num_speculative_tokens", "draft_sample_method"}
        if one.num_speculative_tokens == 0
        else {"num_speculative_tokens"}
    )
    names = set(one.knobs) | set(pick.knobs)
    return all(one.knobs.get(name) == pick.knobs.get(name) for name in names - skip)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
