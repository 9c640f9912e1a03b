"""`harness tune` on real processes: killed and interrupted in a launch, and engines that never come up."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from tests.system.driver import Desk

pytestmark = pytest.mark.system  # minutes, nearly all of it starting processes
PACE = "step_a_ms=8 step_b_ms=0.1"  # with two drafted tokens a step brings twice as many: nothing hides that
SLOW = "step_a_ms=20 step_b_ms=0.1"


def write(desk: Desk, *, depths: Sequence[int] = (0, 2), **keys: object) -> str:
    knobs = {"num_speculative_tokens": list(depths), "output_tokens": 48}
    tune = {"confirm": {"best": 1, "launches": 1}}
    known: dict[str, object] = {"incumbent": {"num_speculative_tokens": 0}, "tune": tune, "repeat": {"drafts": 40}}
    return desk.write_sweep(knobs=knobs, **(known | keys))


def trials(desk: Desk) -> list[FrozenTrial]:
    (path,) = (desk.results / "studies").glob("*.db")
    storage = f"sqlite:///{path}"
    (name,) = optuna.get_all_study_names(storage)
    return optuna.load_study(study_name=name, storage=storage).trials


def verdict(desk: Desk, run: Path) -> str:
    page = next(desk.reports.glob(f"*{run.name}/report.md")).read_text().replace("\\", "")
    return next(line for line in page.splitlines() if line.startswith("**"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_a_launch_it_goes_on_and_measures_nothing_twice(desk: Desk, number: signal.Signals) -> None:
    sweep = write(desk)
    running = desk.start("tune", sweep, FAKE_VLLM=SLOW)
    running.wait_until(lambda: "trial 2/" in running.said, "the second launch never came to its cell")
    running.send(number)
    code = running.process.wait(60)
    assert code == (130 if number == signal.SIGINT else -signal.SIGKILL)
    left = [trial.state for trial in trials(desk)]
    assert left[0] == TrialState.COMPLETE
    # Ctrl-C gives it back at once, so that who shares the study need not wait; a killed one leaves its lease.
    assert left[1] == (TrialState.FAIL if number == signal.SIGINT else TrialState.RUNNING)

    done = desk.run("tune", sweep, "--resume", FAKE_VLLM=PACE)

    assert done.code == 0, done.err
    told = [trial for trial in trials(desk) if trial.state == TrialState.COMPLETE]
    assert [trial.params["num_speculative_tokens"] for trial in told] == [0, 2]
    assert not [trial for trial in trials(desk) if trial.state in (TrialState.RUNNING, TrialState.WAITING)]
    measured = [trial["trial_id"] for trial in desk.of_kind("trial")]
    assert len(measured) == len(set(measured)) == 4
    assert verdict(desk, desk.only_run()).startswith("**Run k=2")
    desk.require_no_engine()


def test_engines_that_never_come_up_end_it_and_what_they_seemed_to_say_is_forgotten(desk: Desk) -> None:
    sweep = write(desk, depths=[0, 1, 2], incumbent={"num_speculative_tokens": 2})

    failed = desk.run("tune", sweep, FAKE_VLLM=f"{PACE} die_at_boot=crash")

    assert failed.code == 3, failed.err
    assert "the first 3 launches all failed: " in failed.err
    assert [trial.state for trial in trials(desk)] == [TrialState.FAIL] * 3

    done = desk.run("tune", sweep, "--resume", FAKE_VLLM=PACE)

    assert done.code in (0, 4), done.err
    told = [trial for trial in trials(desk) if trial.state == TrialState.COMPLETE]
    assert [trial.params["num_speculative_tokens"] for trial in told][:2] == [2, 0]
    assert all(trial.constraints["launch_ok"] == 0 for trial in told)


def test_a_second_search_of_the_rig_begins_with_what_is_known(desk: Desk) -> None:
    sweep = write(desk)
    first = desk.run("tune", sweep, FAKE_VLLM=PACE)
    assert first.code == 0, first.err

    second = desk.run("tune", sweep, FAKE_VLLM=PACE)

    assert second.code == 0, second.err
    assert "known already: 2 launches of the study small-" in second.err
    assert "reference: " not in second.err and "search: " not in second.err
    assert "known already" in verdict(desk, desk.runs()[-1]) or "Known already" in second.err
    assert len(trials(desk)) == 2
