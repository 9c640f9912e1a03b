"""The stages of a run, seen from outside, at which it can be stopped or killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.system.driver import Desk, Done, Started, cells_of

SLOW_STEPS = "step_a_ms=3 step_b_ms=0.5"
_REQUEST = '"POST /v1/chat/completions'
_BEFORE_A_TRIAL = 14  # requests at most: one to look, one or two to draft, six of the canary, five to warm up


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A moment in the first or second launch."""

    name: str
    reached: Callable[[Desk, Started], bool]
    switches: str = SLOW_STEPS  # of the stand-in, so that the stage lasts

    def begin(self, desk: Desk, sweep: str, *more: str) -> Started:
        """Start the sweep and return when the stage is reached."""
        started = desk.start("sweep", sweep, *more, FAKE_VLLM=self.switches)
        started.wait_until(lambda: self.reached(desk, started), f"never at: {self.name}")
        return started


def _requests(desk: Desk) -> int:
    return desk.engine_log().count(_REQUEST)


def _records(desk: Desk, kind: str) -> int:
    return len(desk.of_kind(kind))


STAGES = {
    stage.name: stage
    for stage in (
        Stage(name="session", reached=lambda desk, started: _records(desk, "session_start") == 1),
        Stage(name="registered", reached=lambda desk, started: any((desk.folder / "state").rglob("*.json"))),
        Stage(
            name="boot",
            reached=lambda desk, started: "api_utils.py" in desk.engine_log(),
            switches=f"{SLOW_STEPS} slow_boot_s=1.5",
        ),
        Stage(name="canary", reached=lambda desk, started: "ready after" in started.said),
        Stage(name="warm-up", reached=lambda desk, started: "trial 1/" in started.said),
        Stage(name="trial", reached=lambda desk, started: _requests(desk) > _BEFORE_A_TRIAL),
        Stage(name="second canary", reached=lambda desk, started: _records(desk, "trial") == 1),
        Stage(name="between launches", reached=lambda desk, started: _records(desk, "launch") == 1),
        Stage(name="second boot", reached=lambda desk, started: _records(desk, "launch_started") == 2),
        Stage(name="second trial", reached=lambda desk, started: "trial 2/" in started.said),
        Stage(name="report", reached=lambda desk, started: _records(desk, "session_end") == 1),
    )
}


def staged_sweep(desk: Desk) -> str:
    """Write a sweep of two launches with a trial each that lasts some seconds at slow steps."""
    return desk.write_sweep(knobs={"output_tokens": 48}, repeat={"drafts": 200})


def require_complete(desk: Desk, done: Done) -> None:
    """The run is whole: every cell measured, none twice, nothing left that runs, a report written."""
    assert done.code == 0, done.err
    desk.require_no_engine()
    assert not list((desk.folder / "state").rglob("*.json"))
    cells = cells_of(desk.run("show", "--json"))
    assert len(cells) == 2
    assert all(len(trials) == 1 for trials in cells.values())
    measured = [trial["trial_id"] for trial in desk.of_kind("trial")]
    assert sorted(measured) == sorted(set(measured)), "a trial was measured twice"
    ids = [start["launch_id"] for start in desk.of_kind("launch_started")]
    assert len(ids) == len(set(ids))
    assert list(desk.reports.glob("*/report.html"))
    assert not list(desk.reports.glob(".*"))
