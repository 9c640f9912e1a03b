"""Removing a run: whole, never one that is written, never through a link, and what a crash left goes the next time."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import StoreError
from harness.store.journal import open_journal
from harness.store.layout import RunFolder, list_runs
from harness.store.pruning import clear_removed, remove_run, size_bytes
from tests.unit.store.build import AT, new_folder, note, write


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = new_folder(tmp_path)
    write(folder, [note("one")])
    (folder.logs / "launch.log").write_bytes(b"x" * 1000)
    return folder


def test_a_run_goes_as_a_whole(folder: RunFolder, tmp_path: Path) -> None:
    files = [path for path in folder.path.rglob("*") if path.is_file()]

    assert size_bytes(folder) == sum(path.stat().st_size for path in files) > 1000
    remove_run(folder)
    assert list((tmp_path / "results").iterdir()) == []


def test_a_run_that_is_written_stays(folder: RunFolder) -> None:
    with open_journal(folder, at=AT), pytest.raises(StoreError, match="is writing this run"):
        remove_run(folder)

    assert folder.manifest.exists()


def test_a_link_to_elsewhere_is_not_followed(folder: RunFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    folder.path.rename(elsewhere)
    folder.path.symlink_to(elsewhere)

    with pytest.raises(StoreError, match="link to elsewhere"):
        remove_run(folder)
    assert (elsewhere / "manifest.json").exists()


def test_links_in_a_run_are_removed_and_not_what_they_point_to(folder: RunFolder, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    (folder.path / "link").symlink_to(kept)

    remove_run(folder)

    assert (kept / "file").read_text() == "mine"


def test_what_a_crash_left_is_no_run_and_goes_the_next_time(folder: RunFolder, tmp_path: Path) -> None:
    results = tmp_path / "results"
    folder.path.rename(results / f".removed-{folder.run_id}")

    assert list_runs(tmp_path) == ()
    clear_removed(results)
    assert list(results.iterdir()) == []
