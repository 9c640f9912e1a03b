"""`harness history` on real files: nights shown and derived again, old runs thinned out, journals compressed."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cli.accepting import AcceptWish, acceptance_of
from harness.cli.keeping import protected_runs, prune
from harness.records.nightly import Night
from harness.store.journal import open_journal
from harness.store.layout import RESULTS, RunFolder, list_runs
from harness.store.nights import accept, add_night, nightly_lock, read_all_nights, read_nights
from harness.store.reader import read_run
from harness.store.retention import Period
from tests.cli.command import Said, run_command
from tests.fakes.night_builder import FIRST, a_night, put, put_run, run_id_of

AT = "2026-12-01T08:00:00+00:00"


class Place:
    """A folder with nights, and the command on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def run(self, *words: object) -> Said:
        return run_command(self._capsys, "history", *words, "--root", self.folder)

    def show(self, run: RunFolder) -> int:
        return run_command(self._capsys, "show", run.run_id, "--json", "--root", self.folder).code

    def folders(self) -> set[str]:
        return {run.run_id for run in list_runs(self.folder)}

    def run_folder(self, number: int) -> RunFolder:
        return RunFolder(path=self.folder / RESULTS / run_id_of(number))


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path, capsys)


def ago(days: int) -> int:
    """The number of the night of so many days before now."""
    return (datetime.now(UTC) - FIRST).days - days


def grown(run: RunFolder, days_ago: float) -> None:
    """Make the journal one that grew so long ago."""
    then_s = datetime.now(UTC).timestamp() - days_ago * 86_400
    os.utime(run.journal, (then_s, then_s))


def test_nights_are_shown_by_series_with_their_doubts_and_without_a_verdict(place: Place) -> None:
    put(place.folder, a_night(0), a_night(1, doubts=("canary_moved",)), folders=True)
    put(place.folder, a_night(2, figures={"seconds": (), "step_s": ()}, boot_s=None))
    put(place.folder, a_night(3, key="l" * 12, identity={"engine": "0.33.0"}))

    done = place.run("show")

    assert done.code == 0
    lines = done.err.splitlines()
    row = {number: next(line for line in lines if f"2026-11-0{number + 1}" in line) for number in range(4)}
    assert "10.0 s" in row[0]
    assert "20.0 ms" in row[0]
    assert "canary moved" in row[1]
    assert "incomplete" in row[2]
    assert "–" in row[2]
    assert "†" not in row[0]
    assert "†" in row[2]
    headings = [line for line in lines if line.startswith(("k" * 12, "l" * 12))]
    assert [heading.split(": ")[1] for heading in headings] == ["0.32.0 · tiny-target", "0.33.0"]
    assert not any(word in done.err for word in ("regressed", "fine", "improved"))


def test_nights_as_a_document_keep_what_is_missing_missing(place: Place) -> None:
    put(place.folder, a_night(0), a_night(1, figures={}, boot_s=None, simulated=True))
    put(place.folder, a_night(2, sweep="other"))

    first, second = json.loads(place.run("show", "small", "--json").out)["nights"]

    assert first["workload_seconds"] == pytest.approx(10.0, rel=0.01)
    assert first["run_folder"] is False
    assert first["mark"] is None
    assert second["workload_seconds"] is None
    assert second["boot_s"] is None
    assert second["mark"] == "SIMULATED"
    assert len(json.loads(place.run("show", "--json").out)["nights"]) == 3


def test_a_sweep_without_nights_is_refused_and_an_empty_history_is_not(place: Place) -> None:
    assert place.run("show").code == 0
    put(place.folder, a_night(0))
    done = place.run("show", "smal")

    assert done.code == 2
    assert "There are nights of: small." in done.err


def test_rebuilding_derives_each_night_from_its_run_and_keeps_those_whose_run_is_gone(place: Place) -> None:
    lost, wrong = a_night(0), a_night(1, boot_s=1.0)
    put(place.folder, lost)
    put(place.folder, wrong, folders=True)
    put_run(place.folder, run_id_of(2), at=a_night(2).at)  # killed before its night was written down
    put_run(place.folder, run_id_of(3), at=a_night(3).at, nightly=False)

    done = place.run("rebuild")

    assert done.code == 0, done.err
    nights = read_nights(place.folder / RESULTS, "small")
    assert nights[0] == lost
    derived = nights[1:]
    assert [one.run_id for one in derived] == [run_id_of(1)] * 2 + [run_id_of(2)] * 2  # what decides, what is watched
    assert wrong not in derived
    assert all(one.boot_s is not None and one.boot_s > 20 for one in derived)
    assert len({one.key for one in derived}) == 2
    assert "4 nights derived from 2 runs" in done.err
    assert "1 night kept as written down" in done.err
    frame = pd.read_parquet(place.folder / RESULTS / "history.parquet")
    assert set(frame["run_id"]) == {run_id_of(number) for number in (0, 1, 2)}

    again = place.run("rebuild")
    assert again.code == 0
    assert read_nights(place.folder / RESULTS, "small") == nights


def test_rebuilding_drops_no_line_in_silence(place: Place) -> None:
    put(place.folder, a_night(0))
    file = place.folder / RESULTS / "nights" / "small.jsonl"
    with file.open("a") as lines:
        lines.write("what is this\n")

    done = place.run("rebuild")

    assert "1 line of" in done.err
    assert file.with_suffix(".damaged").read_text() == "what is this\n"
    assert read_nights(place.folder / RESULTS, "small") == (a_night(0),)


def test_a_run_that_cannot_be_read_or_is_being_written_keeps_its_nights(place: Place) -> None:
    put(place.folder, a_night(0), a_night(1), folders=True)
    damaged = place.run_folder(0)
    damaged.journal.write_text("no record\n" + damaged.journal.read_text())
    with open_journal(place.run_folder(1), at=AT):
        done = place.run("rebuild")

    assert done.code == 0
    assert f"{run_id_of(0)}: not a record: its nights stay" in done.err
    assert f"{run_id_of(1)} is being written: left alone" in done.err
    assert read_nights(place.folder / RESULTS, "small") == (a_night(0), a_night(1))


def test_the_nights_of_a_sweep_are_not_rebuilt_while_one_goes_on(place: Place) -> None:
    put(place.folder, a_night(0))
    with nightly_lock(place.folder / RESULTS, "small"):
        done = place.run("rebuild")

    assert done.code == 3
    assert f"process {os.getpid()}" in done.err


def test_pruning_thins_out_old_runs_and_keeps_every_night(place: Place) -> None:
    nights = [a_night(ago(days)) for days in range(140, -1, -10)]
    put(place.folder, *nights, folders=True)
    other = put_run(place.folder, run_id_of(ago(500)), at=a_night(ago(500)).at, nightly=False)
    # Two more in the week of one that is already there: only one of them can stay.
    twins = [a_night(ago(100), run_id=run_id_of(ago(100))[:-6] + tail) for tail in ("ffffff", "fffffe")]
    put(place.folder, *twins, folders=True)
    before = place.folders()

    told = place.run("prune", "--keep", "60d", "--dry-run")
    assert told.code == 0
    assert place.folders() == before
    done = place.run("prune", "--keep", "60d")

    assert done.code == 0, done.err
    removed = before - place.folders()
    assert removed == {twins[0].run_id, twins[1].run_id}
    for run_id in removed:
        assert f"would remove {run_id}" in told.err
        assert f"removed {run_id}" in done.err
    assert other.run_id in place.folders()
    assert "not looked at: 1 run that is no night" in done.err
    assert "removed: 2 runs" in done.err
    assert "KiB" in done.err
    assert len(read_nights(place.folder / RESULTS, "small")) == len(nights) + 2
    assert not list((place.folder / RESULTS).glob(".removed*"))


def test_pruning_leaves_what_is_referred_to(place: Place) -> None:
    """A month of nights a year ago: at most one of each month would stay."""
    start = ago(900)
    slow = [a_night(start + number, factor=1.0 if number < 15 else 1.2) for number in range(30)]
    put(place.folder, *slow, folders=True)
    wish = AcceptWish(run=slow[5].run_id, name="old", reason="r", author="a", nights=3)
    accept(place.folder, acceptance_of(wish, place.folder, at=AT))
    wish = AcceptWish(run=slow[9].run_id, name="old", reason="r", author="a", nights=2)
    accept(place.folder, acceptance_of(wish, place.folder, at=AT))

    done = place.run("prune", "--keep", "30d")

    assert done.code == 0, done.err
    left = {slow.index(one) for one in slow if one.run_id in place.folders()}
    assert {3, 4, 5, 8, 9} <= left  # of the baseline, accepted now and earlier
    assert {14, 15} <= left  # on both sides of the change
    assert 29 in left  # the newest
    assert len(left) < 12
    assert "of the baseline old" in done.err
    assert "beside a change point" in done.err


def test_a_run_that_is_no_night_stays_even_where_a_line_calls_it_one(place: Place) -> None:
    put(place.folder, *(a_night(ago(900) + number) for number in range(5)), folders=True)
    wrong = a_night(ago(900) + 1, run_id=run_id_of(ago(900) + 1)[:-6] + "ffffff")
    add_night(place.folder / RESULTS, wrong)
    put_run(place.folder, wrong.run_id, at=wrong.at, nightly=False)
    add_night(place.folder / RESULTS, a_night(ago(900) + 2, run_id="../outside"))
    outside = place.folder / "outside"
    outside.mkdir()

    done = place.run("prune", "--keep", "30d")

    assert done.code == 0, done.err
    assert wrong.run_id in place.folders()
    assert run_id_of(ago(900) + 2) not in place.folders()
    assert outside.is_dir()


def test_a_night_that_is_being_written_is_left_alone(place: Place) -> None:
    put(place.folder, *(a_night(ago(900) + number) for number in range(5)), folders=True)
    with open_journal(place.run_folder(ago(900) + 3), at=AT):
        done = place.run("prune", "--keep", "30d")

    assert done.code == 0
    assert f"{run_id_of(ago(900) + 3)} is being written: left alone" in done.err
    assert run_id_of(ago(900) + 3) in place.folders()


def test_a_damaged_baseline_stops_pruning_before_anything_goes(place: Place) -> None:
    put(place.folder, *(a_night(ago(900) + number) for number in range(5)), folders=True)
    (place.folder / "baselines").mkdir()
    (place.folder / "baselines" / "x.json").write_text("{")
    before = place.folders()

    assert place.run("prune", "--keep", "30d").code == 2
    assert place.folders() == before


def test_a_run_that_cannot_go_is_said_and_the_others_go(place: Place) -> None:
    put(place.folder, *(a_night(ago(900) + number) for number in range(5)), folders=True)
    linked = place.run_folder(ago(900) + 2)
    elsewhere = place.folder / "elsewhere"
    linked.path.rename(elsewhere)
    linked.path.symlink_to(elsewhere)

    done = place.run("prune", "--keep", "30d")

    assert done.code == 3
    assert f"{linked.run_id}: not removed: the folder of the run is a link" in done.err
    assert (elsewhere / "manifest.json").exists()
    assert run_id_of(ago(900) + 3) not in place.folders()


@pytest.mark.parametrize("keep", ["soon", "0d", "-1"])
def test_a_period_that_is_none_is_refused(place: Place, keep: str) -> None:
    assert place.run("prune", f"--keep={keep}").code == 2


def test_old_journals_are_compressed_after_pruning_and_read_as_before(place: Place) -> None:
    put(place.folder, a_night(ago(3)), a_night(ago(2)), folders=True)
    other = put_run(place.folder, run_id_of(ago(1)), at=a_night(ago(1)).at, nightly=False)
    old, new = place.run_folder(ago(3)), place.run_folder(ago(2))
    grown(old, 31)
    grown(new, 29)
    grown(other, 31)
    data = read_run(old)

    done = place.run("prune")

    assert "compressed: 1 journal" in done.err
    assert old.compressed_journal.exists()
    assert not old.journal.exists()
    assert read_run(old) == data
    assert new.journal.exists()
    assert other.journal.exists()
    assert place.show(old) == 0
    assert place.run("rebuild").code == 0
    assert "compressed: 1 journal" in place.run("compress", "--all-runs").err
    assert not other.journal.exists()
    assert "compressed: 1 journal" in place.run("compress", "--older-than", 0).err
    assert not new.journal.exists()


def test_a_journal_that_is_written_is_not_compressed(place: Place) -> None:
    put(place.folder, a_night(ago(3)), folders=True)
    run = place.run_folder(ago(3))
    with open_journal(run, at=AT):
        grown(run, 40)
        done = place.run("compress")

    assert "left alone" in done.err
    assert run.journal.exists()


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Night], list[int]]:
    """Nights over three years with a change, and which of them a baseline is made of."""
    days = sorted(draw(st.lists(st.integers(0, 1_100), min_size=1, max_size=30, unique=True)), reverse=True)
    change = draw(st.integers(0, len(days)))
    nights = [
        a_night(
            ago(day),
            factor=1.3 if at >= change else 1.0,
            doubts=("canary_moved",) if draw(st.integers(0, 6)) == 0 else (),
        )
        for at, day in enumerate(days)
    ]
    return nights, draw(st.lists(st.integers(0, len(days) - 1), max_size=3))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=histories(), days=st.integers(1, 200))
def test_whatever_the_history_pruning_never_removes_what_is_protected(
    tmp_path: Path, template: Path, made: tuple[list[Night], list[int]], days: int
) -> None:
    nights, ends = made
    root = tmp_path / "root"
    shutil.rmtree(root, ignore_errors=True)
    for night in nights:
        add_night(root / RESULTS, night)
        shutil.copytree(template, root / RESULTS / night.run_id)
    for number, end in enumerate(ends):
        if nights[end].is_valid:
            wish = AcceptWish(run=nights[end].run_id, name=f"b{number}", reason="r", author="a", nights=2)
            accept(root, acceptance_of(wish, root, at=AT))
    protected = set(protected_runs(root, nights, {night.run_id for night in nights}))
    kept = Period(days=days)

    prune(root, kept, now=datetime.now(UTC).isoformat(), dry_run=False, say=lambda line: None)

    left = {run.run_id for run in list_runs(root)}
    start = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    assert protected <= left
    assert nights[-1].run_id in left
    assert {night.run_id for night in nights if night.at >= start} <= left
    assert read_all_nights(root / RESULTS) == tuple(nights)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a nightly run as far as pruning looks."""
    run = put_run(tmp_path_factory.mktemp("template"), run_id_of(0), at=AT)
    run.journal.unlink()
    return run.path
