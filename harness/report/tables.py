"""The tables of a report as text: what stands in which row, and in which order."""

from __future__ import annotations

from itertools import groupby

from harness.records.launch import CanaryReading, LaunchRecord
from harness.records.summary import CellSummary
from harness.report.facts import is_complete
from harness.report.labels import counted, load_order, words
from harness.report.models import Column, Row, TableView
from harness.report.reading import Reading
from harness.stats.objective import workload_seconds
from harness.stats.overview import Standing
from harness.units import (
    MISSING,
    format_change,
    format_number,
    format_rate,
    format_ratio,
    format_seconds,
)

SPEED = "decode_tokens_per_s"
OVERVIEW_LOADS = 6  # columns that a forum table can hold

_LONGEST_REFERENCE = 20
_NAMED_WEIGHTS = 12


def step_seconds(facts: CellSummary) -> tuple[str, float | None]:
    """The step time that is shown: busy time per iteration where the engine counts them, else per draft."""
    iteration = facts.values.get("iteration_s")
    return ("iteration_s", iteration) if iteration is not None else ("step_s", facts.values.get("step_s"))


def cells_table(reading: Reading) -> TableView:
    """Return a row for each cell, the loads as groups, the fastest of each load marked."""
    alone = len(reading.facts.standings) < 2
    thinks = _thinks(reading)
    rows: list[Row] = []
    for _, same_load in groupby(reading.cells(), key=lambda facts: facts.cell.load.load_id):
        group = list(same_load)
        best = _fastest(group)
        rows.extend(_cell_row(reading, facts, best=facts is best, thinks=thinks) for facts in group)
    return TableView(
        simulated=reading.facts.manifest.simulated,
        caption="Every cell: median over its trials",
        group_label="load",
        columns=(
            Column(label="configuration", numeric=False),
            Column(label="tokens/s"),
            Column(label="lowest – highest", detail=True),
            Column(label=_against(reading), detail=alone),
            Column(label="all streams, tokens/s", spare=True),
            Column(label="slowest stream", detail=True),
            Column(label="TTFT"),
            *([Column(label="first answer")] if thinks else []),
            Column(label="tokens/step"),
            Column(label="accepted", detail=True),
            Column(label="step"),
            Column(label="trials / launches", detail=True),
        ),
        rows=tuple(rows),
        notes=(
            "tokens/s is the decode rate of one stream, after its first event. "
            "“All streams” counts every token from the first send to the last token, prefill included.",
            *(["“First answer” is the time to the first token that is no reasoning."] if thinks else []),
        ),
    )


def configurations_table(reading: Reading) -> TableView:
    """Return a row for each configuration, the best over the whole workload first."""
    mix = reading.facts.plan.weights
    return TableView(
        simulated=reading.facts.manifest.simulated,
        badge=reading.badge,
        caption="Every configuration over the whole workload",
        columns=(
            Column(label="configuration", numeric=False),
            Column(label=f"speed {_against(reading)}"),
            Column(label="by launch: lowest – highest", detail=True),
            Column(label="tokens/s", detail=True),
            Column(label="tokens/step"),
            Column(label="step"),
            Column(label="a request of the mix" if mix else "one request in each cell", detail=not mix),
            Column(label="cells"),
            Column(label="launches"),
        ),
        rows=tuple(_configuration_row(reading, one) for one in reading.facts.standings),
        notes=(
            "Speed is the decode rate of one stream: the geometric mean of its ratio to the reference over the cells, "
            f"each counted {'by its weight in the mix' if mix else 'once'}. Ranges run over the cells.",
            *([mix_words(reading)] if mix else []),
        ),
    )


def mix_words(reading: Reading) -> str:
    """Say what part of the workload each cell stands for, the largest first."""
    weights = reading.facts.plan.weights
    loads = {facts.cell.load.load_id: facts.cell.load for facts in reading.cells()}
    ordered = sorted(loads, key=lambda load_id: -weights.get(load_id, 0.0))
    named = [f"{reading.labels.load(loads[load_id])} {format_ratio(weights.get(load_id, 0.0))}" for load_id in ordered]
    return f"The mix: {', '.join(named[:_NAMED_WEIGHTS])}{', …' if len(named) > _NAMED_WEIGHTS else ''}."


def launches_table(reading: Reading) -> TableView:
    """Return a row for each launch, in the order in which they were run."""
    return TableView(
        simulated=reading.facts.manifest.simulated,
        caption="Every launch",
        columns=(
            Column(label="#"),
            Column(label="configuration", numeric=False),
            Column(label="round", detail=True),
            Column(label="outcome", numeric=False),
            Column(label="ready after"),
            Column(label="whole launch", detail=True),
            Column(label="KV cache, tokens"),
            Column(label="canary before"),
            Column(label="after"),
            Column(label="moved"),
            Column(label="live k", detail=True),
        ),
        rows=tuple(_launch_row(reading, number, one) for number, one in enumerate(reading.facts.launches, start=1)),
        notes=("The canary is a fixed short cell before and after the block; its step time is shown.",),
    )


def overview_table(reading: Reading) -> TableView:
    """Return configurations by loads: the decode rate of one stream."""
    loads = sorted({facts.cell.load.load_id: facts.cell.load for facts in reading.cells()}.values(), key=load_order)
    shown = loads[:OVERVIEW_LOADS]
    rows = []
    for one in reading.facts.standings:
        cells = {facts.cell.load.load_id: facts for facts in reading.of_configuration(one.configuration)}
        rates = [_rate_with_range(cells.get(load.load_id)) for load in shown]
        rows.append(
            Row(
                values=(reading.labels.configuration(one.configuration), *rates, _gain(one), str(one.launches)),
                doubts=reading.marks(cells.values()),
                emphasis=reading.is_marked(one.configuration),
                reference=one.is_reference,
            )
        )
    notes = [f"tokens/s of one stream, median (lowest – highest trial); {_load_words(shown == loads, len(loads))}"]
    return TableView(
        simulated=reading.facts.manifest.simulated,
        badge=reading.badge,
        caption="tokens/s by configuration and load",
        columns=(
            Column(label="configuration", numeric=False),
            *(Column(label=reading.labels.short_load(load)) for load in shown),
            Column(label=f"vs {reading.reference_label}"),
            Column(label="launches"),
        ),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def format_range(spread: tuple[float, float] | None, *, seconds: bool = False) -> str:
    """Return "70.1 – 72.3"; one value alone where both ends read the same; a dash where nothing is known."""
    if spread is None:
        return MISSING
    low, high = (format_seconds(value) if seconds else format_rate(value) for value in spread)
    return low if low == high else f"{low} – {high}"


def format_changes(spread: tuple[float, float] | None) -> str:
    """Return two ratios as changes: "+95.0 % – +102.1 %"."""
    if spread is None:
        return MISSING
    low, high = (format_change(ratio) for ratio in spread)
    return low if low == high else f"{low} – {high}"


def _against(reading: Reading) -> str:
    """A heading of gains. A long reference would take the width of the figures; the headline names it."""
    label = reading.reference_label
    return f"vs {label}" if 0 < len(label) <= _LONGEST_REFERENCE else "vs reference"


def _thinks(reading: Reading) -> bool:
    """Whether some cell was asked to reason before it answers, or did."""
    return any(
        facts.values.get("time_to_answer_s") is not None or facts.cell.load.thinking not in ("off", "as_recorded")
        for facts in reading.facts.cells
    )


def _cell_row(reading: Reading, facts: CellSummary, *, best: bool, thinks: bool) -> Row:
    median = facts.values
    reference = reading.reference_cell(facts)
    _, step = step_seconds(facts)
    return Row(
        group=reading.labels.load(facts.cell.load),
        values=(
            reading.labels.configuration(facts.cell.configuration),
            format_rate(median.get(SPEED)),
            format_range(facts.spread.get(SPEED)),
            format_change(_ratio(median.get(SPEED), reference.values.get(SPEED) if reference else None)),
            format_rate(median.get("aggregate_tokens_per_s")),
            format_rate(median.get("worst_stream_tokens_per_s")),
            format_seconds(median.get("ttft_s")),
            *([format_seconds(median.get("time_to_answer_s"))] if thinks else []),
            format_number(median.get("acceptance_length")),
            format_ratio(median.get("acceptance_ratio")),
            format_seconds(step),
            _trial_words(facts),
        ),
        doubts=reading.marks([facts]),
        emphasis=best,
        reference=reading.is_reference(facts.cell.configuration),
        void=facts.void,
    )


def _configuration_row(reading: Reading, one: Standing) -> Row:
    cells = reading.of_configuration(one.configuration)
    return Row(
        values=(
            reading.labels.configuration(one.configuration),
            _gain(one),
            format_changes(None if one.is_reference else one.spread),
            _range_over(cells, SPEED),
            _range_over(cells, "acceptance_length"),
            _step_range(cells),
            format_seconds(_workload_seconds(reading, cells) if is_complete(one) else None),
            _cells_words(one),
            str(one.launches),
        ),
        doubts=reading.marks(cells),
        emphasis=reading.is_marked(one.configuration),
        reference=one.is_reference,
        void=not is_complete(one),
    )


def _launch_row(reading: Reading, number: int, launch: LaunchRecord) -> Row:
    before, after = launch.canary_before, launch.canary_after
    moved = _ratio(after.step_s, before.step_s) if before and after else None
    live = launch.live.num_speculative_tokens if launch.live else None
    repeated = f" (attempt {launch.attempt})" if launch.attempt > 1 else ""
    return Row(
        values=(
            str(number),
            reading.labels.configuration(launch.configuration) + repeated,
            str(launch.round),
            words(launch.outcome),
            format_seconds(launch.ready_s),
            format_seconds(launch.total_s),
            _whole(launch.boot.kv_cache_tokens if launch.boot else None),
            _canary(before),
            _canary(after),
            format_change(moved),
            MISSING if live is None else str(live),
        ),
        void=launch.outcome != "measured",
    )


def _fastest(group: list[CellSummary]) -> CellSummary | None:
    rated = [(rate, facts) for facts in group if (rate := facts.values.get(SPEED)) is not None]
    return max(rated, key=lambda pair: pair[0])[1] if rated else None


def _rate_with_range(facts: CellSummary | None) -> str:
    if facts is None or facts.values.get(SPEED) is None:
        return MISSING
    rate = format_rate(facts.values[SPEED])
    spread = format_range(facts.spread.get(SPEED))
    return rate if len(facts.valid_trials) < 2 or spread == rate else f"{rate} ({spread})"


def _load_words(all_shown: bool, loads: int) -> str:
    text = "columns are prompt tokens × streams"
    return text if all_shown else f"{text}; {OVERVIEW_LOADS} of {counted(loads, 'load')}"


def _range_over(cells: tuple[CellSummary, ...], metric: str) -> str:
    known = [value for facts in cells if (value := facts.values.get(metric)) is not None]
    return format_range((min(known), max(known))) if known else MISSING


def _workload_seconds(reading: Reading, cells: tuple[CellSummary, ...]) -> float | None:
    """Of a request of the mix on average; without a mix the sum over cells, since no cell stands for more than one."""
    found = workload_seconds(cells, reading.facts.plan.weights)
    seconds = found[0].seconds if found else None
    return seconds if seconds is None or reading.facts.plan.weights else seconds * len(cells)


def _gain(one: Standing) -> str:
    """Nothing for the reference itself, nor for a mean over other cells than the reference has."""
    return format_change(None if one.is_reference or not is_complete(one) else one.ratio)


def _cells_words(one: Standing) -> str:
    return f"{one.cells} ({one.cells_missing} missing)" if one.cells_missing else str(one.cells)


def _step_range(cells: tuple[CellSummary, ...]) -> str:
    steps = [step for facts in cells if (step := step_seconds(facts)[1]) is not None]
    return format_range((min(steps), max(steps)), seconds=True) if steps else MISSING


def _canary(reading: CanaryReading | None) -> str:
    return format_seconds(reading.step_s if reading else None)


def _trial_words(facts: CellSummary) -> str:
    void = len(facts.trials) - len(facts.valid_trials)
    return f"{len(facts.valid_trials)} / {facts.launches}" + (f" ({void} void)" if void else "")


def _whole(count: int | None) -> str:
    return MISSING if count is None else f"{count:,}".replace(",", " ")


def _ratio(value: float | None, reference: float | None) -> float | None:
    return value / reference if value is not None and reference else None
