"""Run ids, and what a word on the command line means."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import InputError, StoreError
from harness.store.layout import (
    RunFolder,
    create_run,
    list_runs,
    new_run_id,
    report_directory,
    resolve_run,
    unused_run_id,
)

FIRST = "20261130-132811-laptop-4f2a9c"
SECOND = "20261130-140000-laptop-aaaaaa"
OTHER = "20261130-150000-vision_exp-bbbbbb"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for run_id in (SECOND, OTHER, FIRST):
        create_run(tmp_path, run_id).manifest.write_text("{}")
    (tmp_path / "results" / "rigs").mkdir()
    (tmp_path / "results" / "20261130-160000-laptop-cccccc").mkdir()  # killed before its manifest was written
    return tmp_path


def test_an_id_has_its_time_its_sweep_and_is_one_of_its_kind() -> None:
    one = new_run_id("2026-11-30T14:28:11+01:00", "My sweep/2", {"pid": 1})
    other = new_run_id("2026-11-30T14:28:11+01:00", "My sweep/2", {"pid": 2})
    assert one.startswith("20261130-132811-My_sweep_2-")
    assert one != other
    assert one == new_run_id("2026-11-30T14:28:11+01:00", "My sweep/2", {"pid": 1})


def test_ids_sort_by_time_across_zones() -> None:
    stamps = ["2026-10-25T02:59:59+02:00", "2026-10-25T02:00:01+01:00", "2026-10-25T03:00:00+01:00"]
    ids = [new_run_id(stamp, "s", None) for stamp in stamps]
    assert ids == sorted(ids)


def test_a_run_is_not_made_twice(tmp_path: Path) -> None:
    assert create_run(tmp_path, FIRST).logs.is_dir()
    with pytest.raises(StoreError, match="exists already"):
        create_run(tmp_path, FIRST)


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(StoreError) as caught:
        create_run(tmp_path, FIRST)
    assert caught.value.hint is not None and "--root" in caught.value.hint


def test_only_runs_are_listed_oldest_first(root: Path) -> None:
    assert [run.run_id for run in list_runs(root)] == [FIRST, SECOND, OTHER]
    assert [run.run_id for run in list_runs(root, sweep="laptop")] == [FIRST, SECOND]
    assert list_runs(root / "nowhere") == ()


@pytest.mark.parametrize(
    ("reference", "sweep", "expected"),
    [
        (FIRST, None, FIRST),
        ("20261130-1328", None, FIRST),
        ("latest", None, OTHER),
        ("latest", "laptop", SECOND),
        ("20261130-15", None, OTHER),
    ],
)
def test_a_reference_means_one_run(root: Path, reference: str, sweep: str | None, expected: str) -> None:
    assert resolve_run(reference, root=root, sweep=sweep) == RunFolder(path=root / "results" / expected)


def test_a_path_means_the_run_there_whatever_its_name(root: Path, tmp_path: Path) -> None:
    moved = (root / "results" / FIRST).rename(tmp_path / "copied from elsewhere")
    for reference in (moved, moved / "manifest.json"):
        assert resolve_run(str(reference), root=root).path == moved


def test_an_ambiguous_prefix_lists_what_it_fits(root: Path) -> None:
    with pytest.raises(InputError, match="fits 3 runs") as caught:
        resolve_run("20261130", root=root)
    assert caught.value.hint is not None and FIRST in caught.value.hint and OTHER in caught.value.hint
    assert caught.value.exit_code == 2


def test_an_unknown_run_lists_what_there_is(root: Path) -> None:
    with pytest.raises(InputError, match='no run is called "nope"') as caught:
        resolve_run("nope", root=root)
    assert caught.value.hint is not None and OTHER in caught.value.hint


def test_latest_of_nothing_says_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run of sweep laptop yet") as caught:
        resolve_run("latest", root=tmp_path, sweep="laptop")
    assert caught.value.hint is not None and "harness sweep" in caught.value.hint


def test_reports_are_dated(tmp_path: Path) -> None:
    path = report_directory(tmp_path, date="2026-11-30T13:28:11+00:00", sweep="laptop", run_id=FIRST)
    assert path == tmp_path / "reports" / f"2026-11-30-laptop-{FIRST}"


def test_runs_of_one_second_keep_their_order_and_have_names_of_their_own(tmp_path: Path) -> None:
    ids = []
    for number in range(3):
        ids.append(unused_run_id(tmp_path, "2026-11-30T14:28:11+01:00", f"s{9 - number}", 1))
        create_run(tmp_path, ids[-1])
    assert [name[:15] for name in ids] == ["20261130-132811", "20261130-132812", "20261130-132813"]
    assert sorted(ids) == ids
    later = unused_run_id(tmp_path, "2026-11-30T14:28:20+01:00", "s", 1)
    assert later.startswith("20261130-132820"), "where the clock is free it is as the clock says"


def test_where_results_cannot_be_looked_at_the_clock_counts(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    assert unused_run_id(tmp_path, "2026-11-30T14:28:11+01:00", "s", 1).startswith("20261130-132811")
