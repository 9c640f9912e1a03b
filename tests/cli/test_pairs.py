"""`harness engine status` and `restore` where the record of one pair cannot be read: it hides no other."""

from __future__ import annotations

from pathlib import Path

from harness.engine.pair.state import PairState, PairStates
from harness.engine.registry import ProcessMark
from tests.system.driver import Desk


def left_behind(desk: Desk) -> tuple[Path, PairStates]:
    """A record that a power cut has torn, and one of a run that is dead."""
    states = PairStates(directory=Path(desk.environment["HARNESS_STATE_DIR"]) / "pairs")
    for pair_id in ("aa", "bb"):
        states.record(
            PairState(
                pair_id=pair_id,
                run_id=f"run-{pair_id}",
                recipe="dspark-2x-spark",
                owner=ProcessMark(pid=1, started_ticks=1),
                boot_id="of another boot",
                head="no-such-host.invalid",
                worker="worker.invalid",
                checkout=None,
                trial_project="harness-aa",
                work_folder="/w",
                saved=(),
            )
        )
    torn = states.folder("aa") / "state.json"
    torn.write_text(torn.read_text()[:40])
    return torn, states


def test_status_lists_the_others_and_names_the_torn_one(desk: Desk) -> None:
    torn, _ = left_behind(desk)

    shown, document = desk.run("engine", "status"), desk.run("engine", "status", "--json").document()

    assert shown.code == 0, shown.err
    assert "left behind by run run-bb; `harness engine restore` puts it back" in shown.err
    assert f"a pair is not listed: {torn}: what has to be put back on the pair cannot be read" in shown.err
    assert [pair["run_id"] for pair in document["pairs"]] == ["run-bb"]
    (unread,) = document["unreadable_pairs"]
    assert unread["where"] == str(torn) and "by hand" in unread["hint"]


def test_restore_tries_the_others_and_fails_for_the_torn_one(desk: Desk) -> None:
    torn, states = left_behind(desk)

    done = desk.run("engine", "restore")

    assert done.code == 3
    assert str(torn) in done.err and "no-such-host.invalid" in done.err
    assert torn.exists() and states.find("bb") is not None
