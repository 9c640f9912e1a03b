"""What has to be put back, on disk: it is never half forgotten, misread, or hidden by another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.engine.pair.state import PairState, PairStates
from harness.engine.registry import ProcessMark
from harness.errors import StoreError


def state_of(pair_id: str) -> PairState:
    return PairState(
        pair_id=pair_id,
        run_id="run",
        recipe="r",
        owner=ProcessMark(pid=1, started_ticks=1),
        boot_id="b",
        head="this machine",
        worker="w",
        checkout=None,
        trial_project="p",
        work_folder="/w",
        saved=(),
    )


@pytest.fixture
def states(tmp_path: Path) -> PairStates:
    return PairStates(directory=tmp_path / "pairs")


def test_the_record_goes_before_the_copies(states: PairStates, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill in between would else leave a record that nothing can follow any more."""
    states.record(state_of("a"))
    states.keep("a", "0-worker.tar", b"files")

    def killed(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.engine.pair.state.shutil.rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        states.forget("a")

    assert states.find("a") is None
    assert list(states.each()) == []


def test_a_record_that_stays_is_told(states: PairStates, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would put old files in the place of newer ones, some day."""
    states.record(state_of("a"))

    def read_only(path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(StoreError, match="Read-only file system") as told:
        states.forget("a")

    assert told.value.hint == "Remove that folder."


def test_what_is_not_there_is_forgotten_already(states: PairStates) -> None:
    states.forget("a")


@pytest.mark.parametrize("damage", ["torn", "newer"])
def test_one_that_cannot_be_read_hides_no_other(states: PairStates, damage: str) -> None:
    for name in ("a", "b"):
        states.record(state_of(name))
    path = states.folder("a") / "state.json"
    text = path.read_text()
    path.write_text(text[:40] if damage == "torn" else json.dumps({**json.loads(text), "format": 99, "more": 1}))

    unread, other = states.each()

    assert isinstance(unread, StoreError) and "cannot be read" in unread.what and unread.where == str(path)
    assert isinstance(other, PairState) and other.pair_id == "b"


def test_copies_of_a_run_that_changed_nothing_are_removed(states: PairStates) -> None:
    states.keep("a", "0-worker.tar", b"KEY=1")
    states.keep("b", "0-worker.tar", b"KEY=2")
    states.keep("c", "0-worker.tar", b"KEY=3")
    states.record(state_of("c"))

    with states.locked("b"):  # it is just being written
        states.remove_unused()

    assert sorted(path.name for path in states.directory.iterdir()) == ["b", "c"]
