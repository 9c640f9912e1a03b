"""`harness nightly`: one line, its exit code, what is delivered whatever happens, the lock, and the timer's words."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from harness.cli import night, scheduling
from harness.engine.timer_units import TimerRequest
from harness.errors import StoreError
from harness.store.nights import nightly_lock, read_nights
from tests.cli.command import Said, run_command

SWEEP = """\
sweep: small
recipe: vllm-cpu-tiny
knobs: {class: prose, context_tokens: 256, concurrency: 1, output_tokens: 64}
configurations:
  four: {num_speculative_tokens: 4}
  off: {num_speculative_tokens: 0}
repeat: {drafts: 60}
budget: {time: 20m}
nightly: {configurations: [four, off]}
"""
SERVED = """\
sweep: served
recipe: attach
knobs: {url: "http://127.0.0.1:9", class: prose, context_tokens: 256, concurrency: 1, cache: warm, output_tokens: 64}
budget: {time: 20m}
"""
NIGHT = "2026-11-01T02:30:00+00:00"


class Nightly:
    """A folder with a sweep in it, and the command on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def run(self, *words: object, text: str = SWEEP) -> Said:
        file = self.folder / "night.yaml"
        file.write_text(text)
        return run_command(self._capsys, "nightly", file, "--root", self.folder, *words)

    def rehearse(self, *words: object, at: str = NIGHT) -> Said:
        return self.run("--engine", "simulated", "--as-of", at, *words)


@pytest.fixture
def nightly(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Nightly:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("GITHUB_STEP_SUMMARY", "HARNESS_WEBHOOK_URL"):
        monkeypatch.delenv(name, raising=False)
    return Nightly(tmp_path, capsys)


def metrics(text: str) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name.partition("{")[0]: float(value) for name, value in lines}


def test_a_night_is_a_line_a_report_a_row_and_what_was_asked_for(
    nightly: Nightly, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = nightly.folder
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    done = nightly.rehearse("--junit", folder / "night.xml", "--prometheus", folder / "night.prom")

    assert done.code == 0, done.err
    (line,) = done.out.splitlines()
    assert line.startswith("small 2026-11-01: no baseline") and line.endswith("SIMULATED")
    assert "--launches" not in run_command(nightly._capsys, "show", "--root", folder).err, "nights take none"
    decides, watched = read_nights(folder / "results", "small")
    assert decides.run_id == watched.run_id and decides.key != watched.key
    assert (folder / "results" / "history.parquet").is_file()
    suite = ET.parse(folder / "night.xml").getroot()
    assert "SIMULATED" in suite.attrib["name"]
    assert metrics((folder / "night.prom").read_text())["harness_nightly_exit_code"] == 0
    assert "SIMULATED" in (folder / "summary.md").read_text()
    (report,) = folder.glob("reports/*/simulated-report.html")
    assert str(report) in line
    assert "the only configuration that has every cell" not in report.read_text()


def test_a_second_night_is_added_and_the_first_is_said_again_as_it_was(nightly: Nightly) -> None:
    nightly.rehearse()
    second = nightly.rehearse(at="2026-11-02T02:30:00+00:00")
    assert "1 earlier night" in second.out
    first, *_ = sorted(path.name for path in (nightly.folder / "results").glob("2026*"))
    (page,) = nightly.folder.glob(f"reports/*{first}/simulated-report.md")
    before = page.read_text()
    again = run_command(nightly._capsys, "report", first, "--root", nightly.folder)
    assert again.code == 0
    assert page.read_text() == before, "a later night changes nothing of it"


def test_journals_of_nights_that_are_a_month_old_are_compressed(nightly: Nightly) -> None:
    nightly.rehearse()
    (journal,) = nightly.folder.glob("results/2026*/journal.jsonl")
    month_ago = journal.stat().st_mtime - 31 * 86400
    os.utime(journal, (month_ago, month_ago))
    nightly.rehearse(at="2026-11-02T02:30:00+00:00")
    assert not journal.exists() and journal.with_name("journal.jsonl.gz").is_file()
    assert len(list(nightly.folder.glob("results/2026*/journal.jsonl"))) == 1
    assert run_command(nightly._capsys, "report", journal.parent.name, "--root", nightly.folder).code == 0


def test_a_server_that_does_not_answer_could_not_be_measured_and_everybody_is_told(nightly: Nightly) -> None:
    prom = nightly.folder / "night.prom"
    done = nightly.run("--prometheus", prom, text=SERVED)
    assert done.code == 3
    (line,) = done.out.splitlines()
    assert "could not run" in line and "no server answers" in line and "exit 3" in line
    assert metrics(prom.read_text())["harness_nightly_exit_code"] == 3
    assert not any(one.is_valid for one in read_nights(nightly.folder / "results", "served"))


def test_what_is_wrong_with_the_sweep_is_told_too(nightly: Nightly) -> None:
    junit = nightly.folder / "night.xml"
    done = nightly.run("--junit", junit, text=SWEEP.replace("time: 20m", "time: 30s"))
    assert done.code == 2
    assert "could not run" in done.out and "has no room for one cell" in done.out
    assert "Give it" in done.err
    assert ET.parse(junit).getroot().attrib["errors"] == "1"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--engine", "simulated", "--as-of", "yesterday"), "--as-of: not a moment"),
        (("--engine", "simulated", "--as-of", "0001-01-01T00:00:00+05:00"), "--as-of: not a moment"),
        (("--engine", "simulated", "--baseline", "../../mine"), "no name for a baseline"),
        (("--engine", "simulated", "--baseline", "mine"), "of a rehearsal, and mine is not the name"),
        (("--baseline", "simulated_small"), "real, and simulated_small is not the name"),
        (("--engine", "simulated", "--launches", "3"), "a night launches once"),
        (("--set", "nothing"), "expected KEY=VALUE"),
        (("--site", "/nowhere/site.yaml"), "cannot be read"),
    ],
)
def test_words_that_mean_nothing_are_told_before_anything_runs(
    nightly: Nightly, words: tuple[str, ...], why: str
) -> None:
    done = nightly.run(*words)
    assert done.code == 2, done.err
    (line,) = done.out.splitlines()
    assert "could not run" in line and why in line and "exit 2" in line
    assert not list((nightly.folder / "results").glob("2026*"))


def test_a_sweep_that_cannot_be_read_is_told_by_the_name_of_its_file(nightly: Nightly) -> None:
    junit = nightly.folder / "night.xml"
    done = nightly.run("--junit", junit, text="sweep: [")
    assert done.code == 2
    assert done.out.startswith("night 2") and "could not run" in done.out
    assert ET.parse(junit).getroot().attrib["errors"] == "1"


def test_what_cannot_be_judged_is_not_measured(nightly: Nightly) -> None:
    """A baseline or a history that cannot be read costs no launch, and leaves no run that `latest` would mean."""
    baseline = nightly.folder / "baselines" / "simulated_small.json"
    baseline.parent.mkdir()
    baseline.write_text("")
    done = nightly.rehearse()
    assert done.code == 2 and "not a baseline" in done.out
    baseline.unlink()
    (nightly.folder / "results" / "nights" / "small.jsonl").mkdir()
    done = nightly.rehearse()
    assert done.code == 3 and "small.jsonl: Is a directory" in done.out
    assert not list((nightly.folder / "results").glob("2026*"))


def test_lines_of_the_history_that_are_no_nights_are_said(nightly: Nightly) -> None:
    nightly.rehearse()
    file = nightly.folder / "results" / "nights" / "small.jsonl"
    file.write_text("half a ni\n" + file.read_text() + "{}\n")
    done = nightly.rehearse(at="2026-11-02T02:30:00+00:00")
    assert done.code == 0 and "1 earlier night" in done.out
    assert "2 lines of the history are no nights, and are passed over" in done.err
    assert "harness history rebuild" in done.err


def test_a_defect_is_no_regression(nightly: Nightly, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("nobody thought of it")

    monkeypatch.setattr(night, "carry_out", broken)
    done = nightly.rehearse()
    assert done.code == 3
    assert "could not run · a defect of the harness: RuntimeError: nobody thought of it · exit 3" in done.out
    assert "Traceback" in done.err


def test_a_night_that_stdout_does_not_take_is_delivered_all_the_same(
    nightly: Nightly, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: str) -> None:
        raise StoreError("cannot write to stdout: No space left on device")

    monkeypatch.setattr(night, "write_document", full)
    done = nightly.rehearse("--prometheus", nightly.folder / "night.prom")
    assert done.code == 0
    assert "warning: cannot write to stdout" in done.err
    assert metrics((nightly.folder / "night.prom").read_text())["harness_nightly_exit_code"] == 0


def test_two_at_a_time_would_measure_each_other(nightly: Nightly) -> None:
    with nightly_lock(nightly.folder / "results", "small"):
        done = nightly.rehearse()
    assert done.code == 3
    assert "is at the nightly run of small" in done.err
    assert not list((nightly.folder / "results").glob("2026*"))
    assert nightly.rehearse().code == 0, "and the lock is free again"


def test_a_real_night_is_of_the_day_on_which_it_is(nightly: Nightly) -> None:
    done = nightly.run("--as-of", NIGHT)
    assert done.code == 2
    assert "--as-of is for --engine simulated" in done.err


def test_a_baseline_of_another_engine_does_not_judge(nightly: Nightly) -> None:
    nightly.rehearse()
    accept = ("baseline", "accept", "latest", "--name", "simulated_small", "--reason", "as it is", "--author", "me")
    assert run_command(nightly._capsys, *accept, "--root", nightly.folder).code == 0
    longer = SWEEP.replace("output_tokens: 64", "output_tokens: 96")
    done = nightly.run("--engine", "simulated", "--as-of", "2026-11-02T02:30:00+00:00", text=longer)
    assert done.code == 0
    assert "measured as a new series, which simulated_small does not judge: workload: " in done.out
    assert "of other prompts or cells" in done.out


def test_the_plan_of_a_night_says_what_is_launched_when(nightly: Nightly) -> None:
    file = nightly.folder / "night.yaml"
    file.write_text(SWEEP)
    done = run_command(nightly._capsys, "plan", file, "--nightly", "--json")
    plan: dict[str, Any] = json.loads(done.out)
    assert [launch["round"] for launch in plan["launches"]] == [1, 1, 2]
    assert plan["nightly"]["baseline"] == "small"


def test_a_report_that_cannot_be_written_hides_no_verdict(nightly: Nightly) -> None:
    (nightly.folder / "reports").write_text("in the way")
    done = nightly.rehearse()
    assert done.code == 0
    assert "no baseline" in done.out and "could not run" not in done.out
    assert "warning: " in done.err and "the report cannot be written" in done.err
    assert read_nights(nightly.folder / "results", "small")


class TestTimer:
    """What is written into the unit is the command as it was typed, without what is about the timer."""

    @pytest.fixture
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> list[TimerRequest]:
        found: list[TimerRequest] = []

        def install(request: TimerRequest) -> tuple[str, ...]:
            found.append(request)
            return ("installed",)

        monkeypatch.setattr(scheduling, "install_timer", install)
        return found

    def test_a_value_that_is_called_like_the_file(self, nightly: Nightly, installed: list[TimerRequest]) -> None:
        file = str(nightly.folder / "night.yaml")
        done = nightly.run("--install-timer", "--junit", file, "--seed=3", "--baseline", "base")
        assert done.code == 0
        root = str(nightly.folder)
        assert installed[0].arguments == ("--root", root, "--junit", file, "--seed=3", "--baseline", "base")

    def test_its_words(self, nightly: Nightly, installed: list[TimerRequest]) -> None:
        done = nightly.run("--install-timer", "--borrow", "--at", "03:15", "--time-limit=90m", "--set", "class=code")
        assert (done.code, done.err) == (0, "installed\n")
        (request,) = installed
        assert request.arguments == ("--root", str(nightly.folder), "--borrow", "--set", "class=code")
        assert request.command[-1] == str(nightly.folder / "night.yaml")
        assert (request.slug, request.at, request.time_limit_s) == ("small", "03:15", 5400)
        assert not (nightly.folder / "results").exists(), "nothing is measured now"

    @pytest.mark.parametrize(
        ("words", "reason"),
        [
            (("--at", "03:15"), "--at is about a timer"),
            (("--time-limit", "1h"), "--time-limit is about a timer"),
            (("--install-timer", "--remove-timer"), "at once"),
            (("--install-timer", "--resume", "latest"), "--resume is of one night"),
            (("--install-timer", "--time-limit", "soon"), "soon"),
            (("--install-timer", "--engine", "nosuch"), "unknown engine"),
            (("--install-timer", "--set", "nosuch=1"), "nosuch"),
        ],
    )
    def test_what_makes_no_sense(
        self, nightly: Nightly, installed: list[TimerRequest], words: tuple[str, ...], reason: str
    ) -> None:
        done = nightly.run(*words)
        assert done.code == 2
        assert reason in done.err
        assert not installed
