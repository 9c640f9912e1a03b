"""`harness baseline` on real files: which nights, who and why, what changes, and what never mixes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.records.nightly import Baseline
from harness.store.nights import read_acceptances, read_baseline
from tests.cli.command import Said, run_command
from tests.fakes.night_builder import a_night, put, put_run, run_id_of


class Place:
    """A folder with nights, and the command on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def run(self, *words: object) -> Said:
        return run_command(self._capsys, "baseline", *words, "--root", self.folder)

    def accept(self, run: object = "latest", *words: object, name: str = "shipped", reason: str = "as shipped") -> Said:
        return self.run("accept", run, "--name", name, "--reason", reason, "--author", "someone", *words)

    def baseline(self, name: str = "shipped") -> Baseline:
        found = read_baseline(self.folder, name)
        assert found is not None
        return found


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path, capsys)


def ids(*numbers: int) -> tuple[str, ...]:
    return tuple(run_id_of(number) for number in numbers)


def test_a_baseline_is_the_last_fourteen_nights_up_to_the_one_that_is_named(place: Place) -> None:
    put(place.folder, *(a_night(number) for number in range(20)))

    done = place.accept(run_id_of(17), reason="  image 0.32.0 is good ")

    assert done.code == 0, done.err
    baseline = place.baseline()
    assert baseline.run_ids == ids(*range(4, 18))
    assert (baseline.author, baseline.reason, baseline.sweep) == ("someone", "image 0.32.0 is good", "small")
    assert "shipped is now 14 nights of small, accepted by someone: image 0.32.0 is good" in done.err
    assert "a request of the workload takes: 10.0 s" in done.err
    assert done.out == ""


def test_it_may_begin_with_a_day_or_a_run_and_hold_fewer_nights(place: Place) -> None:
    put(place.folder, *(a_night(number) for number in range(30)))

    assert place.accept("latest", "--nights", 6).code == 0
    assert place.baseline().run_ids == ids(*range(24, 30))
    assert place.accept("latest", "--since", "2026-11-05").code == 0
    assert place.baseline().run_ids == ids(*range(4, 30))
    assert place.accept("latest", "--since", run_id_of(20)).code == 0
    assert place.baseline().run_ids == ids(*range(20, 30))
    assert place.accept("latest", "--since", run_id_of(20), "--nights", 5).code == 0
    assert place.baseline().run_ids == ids(*range(25, 30))


def test_doubtful_nights_are_left_out_and_named(place: Place) -> None:
    doubtful = a_night(3, doubts=("canary_moved",))
    half = a_night(6, figures={"seconds": (0.1,), "step_s": ()})
    before = a_night(0, doubts=("slow_boot",))
    nights = [before, *(a_night(number) for number in (1, 2, 4, 5)), doubtful, half]
    put(place.folder, *nights)

    done = place.accept(half.run_id)

    assert done.code == 0, done.err
    assert place.baseline().run_ids == ids(1, 2, 4, 5)
    assert f"left out: {doubtful.run_id}: canary moved" in done.err
    assert f"left out: {half.run_id}: not every figure was measured" in done.err
    assert before.run_id not in done.err  # it is not in the reach of these nights
    assert "only the history judges" in done.err  # four are too few


def test_accepting_over_a_name_says_what_changes_and_loses_nothing(place: Place) -> None:
    put(place.folder, *(a_night(number) for number in range(14)))
    put(place.folder, *(a_night(number, factor=0.9) for number in range(14, 28)))
    assert place.accept(run_id_of(13), reason="first").code == 0
    first = place.baseline()

    done = place.accept(reason="new kernels")

    assert done.code == 0
    assert f"it takes the place of 14 nights, accepted {first.accepted_at[:10]} by someone: first" in done.err
    assert "a request of the workload takes: 10.0 s → 9.00 s (-10" in done.err
    assert "%, better)" in done.err
    found = read_acceptances(place.folder, "shipped")
    assert found is not None
    assert found.current.baseline.reason == "new kernels"
    assert [one.baseline for one in found.earlier] == [first]
    shown = place.run("show", "shipped")
    assert "before that 14 nights, accepted" in shown.err
    assert "first" in shown.err


def test_nights_of_another_series_may_take_the_name_and_that_is_said(place: Place) -> None:
    put(place.folder, *(a_night(number) for number in range(14)))
    assert place.accept().code == 0
    other = {"engine": "0.33.0", "model": "tiny-target"}
    put(place.folder, *(a_night(number, key="l" * 12, identity=other) for number in range(14, 17)))

    done = place.accept()

    assert done.code == 0
    assert place.baseline().run_ids == ids(14, 15, 16)  # never nights of two series
    assert place.baseline().key == "l" * 12
    assert "another series begins" in done.err
    assert "engine: 0.32.0 → 0.33.0" in done.err


def test_a_run_without_any_valid_night_is_refused_with_the_reason(place: Place) -> None:
    put(place.folder, a_night(0, doubts=("canary_moved",)))

    done = place.accept()

    assert done.code == 2
    assert "no valid night is among 1 night" in done.err
    assert "canary moved" in done.err
    assert not (place.folder / "baselines").exists()


@pytest.mark.parametrize("reason", ["", "  \t "])
def test_a_reason_is_required(place: Place, reason: str) -> None:
    put(place.folder, *(a_night(number) for number in range(3)))

    done = place.accept(reason=reason)

    assert done.code == 2
    assert "needs a reason" in done.err
    assert place.run("accept", "latest", "--name", "x").code == 2


def test_a_rehearsal_never_becomes_a_real_baseline_nor_the_other_way_round(place: Place) -> None:
    real = [a_night(number) for number in range(14)]
    put(place.folder, *real)
    put(place.folder, *(replace(one, simulated=True, at=one.at.replace("T02", "T03")) for one in real[:3]))
    rehearsed = [a_night(number, key="s" * 12, simulated=True) for number in range(14, 17)]
    put(place.folder, *rehearsed)

    refused = place.accept(rehearsed[-1].run_id)
    assert refused.code == 2
    assert "is of a rehearsal" in refused.err
    assert not (place.folder / "baselines").exists()

    done = place.accept(rehearsed[-1].run_id, name="simulated_small")
    assert done.code == 0
    assert "SIMULATED: simulated_small is now 3 nights" in done.err
    assert place.baseline("simulated_small").simulated
    assert "SIMULATED" in place.run("list").err
    tree: dict[str, Any] = json.loads(place.run("show", "simulated_small", "--json").out)
    assert tree["current"]["mark"] == "SIMULATED"

    refused = place.accept(run_id_of(13), name="simulated_small")
    assert refused.code == 2
    assert place.baseline("simulated_small").simulated


def test_real_nights_are_not_counted_with_simulated_ones_of_the_same_key(place: Place) -> None:
    put(place.folder, *(a_night(number, simulated=number % 2 == 1) for number in range(11)))

    assert place.accept(run_id_of(10)).code == 0
    assert place.baseline().run_ids == ids(0, 2, 4, 6, 8, 10)


def test_a_run_that_watched_several_configurations_is_taken_by_the_one_that_decides(place: Place) -> None:
    run = put_run(place.folder, run_id_of(0), at=a_night(0).at)
    plan = json.loads(run.plan.read_text())
    gate = plan["nightly"]["gate_id"]
    put(place.folder, a_night(0, key="w" * 12, identity={"configuration": "0123456789ab"}))
    put(place.folder, a_night(0, key="g" * 12, identity={"configuration": gate}))

    assert place.accept().code == 0
    assert place.baseline().key == "g" * 12
    assert place.accept("latest", "--key", "w").code == 0
    assert place.baseline().key == "w" * 12
    missing = place.accept("latest", "--key", "x")
    assert missing.code == 2
    assert "no night of a key that begins with x" in missing.err


def test_without_the_run_a_choice_among_several_configurations_is_asked_for(place: Place) -> None:
    put(place.folder, a_night(0, key="w" * 12), a_night(0, key="g" * 12))

    done = place.accept()

    assert done.code == 2
    assert "watched 2 configurations" in done.err
    assert "w" * 12 in done.err
    assert "g" * 12 in done.err


def test_a_run_is_named_by_prefix_or_path_and_what_is_no_night_is_refused(place: Place) -> None:
    put(place.folder, *(a_night(number) for number in range(3)), folders=True)
    other = put_run(place.folder, "20270101-000000-other-aaaaaa", at="2027-01-01T00:00:00+00:00", nightly=False)

    assert place.accept(run_id_of(1)[:8]).code == 0
    assert place.baseline().run_ids == ids(0, 1)
    assert place.accept(place.folder / "results" / run_id_of(2)).code == 0
    assert place.baseline().run_ids == ids(0, 1, 2)
    for reference, what in (
        (other.run_id, "is no night of a regression run"),
        ("2026", "fits 3 nights"),
        ("nothing", 'no run is called "nothing"'),
    ):
        done = place.accept(reference)
        assert done.code == 2
        assert what in done.err
    assert place.accept("latest").code == 0  # the newest night, whatever else has run since
    assert place.baseline().run_ids == ids(0, 1, 2)


def test_the_author_is_whom_git_knows(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    put(place.folder, *(a_night(number) for number in range(3)))
    config = place.folder / "gitconfig"
    config.write_text("[user]\n\tname = Ada of Git\n")
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(place.folder.parent))
    monkeypatch.setenv("LOGNAME", "ada-login")

    assert place.run("accept", "latest", "--name", "x", "--reason", "why").code == 0
    assert place.baseline("x").author == "Ada of Git"
    config.write_text("")
    assert place.run("accept", "latest", "--name", "x", "--reason", "why").code == 0
    assert place.baseline("x").author == "ada-login"
    monkeypatch.setenv("PATH", str(place.folder))  # no git at all
    assert place.run("accept", "latest", "--name", "x", "--reason", "why").code == 0
    assert place.baseline("x").author == "ada-login"


def test_show_and_list_as_documents(place: Place) -> None:
    put(place.folder, *(a_night(number) for number in range(14)))
    assert json.loads(place.run("list", "--json").out) == {"baselines": []}
    assert "no baseline is accepted yet" in place.run("list").err
    place.accept()

    shown = json.loads(place.run("show", "shipped", "--json").out)
    listed = json.loads(place.run("list", "--json").out)

    assert listed == {"baselines": [shown]}
    current = shown["current"]
    assert current["baseline"]["run_ids"] == list(ids(*range(14)))
    assert current["identity"] == {"engine": "0.32.0", "model": "tiny-target"}
    assert current["facts"] == {"kernel": "6.14"}
    assert current["mark"] is None
    assert shown["earlier"] == []
    table = place.run("list").err
    assert "shipped" in table
    assert "20.0 ms" in table
    text = place.run("show", "shipped").err
    assert "engine: 0.32.0" in text
    assert f"key: {'k' * 12}" in text


def test_a_list_on_a_narrow_screen_names_what_to_type(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    put(place.folder, *(a_night(number, simulated=True) for number in range(14)))
    place.accept(name="simulated_laptop_nightly")
    table = place.run("list").err
    assert "simulated_laptop_nightly " in table
    assert "SIMULATED" in table


def test_an_unknown_name_lists_those_that_are_there(place: Place) -> None:
    put(place.folder, a_night(0))
    assert "baseline accept RUN" in place.run("show", "shiped").err
    place.accept()
    done = place.run("show", "shiped")

    assert done.code == 2
    assert "There are: shipped." in done.err


def test_a_hostile_reason_cannot_move_the_cursor(place: Place) -> None:
    put(place.folder, a_night(0))
    done = place.accept(reason="fine\x1b[2J\r\nreally")

    assert done.code == 0
    assert "\x1b" not in done.err
    assert "\x1b" not in place.run("show", "shipped").err


def test_a_damaged_file_is_not_overwritten(place: Place) -> None:
    put(place.folder, a_night(0))
    path = place.folder / "baselines" / "shipped.json"
    path.parent.mkdir()
    path.write_text('{"current": ')

    done = place.accept()

    assert done.code == 2
    assert "not a baseline" in done.err
    assert path.read_text() == '{"current": '


@pytest.mark.parametrize("words", [("baseline",), ("baseline", "accept"), ("history",), ("history", "prune")])
def test_help_answers_without_what_computes(words: tuple[str, ...]) -> None:
    program = (
        "import sys\n"
        "from harness.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    print(sorted({'pandas', 'scipy', 'numpy', 'rich', 'pydantic'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *words, "--help"], check=True, capture_output=True, text=True)

    assert done.stdout.splitlines()[-1] == "[]"
