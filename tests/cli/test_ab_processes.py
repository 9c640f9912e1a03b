"""`harness ab` on real processes: checks of the site, a kill in mid-run, and an arm that never comes up."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from tests.system.driver import FAKE, Desk

pytestmark = pytest.mark.system  # half a minute of processes

PACE = "step_a_ms=5 step_b_ms=0.1"  # with two drafted tokens a step brings twice as many: nothing hides that
NAMES = ("--base", "none", "--candidate", "two")
ARMS = (*NAMES, "--launches", "2")


def write(desk: Desk, **keys: object) -> str:
    arms = {"none": {"num_speculative_tokens": 0}, "two": {"num_speculative_tokens": 2}}
    command = [sys.executable, str(FAKE)]  # a value, no axis: arms take fixed knobs only
    knobs = {"num_speculative_tokens": None, "output_tokens": 48, "command": command}
    return desk.write_sweep(configurations=arms, knobs=knobs, repeat={"drafts": 10}, **keys)


def verdict(desk: Desk) -> str:
    page = next(desk.reports.glob("*/report.md")).read_text().replace("\\", "")
    return next(line for line in page.splitlines() if line.startswith("**"))


def depths(desk: Desk) -> list[int]:
    return [launch["configuration"]["knobs"]["num_speculative_tokens"] for launch in desk.of_kind("launch")]


def test_a_check_that_fails_on_the_candidate_vetoes_better(desk: Desk) -> None:
    path = desk.folder / "config" / "harness" / "site.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"checks": {"garble": {"shell": "exit 1"}}}))

    done = desk.run("ab", write(desk, checks=["garble"]), *ARMS, FAKE_VLLM=PACE)

    assert done.code == 4, done.err
    assert verdict(desk).startswith("**two is not called better than none, although it is at +"), done.err
    assert "the check garble failed" in verdict(desk)
    assert len(desk.of_kind("check")) == 2, "once for each configuration"
    desk.require_no_engine()


def test_a_killed_comparison_is_carried_on_with_and_measures_nothing_twice(desk: Desk) -> None:
    sweep = write(desk)
    running = desk.start("ab", sweep, *ARMS, FAKE_VLLM=PACE)
    running.wait_until(lambda: len(desk.of_kind("launch")) >= 2, "two launches never ended")
    running.send(signal.SIGKILL)
    running.process.wait(30)
    before = [trial["trial_id"] for trial in desk.of_kind("trial")]

    done = desk.run("ab", sweep, *ARMS, "--resume", FAKE_VLLM=PACE)

    assert done.code == 0, done.err
    assert verdict(desk).startswith("**two is better than none: +"), done.err
    order = "".join(str(one) for one in depths(desk))
    assert order.count("0") == order.count("2") == 2
    trials = [trial["trial_id"] for trial in desk.of_kind("trial")]
    assert trials[: len(before)] == before and len(trials) == len(set(trials)) == 4
    desk.require_no_engine()


def test_servers_that_never_come_up_end_it(desk: Desk) -> None:
    done = desk.run("ab", write(desk), *NAMES, FAKE_VLLM=f"{PACE} die_at_boot=crash")

    assert done.code == 3, done.err
    assert "never came up" in done.err
    assert len(desk.of_kind("launch")) <= 4
