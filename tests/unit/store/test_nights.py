"""Nights and baselines survive being written, cut and read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import InputError, StoreError
from harness.records.nightly import Baseline, Night
from harness.store.nights import add_night, list_baselines, read_baseline, read_nights, write_baseline

NIGHT = Night(
    run_id="run-1",
    sweep="small",
    at="2026-11-30T02:00:00+00:00",
    key="k",
    figures={"seconds": (0.1, 0.2)},
    cells={"load": {"ttft_s": 0.4}},
    facts={"driver": "580"},
)
BASELINE = Baseline(
    name="shipped",
    sweep="small",
    key="k",
    accepted_at="2026-11-30T09:00:00+00:00",
    author="operator",
    reason="as shipped",
    run_ids=("run-1",),
    values={"seconds": (0.1,)},
)


def test_nights_come_back_by_date_and_the_last_word_of_a_run_counts(tmp_path: Path) -> None:
    add_night(tmp_path, replace(NIGHT, run_id="run-2", at="2026-12-01T02:00:00+00:00"))
    add_night(tmp_path, replace(NIGHT, doubts=("canary_moved",)))
    add_night(tmp_path, NIGHT)
    add_night(tmp_path, replace(NIGHT, sweep="other"))

    assert [night.run_id for night in read_nights(tmp_path, "small")] == ["run-1", "run-2"]
    assert read_nights(tmp_path, "small")[0] == NIGHT
    assert read_nights(tmp_path, "unknown") == ()


def test_a_line_that_a_crash_cut_is_passed_over(tmp_path: Path) -> None:
    add_night(tmp_path, NIGHT)
    with (tmp_path / "nights" / "small.jsonl").open("a") as file:
        file.write('{"run_id": "run-2", "swe')

    assert read_nights(tmp_path, "small") == (NIGHT,)


def test_a_baseline_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_baseline(tmp_path, BASELINE)
    newer = replace(BASELINE, reason="new image")
    write_baseline(tmp_path, newer)

    assert read_baseline(tmp_path, "shipped") == newer
    assert list_baselines(tmp_path) == (newer,)
    assert read_baseline(tmp_path, "other") is None
    assert list_baselines(tmp_path / "nowhere") == ()


def test_a_damaged_baseline_is_said_to_be_one(tmp_path: Path) -> None:
    path = write_baseline(tmp_path, BASELINE)
    path.write_text("{")

    with pytest.raises(InputError, match="not a baseline"):
        read_baseline(tmp_path, "shipped")


def test_a_disk_that_cannot_be_written_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "nights").write_text("a file where a folder should be")

    with pytest.raises(StoreError, match="nights"):
        add_night(tmp_path, NIGHT)
