"""Every night as one table, history.parquet: a row for each night and series. Derived from the nights, safe to delete.

Missing is empty, never 0. Figures are as measured, in the unit that stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.records.night_series import BESIDE, HEADLINES, cell_unit, launches_of, night_values
from harness.records.nightly import Night
from harness.store.files import disk_error, write_whole
from harness.store.frames import Column, declared_frame, to_parquet
from harness.store.nights import read_all_nights

HISTORY = "history.parquet"
_UNITS = {series.name: series.unit for series in HEADLINES.values()} | BESIDE
_LOAD_COLUMNS = ("class", "cache", "context_tokens", "concurrency")

HISTORY_COLUMNS: tuple[Column, ...] = (
    Column(name="sweep", dtype="string", required=True, description="its name"),
    Column(name="run_id", dtype="string", required=True, description="the night's run, whose folder may be gone"),
    Column(name="at", dtype="string", required=True, description="wall clock, ISO 8601 with zone"),
    Column(name="key", dtype="string", required=True, description="fingerprint; another one is another series"),
    Column(name="launches", dtype="Int64", required=True, description="boots that count"),
    Column(name="valid", dtype="boolean", required=True, description="the night may be judged, and may judge others"),
    Column(name="doubts", dtype="string", required=False, description="kinds, separated by spaces; empty: none"),
    Column(name="series", dtype="string", required=True, description="what was measured"),
    Column(name="unit", dtype="string", required=True, description="of the value; 1: a plain number"),
    Column(name="value", dtype="Float64", required=False, description="as measured; empty: it was not"),
    Column(name="load_id", dtype="string", required=False, description="of a cell; empty: over the whole workload"),
    Column(name="class", dtype="string", required=False, description="workload class of the cell"),
    Column(name="cache", dtype="string", required=False, description="cold, warm, shared or as_recorded"),
    Column(name="context_tokens", dtype="Int64", required=False, description="prompt tokens that were asked for"),
    Column(name="concurrency", dtype="Int64", required=False, description="streams at a time"),
    Column(name="simulated", dtype="boolean", required=True, description="no engine ran: it is a model"),
)


def write_history(results: Path, nights: Sequence[Night] | None = None) -> Path:
    """Write the table of all nights in one step, and return its file.

    Args:
        results: the folder.
        nights: of every sweep; None: as they are stored.

    Raises:
        StoreError: it cannot be written.
    """
    nights = read_all_nights(results) if nights is None else nights
    path = results / HISTORY
    rows = list(history_rows(nights))
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(error, path) from error
    write_whole(path, to_parquet(declared_frame(rows, HISTORY_COLUMNS)))
    return path


def history_rows(nights: Iterable[Night]) -> Iterator[dict[str, object]]:
    """Yield a row for each series of each night: first those of the workload, then those of its cells."""
    for night in nights:
        head = {
            "sweep": night.sweep,
            "run_id": night.run_id,
            "at": night.at,
            "key": night.key,
            "launches": launches_of(night),
            "valid": night.is_valid,
            "doubts": " ".join(night.doubts) or None,
            "simulated": night.simulated,
        }
        for name, value in night_values(night).items():
            yield head | {"series": name, "unit": _UNITS.get(name, "1"), "value": value}
        for load_id, figures in night.cells.items():
            load = night.loads.get(load_id, {})
            cell = {"load_id": load_id} | {name: load.get(name) for name in _LOAD_COLUMNS}
            for name, figure in figures.items():
                yield head | cell | {"series": name, "unit": cell_unit(name), "value": figure}
