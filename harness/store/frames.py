"""Tables of a run, derived from its summaries: the only home of pandas. Safe to delete, equal bytes for equal facts.

cells.csv holds what can be compared between two runs of one sweep: no wall time, run id, path or client load.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pandas as pd

from harness.records.cell import Cell, KnobValue
from harness.records.metrics import BY_POSITION, METRICS
from harness.records.summary import CellSummary, TrialSummary
from harness.store.files import write_whole
from harness.store.layout import RunFolder

Row = TypeVar("Row")
Dtype = Literal["string", "Int64", "Float64", "boolean"]
_SIGNIFICANT_DIGITS = 9  # of a figure in a CSV file: more than any clock here can tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A declared column. A missing value is empty, never 0; ``required`` ones are never missing."""

    name: str
    dtype: Dtype
    required: bool
    description: str


def _column(name: str, dtype: Dtype, description: str, *, required: bool = True) -> Column:
    return Column(name=name, dtype=dtype, required=required, description=description)


_LOAD_COLUMNS = (
    _column("class", "string", "workload class"),
    _column("cache", "string", "cold, warm, shared or as_recorded"),
    _column("context_tokens", "Int64", "prompt tokens that were asked for"),
    _column("concurrency", "Int64", "streams at a time"),
    _column("asked_output_tokens", "Int64", "output tokens that were asked for"),
    _column("natural_output", "boolean", "the answer may end by itself"),
    _column("temperature", "Float64", "sampling temperature"),
    _column("top_p", "Float64", "nucleus sampling"),
    _column("thinking", "string", "reasoning effort"),
    _column("thinking_tokens", "Int64", "output tokens that were added for reasoning"),
)
_METRIC_COLUMNS = tuple(
    _column(metric.name, "Float64", f"{metric.label}, {metric.unit}", required=False) for metric in METRICS.values()
)
_IDENTITY_COLUMNS = (
    _column("configuration", "string", "how the sweep calls it, else its knobs"),
    _column("configuration_id", "string", "hash of recipe and knobs"),
    _column("cell_id", "string", "hash of configuration and load"),
)
_SPREAD_COLUMNS = tuple(
    _column(f"{metric.name}_{end}", "Float64", f"{words} over trials", required=False)
    for metric in METRICS.values()
    for end, words in (("min", "least"), ("max", "most"))
)
CELL_COLUMNS: tuple[Column, ...] = (
    *_IDENTITY_COLUMNS,
    *_LOAD_COLUMNS,
    _column("launches", "Int64", "launches that gave a valid trial"),
    _column("trials", "Int64", "valid trials"),
    _column("void_trials", "Int64", "trials that are not used"),
    _column("drafts_in_all", "Int64", "drafts over all valid trials", required=False),
    *_METRIC_COLUMNS,
    *_SPREAD_COLUMNS,
    _column(BY_POSITION, "string", "accepted at each position / drafts, separated by spaces", required=False),
    _column("doubts", "string", "kinds, separated by spaces; empty: none", required=False),
    _column("simulated", "boolean", "no engine ran: the figures come from a model"),
)
TRIAL_COLUMNS: tuple[Column, ...] = (
    *_IDENTITY_COLUMNS,
    *_LOAD_COLUMNS,
    _column("trial_id", "string", "hash of what was measured where"),
    _column("launch_id", "string", "the boot of the engine"),
    _column("round", "Int64", "from 1"),
    _column("repeat", "Int64", "within the launch, from 1"),
    _column("void", "boolean", "not used"),
    *_METRIC_COLUMNS,
    _column(BY_POSITION, "string", "accepted at each position / drafts, separated by spaces", required=False),
    _column("doubts", "string", "kinds, separated by spaces; empty: none", required=False),
    _column("simulated", "boolean", "no engine ran: the figures come from a model"),
)


def write_derived(folder: RunFolder, cells: Sequence[CellSummary]) -> None:
    """Write cells.csv and cells.parquet, each in one step. Raises StoreError."""
    frame = cells_frame(cells)
    write_whole(folder.cells_csv, to_csv(frame))
    write_whole(folder.cells_parquet, to_parquet(frame))


def cells_frame(cells: Sequence[CellSummary]) -> pd.DataFrame:
    """Return one row per cell: launch knobs by neutral name, then CELL_COLUMNS."""
    return _frame(cells, CELL_COLUMNS, cell_of=lambda summary: summary.cell, row_of=_cell_row)


def trials_frame(cells: Sequence[CellSummary]) -> pd.DataFrame:
    """Return one row per trial, void ones too: launch knobs by neutral name, then TRIAL_COLUMNS."""
    pairs = [(cell, trial) for cell in cells for trial in cell.trials]
    return _frame(pairs, TRIAL_COLUMNS, cell_of=lambda pair: pair[0].cell, row_of=_trial_row)


def declared_frame(rows: Sequence[Mapping[str, object]], columns: Sequence[Column]) -> pd.DataFrame:
    """Return a table of these columns; what a row lacks is missing there."""
    return pd.DataFrame({column.name: _array(column, rows) for column in columns})


def to_csv(frame: pd.DataFrame) -> bytes:
    """Return the table as CSV: equal tables give equal bytes on every platform."""
    text: str = frame.to_csv(index=False, lineterminator="\n", float_format=f"%.{_SIGNIFICANT_DIGITS}g")
    return text.encode()


def to_parquet(frame: pd.DataFrame) -> bytes:
    """Return the table as Parquet, with typed columns."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, engine="pyarrow", index=False)
    return buffer.getvalue()


def _frame(
    rows: Sequence[Row], columns: tuple[Column, ...], *, cell_of: Callable[[Row], Cell], row_of: Callable[[Row], Any]
) -> pd.DataFrame:
    knobs = _knob_columns([cell_of(row) for row in rows])
    tree = [{**cell_of(row).configuration.knobs, **row_of(row)} for row in rows]
    return declared_frame(tree, (*knobs, *columns))


def _knob_columns(cells: Iterable[Cell]) -> tuple[Column, ...]:
    """Launch knobs differ by sweep, so their columns come from the cells; the type is what all values share."""
    values: dict[str, list[KnobValue]] = {}
    for cell in cells:
        for name, value in cell.configuration.knobs.items():
            values.setdefault(name, []).append(value)
    return tuple(_column(name, _shared_dtype(values[name]), "launch knob", required=False) for name in sorted(values))


def _shared_dtype(values: list[KnobValue]) -> Dtype:
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "Int64"
    return "Float64" if kinds <= {int, float} else "string"


def _array(column: Column, rows: Sequence[Mapping[str, object]]) -> Any:
    values: Any = [_as(column.dtype, row.get(column.name)) for row in rows]
    dtype: Any = column.dtype
    return pd.array(values, dtype=dtype)


def _as(dtype: Dtype, value: object) -> object:
    if value is None:
        return pd.NA
    return str(value) if dtype == "string" else value


def _cell_row(summary: CellSummary) -> dict[str, object]:
    spread = {
        f"{name}_{end}": value
        for name, bounds in summary.spread.items()
        for end, value in zip(("min", "max"), bounds, strict=True)
    }
    return {
        **_identity(summary.cell),
        "launches": summary.launches,
        "trials": len(summary.valid_trials),
        "void_trials": len(summary.trials) - len(summary.valid_trials),
        "drafts_in_all": summary.drafts_in_all,
        **summary.values,
        **spread,
        BY_POSITION: _positions(summary.by_position),
        "doubts": _kinds(doubt.kind for doubt in summary.doubts),
        "simulated": any(trial.simulated for trial in summary.trials),
    }


def _trial_row(pair: tuple[CellSummary, TrialSummary]) -> dict[str, object]:
    cell, trial = pair
    return {
        **_identity(cell.cell),
        "trial_id": trial.trial_id,
        "launch_id": trial.launch_id,
        "round": trial.round,
        "repeat": trial.repeat,
        "void": trial.void,
        **trial.metrics.values,
        BY_POSITION: _positions(trial.metrics.by_position),
        "doubts": _kinds(doubt.kind for doubt in trial.doubts),
        "simulated": trial.simulated,
    }


def _identity(cell: Cell) -> dict[str, object]:
    load = cell.load
    return {
        "configuration": cell.configuration.label,
        "configuration_id": cell.configuration.configuration_id,
        "cell_id": cell.cell_id,
        **load.columns,
    }


def _positions(by_position: tuple[float, ...] | None) -> str | None:
    return None if by_position is None else " ".join(f"{share:.6g}" for share in by_position)


def _kinds(kinds: Iterable[str]) -> str:
    return " ".join(sorted(set(kinds)))
