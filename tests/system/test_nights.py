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
QUIET = 22

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
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


def quiet_nights(said: Say, folder: Path) -> None:
    """Quiet nights, of which the first are the accepted baseline."""
    codes = [night(said, folder, number)[0] for number in range(ACCEPTED)]
    accept = ("baseline", "accept", "latest", "--name", "simulated_laptop_nightly", "--reason", "two quiet weeks")
    assert said(folder, *accept, "--author", "owner")[0] == 0
    codes += [night(said, folder, number)[0] for number in range(ACCEPTED, QUIET)]
    assert codes.count(0) >= QUIET - 2 and set(codes) <= {0, 4}, "no alarm, and seldom two launches that disagree"


def nights_in(folder: Path) -> list[Night]:
    (file,) = (folder / "results" / "nights").glob("*.jsonl")
    return [from_json(Night, line) for line in file.read_text().splitlines()]


def until_regressed(said: Say, folder: Path, scenario: str, *, most: int) -> str:
    """Nights under a scenario up to the first that is called a regression; its line."""
    lines = []
    for number in range(QUIET, QUIET + most):
        code, line = night(said, folder, number, scenario)
        lines.append(line)
        if code == 1:
            return line
    pytest.fail("\n".join(lines))


def newest_report(folder: Path, name: str) -> str:
    return max(folder.glob(f"reports/*/{name}")).read_text()


# One story: its quiet nights take two minutes, and every part goes on from them.
def test_thirty_nights(said: Say, tmp_path: Path) -> None:
    quiet = tmp_path / "quiet"
    quiet.mkdir()
    quiet_nights(said, quiet)
    quiet_nights_are_one_series_of_one_launch_each(quiet)
    the_second_launch_is_planned_and_its_cells_are_not_missing(quiet)
    parts = (
        slower_kernels_are_found_and_called_the_rig,
        another_template_is_called_acceptance,
        a_rig_in_its_slow_state_is_doubtful_and_no_regression,
        a_night_that_is_over_is_said_again,
    )
    for part in parts:
        folder = tmp_path / part.__name__
        shutil.copytree(quiet, folder)
        part(said, folder)


def quiet_nights_are_one_series_of_one_launch_each(quiet: Path) -> None:
    nights = nights_in(quiet)
    assert len({one.run_id for one in nights}) == QUIET
    assert len({one.key for one in nights}) == 1
    assert all(one.simulated and one.is_valid for one in nights)
    seconds = [one.value("seconds") for one in nights]
    assert len(set(seconds)) == QUIET, "each night has noise of its own"
    launches = [len(one.figures["seconds"]) for one in nights]
    assert launches.count(1) > QUIET // 2, "a second launch is made on suspicion only"


def the_second_launch_is_planned_and_its_cells_are_not_missing(quiet: Path) -> None:
    newest = max(quiet.glob("results/*/plan.json"))
    plan = from_json(Plan, newest.read_text())
    assert [launch.round for launch in plan.launches] == [1, 2]
    assert "not measured yet" not in newest_report(quiet, "simulated-report.md")
    started_at = json.loads((newest.parent / "manifest.json").read_text())["started_at"]
    assert newest.parent.name.startswith(started_at[:10].replace("-", ""))


def slower_kernels_are_found_and_called_the_rig(said: Say, folder: Path) -> None:
    line = until_regressed(said, folder, "slower_kernels", most=3)
    assert "regressed" in line and "the canary itself became slower" in line
    report = newest_report(folder, "simulated-report.html")
    assert "Regressed" in report and "SIMULATED" in report
    assert len(nights_in(folder)[-1].figures["seconds"]) == 2, "nothing is called a regression after one launch"


def another_template_is_called_acceptance(said: Say, folder: Path) -> None:
    assert "acceptance moved and step time did not" in until_regressed(said, folder, "other_template", most=3)


def a_rig_in_its_slow_state_is_doubtful_and_no_regression(said: Say, folder: Path) -> None:
    found = [night(said, folder, number, "slow_night") for number in range(QUIET, QUIET + 2)]
    assert [code for code, _ in found] == [4, 4]
    assert all("slow boot" in line for _, line in found)


def a_night_that_is_over_is_said_again(said: Say, folder: Path) -> None:
    code, line = night(said, folder, QUIET - 1, "default", "--resume")
    assert code in (0, 4) and "regressed" not in line
    assert len({one.run_id for one in nights_in(folder)}) == QUIET
