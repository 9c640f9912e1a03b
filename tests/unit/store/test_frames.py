"""Derived tables: declared columns, equal bytes for equal facts, nothing that differs between equal runs."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from harness.records.summary import CellSummary
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from harness.store.frames import (
    CELL_COLUMNS,
    TRIAL_COLUMNS,
    cells_frame,
    to_csv,
    to_parquet,
    trials_frame,
    write_derived,
)
from tests.fakes.run_builder import FakeRun, RunShape, fake_run
from tests.unit.store.build import RUN_ID, new_folder

SHAPE = RunShape(tokens=(0, 2, 10), concurrencies=(1, 4), contexts=(256,), repeats=2)


def _cells(run: FakeRun) -> tuple[CellSummary, ...]:
    return summarise_run(run.trials, run.launches, Limits())


def test_tables_have_the_declared_columns_after_the_knobs() -> None:
    cells = _cells(fake_run(SHAPE))
    frame = cells_frame(cells)
    assert list(frame.columns) == ["num_speculative_tokens", *(column.name for column in CELL_COLUMNS)]
    assert [str(frame[column.name].dtype) for column in CELL_COLUMNS] == [column.dtype for column in CELL_COLUMNS]
    assert len(frame) == len(cells)
    trials = trials_frame(cells)
    assert list(trials.columns) == ["num_speculative_tokens", *(column.name for column in TRIAL_COLUMNS)]
    assert len(trials) == sum(len(cell.trials) for cell in cells)


def test_required_columns_are_never_missing_and_missing_figures_never_zero() -> None:
    cells = _cells(fake_run(SHAPE))
    for frame, columns in ((cells_frame(cells), CELL_COLUMNS), (trials_frame(cells), TRIAL_COLUMNS)):
        for column in columns:
            assert not (column.required and frame[column.name].isna().any()), column.name
    plain = cells_frame(cells).query("num_speculative_tokens == 0")
    assert plain["acceptance_length"].isna().all() and plain["decode_tokens_per_s"].notna().all()


def test_two_runs_of_equal_facts_give_equal_bytes() -> None:
    run = fake_run(SHAPE)
    later = replace(
        run,
        trials=tuple(
            replace(
                trial,
                run_id="another",
                started_at="2027-01-01T00:00:00+00:00",
                client=replace(trial.client, cpu_ratio=0.5),
            )
            for trial in run.trials
        ),
    )
    one, other = to_csv(cells_frame(_cells(run))), to_csv(cells_frame(_cells(later)))
    assert one == other
    assert RUN_ID.encode() not in one and b"2026-11-30" not in one


def test_knobs_of_every_type_become_columns() -> None:
    knobs = ({"env.A": 1, "method": "ngram"}, {"env.A": 0.5, "fast": True})
    frame = cells_frame(_cells(fake_run(replace(SHAPE, tokens=(2,), extra_knobs=knobs))))
    dtypes = {name: str(frame[name].dtype) for name in ("env.A", "fast", "method", "num_speculative_tokens")}
    assert dtypes == {"env.A": "Float64", "fast": "boolean", "method": "string", "num_speculative_tokens": "Int64"}
    assert list(frame.columns[:4]) == sorted(dtypes)


def test_parquet_and_csv_hold_the_same_figures(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    cells = _cells(fake_run(SHAPE))
    write_derived(folder, cells)
    table = pq.read_table(folder.cells_parquet).to_pandas()
    text = pd.read_csv(folder.cells_csv)
    assert list(table.columns) == list(text.columns)
    pd.testing.assert_series_equal(
        table["decode_tokens_per_s"].astype("float64"), text["decode_tokens_per_s"], check_names=False, rtol=1e-8
    )
    assert text["acceptance_length"].isna().sum() == table["acceptance_length"].isna().sum() > 0


def test_tables_may_be_deleted_and_made_again(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    cells = _cells(fake_run(SHAPE))
    write_derived(folder, cells)
    first = folder.cells_csv.read_bytes()
    folder.cells_csv.unlink()
    write_derived(folder, cells)
    assert folder.cells_csv.read_bytes() == first
    assert not list(folder.path.glob("*.part")) and not list(folder.path.glob(".*.part"))


def test_a_run_without_cells_gives_empty_tables() -> None:
    assert to_csv(cells_frame(())).decode().startswith("configuration,")
    assert len(pq.read_table(io.BytesIO(to_parquet(trials_frame(()))))) == 0
