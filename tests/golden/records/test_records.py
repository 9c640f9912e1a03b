"""Runs written by earlier versions are read for ever, and give the same table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.records.manifest import RECORD_VERSION
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from harness.store.frames import write_derived
from harness.store.layout import RunFolder
from harness.store.reader import read_run

HERE = Path(__file__).parent


def test_every_version_has_a_golden_run() -> None:
    names = {path.name for path in HERE.glob("version_*")}
    assert names == {f"version_{version}" for version in range(1, RECORD_VERSION + 1)}


@pytest.mark.parametrize("version", range(1, RECORD_VERSION + 1))
def test_a_golden_run_gives_its_table_to_the_byte(version: int, tmp_path: Path) -> None:
    folder = RunFolder(path=Path(shutil.copytree(HERE / f"version_{version}", tmp_path / "run")))
    run = read_run(folder)
    write_derived(folder, summarise_run(run.trials, run.launches, Limits()))
    assert folder.cells_csv.read_text() == (folder.path / "expected_cells.csv").read_text()


def test_a_golden_run_holds_every_kind_of_record() -> None:
    run = read_run(RunFolder(path=HERE / "version_1"))
    assert run.plan is not None and not run.torn
    assert [len(kind) for kind in (run.launches, run.trials, run.notes, run.launch_starts)] == [3, 4, 1, 2]
    assert [len(kind) for kind in (run.sessions, run.ends)] == [1, 1]
    assert {trial.trial_id for trial in run.trials if trial.failure is None} == {"0a", "4a", "4b"}
    assert run.launches[-1].outcome == "failed_to_boot"
