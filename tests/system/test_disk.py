"""Disks that are full or cannot be written: exit 3 with the remedy, what was measured is safe, and the run goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.driver import Desk
from tests.system.stages import STAGES, require_complete, staged_sweep

pytestmark = pytest.mark.system


@pytest.fixture
def disk(desk: Desk) -> Iterator[Path]:
    """A file system of 4 MB, on which the desk keeps its results and reports."""
    place = desk.folder / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4M", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"may not mount a file system here: {mounted.stderr.decode().strip()}")
    desk.root = place
    yield place
    desk.clear()
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Take all the space that is left."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1 << 8, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
    return filler


@pytest.mark.parametrize(("name", "kept"), [("trial", 0), ("second trial", 1)])
def test_a_disk_that_fills_up_costs_what_was_not_written_yet(desk: Desk, disk: Path, name: str, kept: int) -> None:
    running = STAGES[name].begin(desk, staged_sweep(desk), "--root", "disk")
    filler = fill(disk)

    stopped = running.end()

    assert stopped.code == 3
    assert "journal.jsonl: No space left on device" in stopped.err
    assert "Free some space, then resume" in stopped.err
    desk.require_no_engine()
    before = [trial["trial_id"] for trial in desk.of_kind("trial")]
    assert len(before) == kept
    assert len(desk.run("show", "--json", "--root", "disk").document()["cells"]) == kept

    filler.unlink()
    done = desk.run("sweep", "small.yaml", "--root", "disk", "--resume")

    assert done.code == 0, done.err
    trials = [trial["trial_id"] for trial in desk.of_kind("trial")]
    assert trials[:kept] == before
    assert len(trials) == len(set(trials)) == 2
    assert list(desk.reports.glob("*/report.html"))
    desk.require_no_engine()


def test_a_disk_that_is_full_already_gets_no_run(desk: Desk, disk: Path) -> None:
    fill(disk)

    done = desk.run("sweep", desk.write_sweep(), "--root", "disk")

    assert done.code == 3
    assert "No space left on device" in done.err
    assert desk.runs() == []
    assert not (desk.folder / "state").exists()


def test_a_disk_that_fills_up_before_the_report_costs_the_report_alone(desk: Desk, disk: Path) -> None:
    running = STAGES["second canary"].begin(
        desk, desk.write_sweep(knobs={"num_speculative_tokens": 2}), "--root", "disk"
    )
    running.wait_until(lambda: len(desk.of_kind("session_end")) == 1, "the session never ended")
    filler = fill(disk)

    stopped = running.end()

    assert stopped.code == 3
    assert "No space left on device" in stopped.err
    assert "tokens/s" in stopped.err, "the result is shown all the same"
    filler.unlink()
    assert desk.run("report", "--root", "disk").code == 0
    assert list(desk.reports.glob("*/report.html"))


def test_what_is_read_only_can_be_read(desk: Desk, disk: Path) -> None:
    assert desk.run("sweep", desk.write_sweep(knobs={"num_speculative_tokens": 2}), "--root", "disk").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

    shown = desk.run("show", "--json", "--root", "disk")
    refused = [
        desk.run("report", "--root", "disk"),
        desk.run("sweep", "small.yaml", "--root", "disk", "--resume"),
        desk.run("sweep", "small.yaml", "--root", "disk"),
    ]

    assert len(shown.document()["cells"]) == 1
    for done in refused:
        assert done.code == 3
        assert "Read-only file system" in done.err
        assert "--root DIR" in done.err
    assert desk.processes() == []


def test_reports_that_cannot_be_written_cost_no_measurement(desk: Desk) -> None:
    desk.reports.write_text("in the way")

    stopped = desk.run("sweep", staged_sweep(desk))

    assert stopped.code == 3
    assert "the report cannot be written" in stopped.err
    assert "The measurements are safe" in stopped.err
    assert "tokens/s" in stopped.err, "the result is shown all the same"
    assert desk.journal()[-1]["outcome"] == "finished"

    desk.reports.unlink()
    require_complete(desk, desk.run("sweep", "small.yaml", "--resume"))


def test_an_engine_that_cannot_be_written_down_is_not_started(desk: Desk) -> None:
    state = desk.folder / "state"
    state.write_text("in the way")

    stopped = desk.run("sweep", staged_sweep(desk))

    assert stopped.code == 3
    assert "HARNESS_STATE_DIR" in stopped.err
    assert desk.processes() == []
    assert desk.journal()[-1]["outcome"] == "stopped"
    state.unlink()
    require_complete(desk, desk.run("sweep", "small.yaml", "--resume"))


def test_a_cache_that_cannot_be_written_costs_nothing(desk: Desk) -> None:
    (desk.folder / "cache").write_text("in the way")

    done = desk.run("sweep", desk.write_sweep(knobs={"num_speculative_tokens": 2}))

    assert done.code == 0, done.err
    assert len(desk.of_kind("trial")) == 1
