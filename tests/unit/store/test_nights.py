"""Nights and baselines survive being written, cut and read again."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import InputError, StoreError
from harness.records.nightly import Baseline, Night
from harness.store.nights import (
    add_night,
    list_baselines,
    nightly_lock,
    read_acceptances,
    read_all_nights,
    read_baseline,
    read_nights,
    rewrite_nights,
    write_baseline,
)

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


def test_a_run_that_watches_two_configurations_is_a_night_of_each(tmp_path: Path) -> None:
    watched = replace(NIGHT, key="other")
    add_night(tmp_path, NIGHT)
    add_night(tmp_path, watched)
    add_night(tmp_path, replace(NIGHT, boot_s=30.0))

    assert read_nights(tmp_path, "small") == (replace(NIGHT, boot_s=30.0), watched)


def test_sweeps_that_share_a_file_are_kept_apart(tmp_path: Path) -> None:
    dashed, dotted = replace(NIGHT, sweep="a-b"), replace(NIGHT, sweep="a.b")
    add_night(tmp_path, dashed)
    add_night(tmp_path, dotted)

    assert read_nights(tmp_path, "a-b") == (dashed,)
    assert read_nights(tmp_path, "a.b") == (dotted,)
    assert len(read_all_nights(tmp_path)) == 2
    assert len(list((tmp_path / "nights").iterdir())) == 1


def test_a_night_after_a_line_that_a_crash_cut_is_not_swallowed_by_it(tmp_path: Path) -> None:
    add_night(tmp_path, NIGHT)
    with (tmp_path / "nights" / "small.jsonl").open("a") as file:
        file.write('{"run_id": "run-2", "swe')
    add_night(tmp_path, replace(NIGHT, run_id="run-3", at="2026-12-02T02:00:00+00:00"))

    assert [night.run_id for night in read_nights(tmp_path, "small")] == ["run-1", "run-3"]


def test_what_is_no_night_is_kept_beside_the_nights_when_they_are_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "nights" / "small.jsonl"
    add_night(tmp_path, NIGHT)
    with path.open("ab") as file:
        file.write(b'{"run_id": "run-2", "swe\n\xff\xfe\n')
    later = replace(NIGHT, run_id="run-3", at="2026-12-02T02:00:00+00:00")

    assert rewrite_nights(tmp_path, "small", [later, NIGHT]) == 2
    assert read_nights(tmp_path, "small") == (NIGHT, later)
    assert len(path.with_suffix(".damaged").read_text().splitlines()) == 2
    assert rewrite_nights(tmp_path, "small", [NIGHT]) == 0
    assert len(path.read_text().splitlines()) == 1


def test_two_nightly_runs_of_a_sweep_do_not_meet_and_the_second_says_who_is_first(tmp_path: Path) -> None:
    with nightly_lock(tmp_path, "small"):
        with (
            pytest.raises(StoreError, match=f"process {os.getpid()} is at the nightly run of small"),
            nightly_lock(tmp_path, "small"),
        ):
            raise AssertionError("two at a time")
        with nightly_lock(tmp_path, "another"):
            pass

    with nightly_lock(tmp_path, "small"):
        pass


def test_a_nightly_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, os, signal\n"
        "from harness.store.nights import nightly_lock\n"
        "with nightly_lock(pathlib.Path(sys.argv[1]), 'small'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)

    assert ended.returncode == -9
    assert (tmp_path / "nights" / "small.lock").read_text().strip().isdigit()
    with nightly_lock(tmp_path, "small"):
        pass


def test_a_line_that_a_crash_cut_is_passed_over(tmp_path: Path) -> None:
    add_night(tmp_path, NIGHT)
    with (tmp_path / "nights" / "small.jsonl").open("a") as file:
        file.write('{"run_id": "run-2", "swe')

    assert read_nights(tmp_path, "small") == (NIGHT,)


def test_a_baseline_that_is_accepted_anew_keeps_the_earlier_one_in_its_file(tmp_path: Path) -> None:
    write_baseline(tmp_path, BASELINE)
    newer = replace(BASELINE, reason="new image")
    write_baseline(tmp_path, newer)

    assert read_baseline(tmp_path, "shipped") == newer
    assert list_baselines(tmp_path) == (newer,)
    found = read_acceptances(tmp_path, "shipped")
    assert found is not None
    assert [one.baseline for one in found.all] == [newer, BASELINE]
    assert read_baseline(tmp_path, "other") is None
    assert list_baselines(tmp_path / "nowhere") == ()


def test_a_real_baseline_and_a_simulated_one_never_have_the_same_name(tmp_path: Path) -> None:
    path = write_baseline(tmp_path, BASELINE)
    before = path.read_bytes()

    with pytest.raises(InputError, match="shipped is of real nights, these are simulated"):
        write_baseline(tmp_path, replace(BASELINE, simulated=True))
    assert path.read_bytes() == before
    marked = write_baseline(tmp_path, replace(BASELINE, name="rehearsed", simulated=True))
    assert '"mark": "SIMULATED"' in marked.read_text()


def test_names_that_would_share_a_file_do_not_overwrite_each_other(tmp_path: Path) -> None:
    path = write_baseline(tmp_path, replace(BASELINE, name="my-own"))

    with pytest.raises(InputError, match="my-own has this file already"):
        write_baseline(tmp_path, replace(BASELINE, name="my.own"))
    assert '"my-own"' in path.read_text()


def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    path = write_baseline(tmp_path, replace(BASELINE, name="../../etc/passwd"))

    assert path == tmp_path / "baselines" / "etc_passwd.json"
    assert read_baseline(tmp_path, "../../etc/passwd") == replace(BASELINE, name="../../etc/passwd")


def test_a_damaged_baseline_is_said_to_be_one(tmp_path: Path) -> None:
    path = write_baseline(tmp_path, BASELINE)
    path.write_text("{")

    with pytest.raises(InputError, match="not a baseline"):
        read_baseline(tmp_path, "shipped")


@pytest.mark.parametrize("values", [{}, {"seconds": ()}, {"seconds": (0.1, 0.2)}])
def test_a_baseline_without_a_value_for_each_night_is_damaged(
    tmp_path: Path, values: dict[str, tuple[float, ...]]
) -> None:
    write_baseline(tmp_path, replace(BASELINE, values=values))

    with pytest.raises(InputError, match="not a value for each of its nights"):
        read_baseline(tmp_path, "shipped")


def test_a_disk_that_cannot_be_written_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "nights").write_text("a file where a folder should be")

    with pytest.raises(StoreError, match="nights"):
        add_night(tmp_path, NIGHT)
