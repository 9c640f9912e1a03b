"""The table of nights says what the nights say, in units, and what is missing stays missing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.records.nightly import Night
from harness.store.history import HISTORY_COLUMNS, write_history
from harness.store.nights import add_night

NIGHT = Night(
    run_id="run-1",
    sweep="small",
    at="2026-11-30T02:00:00+00:00",
    key="k",
    figures={
        "seconds": (-math.log(12.0), -math.log(3.0)),
        "delivered_per_step": (math.log(2.5), math.log(2.5)),
        "step_s": (-math.log(0.02), -math.log(0.02)),
    },
    cells={"load-1": {"ttft_s": 0.4, "decode_tokens_per_s": 70.0}},
    loads={"load-1": {"class": "prose", "cache": "cold", "context_tokens": 256, "concurrency": 4, "top_p": 1.0}},
    boot_s=25.0,
)


def table(results: Path) -> pd.DataFrame:
    return pd.read_parquet(write_history(results), engine="pyarrow", dtype_backend="numpy_nullable")


def rows_of(frame: pd.DataFrame, run_id: str) -> dict[tuple[str, Any], Any]:
    found = frame[frame["run_id"] == run_id]
    return {
        (row["series"], None if pd.isna(row["load_id"]) else row["load_id"]): row for row in found.to_dict("records")
    }


def test_a_night_is_a_row_for_each_series_in_its_unit(tmp_path: Path) -> None:
    add_night(tmp_path, NIGHT)
    frame = table(tmp_path)
    rows = rows_of(frame, "run-1")

    assert list(frame.columns) == [column.name for column in HISTORY_COLUMNS]
    assert rows["workload_seconds", None]["value"] == pytest.approx(6.0)  # between 12 and 3 by ratio
    assert rows["workload_seconds", None]["unit"] == "s"
    assert rows["workload_seconds", None]["launches"] == 2
    assert rows["delivered_per_step", None]["value"] == pytest.approx(2.5)
    assert rows["delivered_per_step", None]["unit"] == "tokens/step"
    assert rows["step_s", None]["value"] == pytest.approx(0.02)
    assert rows["boot_s", None]["value"] == 25.0
    cell = rows["decode_tokens_per_s", "load-1"]
    assert (cell["value"], cell["unit"]) == (70.0, "tokens/s")
    assert (cell["class"], cell["cache"], cell["context_tokens"], cell["concurrency"]) == ("prose", "cold", 256, 4)


def test_what_was_not_measured_is_missing_and_never_nought(tmp_path: Path) -> None:
    add_night(tmp_path, replace(NIGHT, figures={"seconds": ()}, cells={}, boot_s=None, doubts=("canary_moved",)))
    rows = rows_of(table(tmp_path), "run-1")

    for series in ("workload_seconds", "delivered_per_step", "step_s", "boot_s", "kv_cache_tokens", "canary_step_s"):
        assert rows[series, None]["value"] is None
    assert rows["failed_launches", None]["value"] == 0
    assert rows["step_s", None]["doubts"] == "canary_moved"
    assert not rows["step_s", None]["valid"]


def test_the_table_holds_every_sweep_and_equal_nights_give_equal_bytes(tmp_path: Path) -> None:
    add_night(tmp_path, NIGHT)
    add_night(tmp_path, replace(NIGHT, sweep="other", run_id="run-2", simulated=True))
    path = write_history(tmp_path)
    first = path.read_bytes()

    assert write_history(tmp_path).read_bytes() == first
    frame = table(tmp_path)
    assert set(frame["sweep"]) == {"small", "other"}
    assert set(frame[frame["sweep"] == "other"]["simulated"]) == {True}


def test_without_nights_the_table_is_empty_and_has_its_columns(tmp_path: Path) -> None:
    frame = table(tmp_path / "results")

    assert len(frame) == 0
    assert list(frame.columns) == [column.name for column in HISTORY_COLUMNS]
