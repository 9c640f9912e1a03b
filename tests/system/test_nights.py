"""Thirty nights and more through the real command, in virtual time: quiet ones, and what went wrong found and named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.records.codec import from_json
from harness.records.nightly import Night
from harness.records.plan import Plan

pytestmark = pytest.mark.system

FIRST = datetime(2026, 11, 1, 2, 30, tzinfo=UTC)
ACCEPTED = 14  # nights that make the baseline
QUIET = 24

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Say:
    """Run the command in this process, in a folder; its exit code, stdout and stderr."""

    def say(folder: Path, *arguments: str) -> tuple[int, str, str]:
        out, err = folder / "out.txt", folder / "err.txt"
        with pytest.MonkeyPatch.context() as patch, out.open("w") as stdout, err.open("w") as stderr:
            patch.chdir(folder)
            patch.setenv("HARNESS_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "texts"))
            patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
            patch.setenv("COLUMNS", "160")
            patch.setattr("sys.stdout", stdout)
            patch.setattr("sys.stderr", stderr)
            with pytest.raises(SystemExit) as ended:
                main(list(arguments))
        code = ended.value.code
        return code if isinstance(code, int) else 0, out.read_text(), err.read_text()

    return say


def night(said: Say, folder: Path, number: int, scenario: str = "default", *more: str) -> tuple[int, str]:
    """Run night ``number`` (from 0); its exit code and its line."""
    at = (FIRST + timedelta(days=number)).isoformat()
    options = ("--engine", "simulated", "--scenario", scenario, "--as-of", at)
    code, out, err = said(folder, "nightly", "laptop_nightly", *options, *more)
    assert "Traceback" not in err
    (line,) = [line for line in out.splitlines() if line]
    assert "SIMULATED" in line and at[:10] in line, line
    return code, line


@pytest.fixture(scope="module")
def quiet(said: Say, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with quiet nights, of which the first are the accepted baseline."""
    folder = tmp_path_factory.mktemp("nights")
    for number in range(ACCEPTED):
        assert night(said, folder, number)[0] == 0
    accept = ("baseline", "accept", "latest", "--name", "simulated_laptop_nightly", "--reason", "two quiet weeks")
    assert said(folder, *accept)[0] == 0
    codes = [night(said, folder, number)[0] for number in range(ACCEPTED, QUIET)]
    assert codes == [0] * len(codes)
    return folder


@pytest.fixture
def later(quiet: Path, tmp_path: Path) -> Path:
    """The quiet nights, for a test to go on from."""
    folder = tmp_path / "later"
    shutil.copytree(quiet, folder)
    return folder


def nights_in(folder: Path) -> list[Night]:
    (file,) = (folder / "results" / "nights").glob("*.jsonl")
    return [from_json(Night, line) for line in file.read_text().splitlines()]


def until_not_fine(said: Say, folder: Path, scenario: str, *, most: int) -> list[tuple[int, str]]:
    """Nights under a scenario, up to the first that is not fine."""
    found = []
    for number in range(QUIET, QUIET + most):
        found.append(night(said, folder, number, scenario))
        if found[-1][0] != 0:
            break
    return found


def test_quiet_nights_are_one_series_of_one_launch_each(quiet: Path) -> None:
    nights = nights_in(quiet)
    assert len({one.run_id for one in nights}) == QUIET
    assert len({one.key for one in nights}) == 1
    assert all(one.simulated and one.is_valid for one in nights)
    seconds = [one.value("seconds") for one in nights]
    assert len(set(seconds)) == QUIET, "each night has noise of its own"
    launches = [len(one.figures["seconds"]) for one in nights]
    assert launches.count(1) > QUIET // 2, "a second launch is made on suspicion only"


def test_slower_kernels_are_found_within_nights_and_called_step_time(said: Say, later: Path) -> None:
    found = until_not_fine(said, later, "slower_kernels", most=3)
    code, line = found[-1]
    assert code == 1, found
    assert "regressed" in line
    assert "step time moved and acceptance did not" in line
    report = sorted((later / "reports").glob("*/simulated-report.html"))[-1].read_text()
    assert "regressed" in report and "SIMULATED" in report
    (newest,) = [one for one in nights_in(later) if one.at[:10] == line_date(line)]
    assert len(newest.figures["seconds"]) == 2, "nothing is called a regression after one launch"


def test_another_template_is_called_acceptance(said: Say, later: Path) -> None:
    code, line = until_not_fine(said, later, "other_template", most=3)[-1]
    assert code == 1, line
    assert "acceptance moved and step time did not" in line


def test_a_rig_in_its_slow_state_is_doubtful_and_no_regression(said: Say, later: Path) -> None:
    codes = [night(said, later, number, "slow_night") for number in range(QUIET, QUIET + 4)]
    assert 1 not in [code for code, _ in codes], codes
    before = {one.run_id for one in nights_in(later)}
    assert len(before) == QUIET + 4


def test_a_night_that_is_stopped_is_carried_on_with(said: Say, later: Path) -> None:
    code, _ = night(said, later, QUIET)
    assert code == 0
    again, line = night(said, later, QUIET, "default", "--resume")
    assert again == 0 and "fine" in line
    assert len({one.run_id for one in nights_in(later)}) == QUIET + 1


def test_the_second_launch_is_planned_and_its_cells_are_not_missing(quiet: Path) -> None:
    newest = sorted((quiet / "results").glob("*/plan.json"))[-1]
    plan = from_json(Plan, newest.read_text())
    assert [launch.round for launch in plan.launches] == [1, 2]
    report = sorted((quiet / "reports").glob("*/simulated-report.md"))[-1].read_text()
    assert "not measured yet" not in report
    assert json.loads((newest.parent / "manifest.json").read_text())["started_at"][:10] == report_date(newest.parent)


def report_date(run: Path) -> str:
    return f"{run.name[:4]}-{run.name[4:6]}-{run.name[6:8]}"


def line_date(line: str) -> str:
    return next(word.strip(":") for word in line.split() if word.startswith("2026-"))
