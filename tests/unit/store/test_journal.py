"""The journal through crashes: cut lines, full disks, killed writers, and two writers at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import StoreError
from harness.records.journal import LaunchStart, RunNote, SessionEnd, SessionStart
from harness.store.journal import is_being_written, open_journal
from harness.store.layout import RunFolder
from harness.store.reader import JournalTail, read_run
from tests.fakes.run_builder import fake_run
from tests.unit.store.build import AT, SMALL, new_folder, note, write

ROOT = Path(__file__).parents[3]


def _texts(folder: RunFolder) -> list[str]:
    return [one.text for one in read_run(folder).notes]


def test_a_run_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    run = fake_run(SMALL)
    folder = new_folder(tmp_path, run)
    start = SessionStart(at=AT, command=("harness", "sweep", "x.yaml"), harness_version="0.1.0")
    first = run.launches[0]
    launch_start = LaunchStart(
        launch_id=first.launch_id,
        launch_key="key",
        ordinal=1,
        round=1,
        attempt=1,
        configuration=first.configuration,
        started_at=AT,
    )
    end = SessionEnd(at=AT, outcome="finished")
    write(folder, [start, launch_start, *run.trials, *run.launches, note("hello\u2028\n"), end])
    data = read_run(folder)
    assert (data.manifest, data.plan) == (run.manifest, run.plan)
    assert (data.trials, data.launches) == (run.trials, run.launches)
    assert (data.sessions, data.launch_starts, data.notes, data.ends) == (
        (start,),
        (launch_start,),
        (note("hello\u2028\n"),),
        (end,),
    )
    assert not data.torn and data.unfinished_launches == ()
    assert {trial.trial_id for trial in data.trials} == {trial.trial_id for trial in run.trials}


def test_each_line_says_what_it_is(tmp_path: Path) -> None:
    run = fake_run(SMALL)
    folder = new_folder(tmp_path, run)
    write(folder, [run.trials[0], run.launches[0], note("x")])
    kinds = [json.loads(line)["record"] for line in folder.journal.read_text().splitlines()]
    assert kinds == ["trial", "launch", "note"]


def test_a_launch_that_was_started_and_never_ended_is_told(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    configuration = fake_run(SMALL).launches[0].configuration
    start = LaunchStart(
        launch_id="l9", launch_key="k", ordinal=1, round=1, attempt=1, configuration=configuration, started_at=AT
    )
    write(folder, [start])
    assert read_run(folder).unfinished_launches == (start,)


_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(_TEXT, min_size=1, max_size=4), cut=st.integers(1, 10_000))
def test_any_cut_of_the_last_line_loses_that_record_alone(texts: list[str], cut: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = new_folder(Path(name))
        write(folder, [note(text) for text in texts])
        whole = folder.journal.read_bytes()
        last = len(whole) - (whole.rfind(b"\n", 0, -1) + 1)
        lost = whole[-last:][: last - min(cut, last)]
        folder.journal.write_bytes(whole[: len(whole) - min(cut, last)])

        before = read_run(folder)
        assert [one.text for one in before.notes] == texts[:-1]
        assert before.torn == bool(lost)
        write(folder, [note("after")])

        repairs = [f"the last record was cut short by a crash: its {len(lost)} bytes were moved to journal.torn"]
        assert _texts(folder) == [*texts[:-1], *(repairs if lost else []), "after"]
        assert not read_run(folder).torn
        if lost:
            assert folder.torn.read_bytes() == lost + b"\n"


@pytest.mark.parametrize("tail", [b"\0\0\0\0", b"\0\0\0\0\n", b'{"record":"no', b'{"record":"no\n', b"\xff\xfe\n"])
def test_a_tail_that_is_no_json_is_passed_over_and_kept_aside(tmp_path: Path, tail: bytes) -> None:
    folder = new_folder(tmp_path)
    write(folder, [note("a")])
    with folder.journal.open("ab") as file:
        file.write(tail)
    assert _texts(folder) == ["a"] and read_run(folder).torn
    write(folder, [note("b")])
    assert [_texts(folder)[0], _texts(folder)[-1]] == ["a", "b"]
    assert folder.torn.read_bytes() == tail + b"\n"


def test_a_torn_record_longer_than_a_block_is_found(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    write(folder, [note("a")])
    with folder.journal.open("ab") as file:
        file.write(b'{"record":"note","text":"' + b"x" * 300_000)
    write(folder, [note("b")])
    assert _texts(folder)[0] == "a" and _texts(folder)[-1] == "b"


@pytest.mark.parametrize(
    "line",
    ["{broken", "[]", '{"record":"unheard_of"}', '{"no":"record"}', '{"record":"note","at":"x"}', '{"record":[]}'],
)
def test_damage_inside_names_the_line_and_not_its_content(tmp_path: Path, line: str) -> None:
    folder = new_folder(tmp_path)
    write(folder, [note("a"), note("b"), note("c")])
    lines = folder.journal.read_text().splitlines()
    lines[1] = line
    folder.journal.write_text("\n".join(lines) + "\n")
    with pytest.raises(StoreError) as caught:
        read_run(folder)
    assert caught.value.where == f"{folder.journal}:2"
    assert "unheard_of" not in str(caught.value)


def test_nan_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    trial = fake_run(SMALL).trials[0]
    broken = replace(trial, requests=(replace(trial.requests[0], sent_s=float("nan")),))
    with open_journal(folder, at=AT) as journal:
        with pytest.raises(ValueError, match="JSON"):
            journal.append(broken)
        journal.append(note("still fine"))
    assert _texts(folder) == ["still fine"]


def test_a_second_writer_is_refused_with_the_first_ones_name(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    assert not is_being_written(folder)
    with open_journal(folder, at=AT):
        assert is_being_written(folder)
        with pytest.raises(StoreError, match=f"process {os.getpid()} is writing this run"), open_journal(folder, at=AT):
            pass
    assert not is_being_written(folder)


def test_a_reader_follows_a_journal_that_is_being_written(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    tail = JournalTail(folder)
    assert list(tail.new_entries()) == []
    with open_journal(folder, at=AT) as journal:
        journal.append(note("a"))
        assert list(tail.new_entries()) == [note("a")]
        assert list(tail.new_entries()) == []
        with folder.journal.open("ab") as file:
            file.write(b'{"record":"note","at":"x",')
        assert list(tail.new_entries()) == [] and tail.torn
        with folder.journal.open("ab") as file:
            file.write(b'"text":"b"}\n')
        assert list(tail.new_entries()) == [RunNote(at="x", text="b")] and not tail.torn


WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from harness.records.journal import RunNote
    from harness.store.journal import open_journal
    from harness.store.layout import RunFolder

    with open_journal(RunFolder(path=Path(sys.argv[1])), at="now") as journal:
        for number in range(1_000_000):
            journal.append(RunNote(at="now", text=f"{number} " + "x" * 3000))
            print(number, flush=True)
    """
)


def test_what_a_killed_writer_had_acknowledged_is_there_and_the_lock_is_free(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder.path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
        with pytest.raises(StoreError, match=f"process {writer.pid}"), open_journal(folder, at=AT):
            pass
        writer.send_signal(signal.SIGKILL)
        acknowledged = 20 + len(writer.stdout.read().splitlines())
    assert writer.returncode == -signal.SIGKILL
    write(folder, [note("resumed")])
    numbers = [int(text.split()[0]) for text in _texts(folder) if text.endswith("x")]
    assert numbers[:acknowledged] == list(range(acknowledged))
    assert len(numbers) <= acknowledged + 1
    assert _texts(folder)[-1] == "resumed"


LIMITED = textwrap.dedent(
    """
    import resource, sys
    from pathlib import Path
    from harness.errors import StoreError
    from harness.records.journal import RunNote
    from harness.store.journal import open_journal
    from harness.store.layout import RunFolder

    folder = RunFolder(path=Path(sys.argv[1]))
    with open_journal(folder, at="now") as journal:
        journal.append(RunNote(at="now", text="first"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (folder.journal.stat().st_size + 100, resource.RLIM_INFINITY))
        try:
            journal.append(RunNote(at="now", text="x" * 1000))
        except StoreError as error:
            print(error)
        journal.append(RunNote(at="now", text="fits"))
    """
)


def test_a_write_that_takes_only_a_part_is_taken_back(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(folder.path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "resume" in done.stdout and str(folder.journal) in done.stdout
    assert _texts(folder) == ["first", "fits"]
    assert not folder.torn.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said_with_its_remedy(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    folder.journal.symlink_to("/dev/full")
    with open_journal(folder, at=AT) as journal:
        with pytest.raises(StoreError, match="No space left") as caught:
            journal.append(note("a"))
        assert caught.value.hint is not None and "Free some space" in caught.value.hint
        assert caught.value.exit_code == 3


def test_a_run_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    tree = json.loads(folder.manifest.read_text())
    folder.manifest.write_text(json.dumps(tree | {"record_version": 2, "harness_version": "9.1", "new_field": 1}))
    with pytest.raises(StoreError, match="record version 2; this harness reads up to 1") as caught:
        read_run(folder)
    assert caught.value.hint is not None and "9.1" in caught.value.hint
    assert caught.value.exit_code == 2


def test_a_folder_that_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not the folder of a run"):
        read_run(RunFolder(path=tmp_path))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"record_version": 1}', '{"record_version": "1"}'])
def test_a_damaged_manifest_is_said(tmp_path: Path, text: str) -> None:
    folder = new_folder(tmp_path)
    folder.manifest.write_text(text)
    with pytest.raises(StoreError):
        read_run(folder)
