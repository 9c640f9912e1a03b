"""Windows of a log that is being written."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.engine.logfile import LogReader


def reader(tmp_path: Path, data: bytes) -> LogReader:
    path = tmp_path / "engine.log"
    path.write_bytes(data)
    return LogReader(path=path)


def test_a_half_written_line_waits(tmp_path: Path) -> None:
    log = reader(tmp_path, b"one\ntwo\nthr")

    window = log.since(0)
    assert window.lines == ("one", "two")
    with log.path.open("ab") as file:
        file.write(b"ee\n")
    assert log.since(window.end).lines == ("three",)


def test_the_last_words_of_a_dead_engine_count_without_an_end_of_line(tmp_path: Path) -> None:
    assert reader(tmp_path, b"one\nkilled").tail(1) == ("killed",)
    assert reader(tmp_path, b"one\nkilled").matching(0, ("kill",)) == ("killed",)


def test_a_progress_bar_is_its_last_state(tmp_path: Path) -> None:
    assert reader(tmp_path, b"load 0%\rload 50%\rload 100%\n").since(0).lines == ("load 100%",)


def test_there_may_be_no_log(tmp_path: Path) -> None:
    log = LogReader(path=tmp_path / "none.log")

    assert log.size() == 0
    assert log.since(0).lines == ()
    assert log.tail(5) == ()


def test_blank_lines_are_no_part_of_a_tail(tmp_path: Path) -> None:
    assert reader(tmp_path, b"a\n\n\nb\n\n").tail(2) == ("a", "b")


@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20), max_size=10
    ),
    st.data(),
)
def test_windows_add_up_to_the_whole(lines: list[str], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = "".join(f"{line}\n" for line in lines).encode()
        cut = data.draw(st.integers(0, len(text)))
        path = Path(folder) / "engine.log"
        path.write_bytes(text[:cut])
        log = LogReader(path=path)
        first = log.since(0)
        path.write_bytes(text)
        second = log.since(first.end)

    assert first.lines + second.lines == tuple(text.decode(errors="replace").split("\n")[:-1])
