"""Journals of old runs take less room, read the same, and never leave a moment without a whole one on the disk."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import StoreError, UnreadableRunError
from harness.records.journal import RunNote
from harness.store.compression import compress_journal
from harness.store.journal import open_journal, run_lock
from harness.store.layout import RunFolder
from harness.store.reader import JournalTail, read_run
from tests.unit.store.build import AT, new_folder, note, write


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = new_folder(tmp_path)
    write(folder, [note(f"note {number}: {'the same words again ' * 20}") for number in range(50)])
    return folder


def compressed(folder: RunFolder) -> int | None:
    with run_lock(folder):
        return compress_journal(folder)


def test_a_compressed_journal_reads_the_same_and_is_smaller(folder: RunFolder) -> None:
    before, size = read_run(folder), folder.journal.stat().st_size

    freed = compressed(folder)

    assert not folder.journal.exists()
    assert freed == size - folder.compressed_journal.stat().st_size
    assert freed > size / 2
    assert read_run(folder) == before
    assert compressed(folder) is None


def test_equal_journals_give_equal_bytes(folder: RunFolder) -> None:
    compressed(folder)
    first = folder.compressed_journal.read_bytes()
    with open_journal(folder, at=AT):
        pass
    compressed(folder)

    assert folder.compressed_journal.read_bytes() == first


def test_a_run_that_is_carried_on_with_has_a_plain_journal_again(folder: RunFolder) -> None:
    before = read_run(folder).notes
    compressed(folder)

    with open_journal(folder, at=AT) as journal:
        journal.append(note("more"))

    assert not folder.compressed_journal.exists()
    assert read_run(folder).notes == (*before, note("more"))


def test_a_journal_that_a_crash_cut_is_cut_likewise_when_compressed(folder: RunFolder) -> None:
    with folder.journal.open("ab") as file:
        file.write(b'{"record":"note","at"')
    compressed(folder)

    assert read_run(folder).torn
    with open_journal(folder, at=AT):
        pass
    assert not read_run(folder).torn
    assert "cut short" in read_run(folder).notes[-1].text


def test_a_run_that_is_followed_goes_on_from_its_place_when_it_is_compressed(folder: RunFolder) -> None:
    tail = JournalTail(folder)
    seen = list(tail.new_entries())
    compressed(folder)

    assert list(tail.new_entries()) == []
    with open_journal(folder, at=AT) as journal:
        journal.append(note("more"))
    assert list(tail.new_entries()) == [note("more")]
    assert len(seen) == 50


def test_where_a_crash_left_both_the_plain_one_counts(folder: RunFolder) -> None:
    folder.compressed_journal.write_bytes(gzip.compress(b'{"record":"note","at":"x","text":"stale"}\n'))

    assert read_run(folder).notes[0].text.startswith("note 0")
    with open_journal(folder, at=AT):
        pass
    assert not folder.compressed_journal.exists()
    assert len(read_run(folder).notes) == 50


def cut(content: bytes) -> bytes:
    return content[:-20]


def spoilt(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 0xFF for byte in content[middle : middle + 30]) + content[middle + 30 :]


def foreign(content: bytes) -> bytes:
    return b"not gzip" + content


@pytest.mark.parametrize("damage", [cut, spoilt, foreign])
def test_a_damaged_one_is_said_to_be_one_and_is_left_alone(folder: RunFolder, damage: Callable[[bytes], bytes]) -> None:
    compressed(folder)
    damaged = damage(folder.compressed_journal.read_bytes())
    folder.compressed_journal.write_bytes(damaged)

    with pytest.raises(UnreadableRunError, match=r"journal\.jsonl\.gz"):
        read_run(folder)
    with pytest.raises(UnreadableRunError), open_journal(folder, at=AT):
        pass
    assert folder.compressed_journal.read_bytes() == damaged
    assert not folder.journal.exists()


def test_a_disk_that_takes_nothing_leaves_the_plain_one(folder: RunFolder) -> None:
    folder.compressed_journal.mkdir()  # what is to be replaced cannot be

    with pytest.raises(StoreError, match=r"journal\.jsonl\.gz"):
        compressed(folder)
    assert len(folder.journal.read_bytes().splitlines()) == 50
    assert not list(folder.path.glob(".journal*"))


def test_a_run_that_is_written_is_not_compressed(folder: RunFolder) -> None:
    with open_journal(folder, at=AT) as journal:
        with pytest.raises(StoreError, match="is writing this run"):
            compressed(folder)
        journal.append(RunNote(at=AT, text="still here"))

    assert read_run(folder).notes[-1].text == "still here"
