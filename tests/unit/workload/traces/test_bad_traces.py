"""Traces as they lie around: damaged, cut off, of the wrong encoding. Each is counted, or one clear error."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import InputError
from harness.workload.traces import source
from harness.workload.traces.entry import Entry, NotReplayableError, Reason, Skipped
from harness.workload.traces.formats import FORMATS
from harness.workload.traces.read import read_trace

SECRET = "the private words of somebody"
GOOD = json.dumps({"model": "m", "messages": [{"role": "user", "content": SECRET}]}).encode()


def skipped(path: Path) -> dict[int, Reason]:
    return {each.line: each.reason for each in read_trace(path) if isinstance(each, Skipped)}


def entries(path: Path) -> list[Entry]:
    return [each for each in read_trace(path) if isinstance(each, Entry)]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def put(content: bytes, name: str = "trace.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return put


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"messages": [', Reason.NOT_JSON),
        (b'{"messages": [{"role": "user", "content": NaN}]}', Reason.NOT_FINITE),
        (b'{"messages": [{"role": "user", "content": "x"}], "temperature": Infinity}', Reason.NOT_FINITE),
        (b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}', Reason.NOT_UTF8),
        (b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", Reason.TOO_DEEP),
        (b"[1, 2]", Reason.NO_OBJECT),
        (b"null", Reason.NO_OBJECT),
        (b'{"messages": null}', Reason.EMPTY),
        (b'{"messages": [null]}', Reason.MALFORMED),
        (b'{"messages": [{"role": null, "content": null}]}', Reason.MALFORMED),
        (b'{"messages": [{"role": ["user"], "content": "x"}]}', Reason.UNKNOWN_ROLE),
        (b'{"messages": [{"role": "user", "content": {"a": null}}]}', Reason.MALFORMED),
        (b'{"messages": [{"role": "user", "content": null}]}', Reason.EMPTY),
        (b'{"messages": [{"role": "user", "content": "  "}]}', Reason.EMPTY),
        (b'{"conversations": [{"from": "human", "value": "x"}]}', Reason.OTHER_FORMAT),
        (b'{"timestamp": 0, "input_length": 5}', Reason.OTHER_FORMAT),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(write: Callable[..., Path], line: bytes, reason: Reason) -> None:
    path = write(GOOD + b"\n" + line + b"\n\n" + GOOD + b"\n")

    assert skipped(path) == {2: reason}
    assert [entry.line for entry in entries(path)] == [1, 4]


def test_a_last_line_that_breaks_off_is_told_from_one_that_is_no_json(write: Callable[..., Path]) -> None:
    assert skipped(write(GOOD + b"\n" + GOOD[:-20])) == {2: Reason.BROKEN_OFF}
    assert len(entries(write(GOOD + b"\n" + GOOD))) == 2


def test_a_line_of_fifty_megabytes_is_passed_over(write: Callable[..., Path]) -> None:
    path = write(GOOD + b'\n{"messages": "' + b"x" * 50_000_000 + b'"}\n' + GOOD + b"\n")

    assert skipped(path) == {2: Reason.TOO_LONG}
    assert [entry.line for entry in entries(path)] == [1, 3]


def test_marks_and_ends_of_lines_of_other_systems(write: Callable[..., Path]) -> None:
    path = write(b"\xef\xbb\xbf" + GOOD + b"\r\n" + GOOD + b"\r\n")

    assert [entry.line for entry in entries(path)] == [1, 2]
    assert skipped(path) == {}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_text_is_refused_with_the_remedy(write: Callable[..., Path], encoding: str) -> None:
    with pytest.raises(InputError, match="UTF-16 or UTF-32") as caught:
        list(read_trace(write(GOOD.decode().encode(encoding))))

    assert "iconv" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n\n  \n"])
def test_a_file_with_nothing_in_it(write: Callable[..., Path], content: bytes) -> None:
    with pytest.raises(InputError, match=r"empty|no known format"):
        list(read_trace(write(content)))


def test_a_folder_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        list(read_trace(tmp_path))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_trace(tmp_path / "nowhere.jsonl"))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_name_that_promises_compression(write: Callable[..., Path], suffix: str) -> None:
    with pytest.raises(InputError, match="as its name says"):
        list(read_trace(write(GOOD, f"trace.jsonl{suffix}")))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_compressed_file_that_was_cut(write: Callable[..., Path], pack: Callable[[bytes], bytes]) -> None:
    lines = b"".join(b'{"messages": [{"role": "user", "content": "%d"}]}\n' % number**5 for number in range(20_000))
    packed = pack(lines)

    with pytest.raises(InputError, match="damaged or cut off"):
        list(read_trace(write(packed[: len(packed) // 2])))


def test_a_gz_of_something_else(write: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="no text"):
        list(read_trace(write(gzip.compress(b"\x00\x01\x02\x03"))))
    with pytest.raises(InputError, match="damaged"):
        list(read_trace(write(b"\x1f\x8b\x08\x00 no such thing")))


def test_an_array_that_breaks_off_or_is_damaged(write: Callable[..., Path]) -> None:
    talk = b'{"id": "a", "conversations": [{"from": "human", "value": "x"}]}'

    assert skipped(write(b"[" + talk + b",\n" + talk[:-9])) == {2: Reason.BROKEN_OFF}
    assert skipped(write(b"[" + talk + b",\n")) == {2: Reason.BROKEN_OFF}
    assert skipped(write(b"[\n" + talk + b",\n" + talk.replace(b":", b";") + b"]")) == {3: Reason.NOT_JSON}
    assert skipped(write(b"[" + talk + b",\n" + talk.replace(b'"x"', b"NaN") + b"\n]")) == {2: Reason.NOT_FINITE}
    assert skipped(write(b"[" + talk + b",\n" + talk.replace(b'"x"', b'"NaN"') + b"\n]")) == {}
    assert skipped(write(b"[" + talk + b",\n7, " + talk + b"\n]")) == {2: Reason.NO_OBJECT}
    path = write(b"[" + talk + b",\n" + talk.replace(b"x", b"\xff") + b",\n" + talk + b"\n]")
    assert skipped(path) == {2: Reason.NOT_UTF8}
    assert [entry.line for entry in entries(path)] == [1, 3]


def test_a_row_with_too_few_cells(write: Callable[..., Path]) -> None:
    head = b"request_id,spend,startTime,prompt_tokens\n"
    path = write(head + b"a,0.1,2026-01-01,50\nb,0.1\nc,\xff,2026-01-01,50\nd,0.1,2026-01-01,50\n")

    assert skipped(path) == {3: Reason.MALFORMED, 4: Reason.NOT_UTF8}
    assert [entry.line for entry in entries(path)] == [2, 5]


# -- properties --------------------------------------------------------------------------------------------------------

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = (
    *("harness_trace", "body", "custom_id", "url", "messages", "prompt", "role", "content", "call_type", "startTime"),
    *("model_parameters", "status", "spend", "request_id", "prompt_tokens", "completion_tokens", "response", "type"),
    *("trace_id", "input", "output", "usage_details", "level", "conversations", "from", "value", "input_length"),
    *("output_length", "hash_ids", "timestamp", "text", "turns", "session_id", "delay", "n", "id", "text_input"),
    *("blocks", "class", "tools", "proxy_server_request"),
)
MESSAGE = st.fixed_dictionaries(
    {}, optional={"role": st.sampled_from(["user", "assistant", "x"]) | VALUES, "content": VALUES, "tool_calls": VALUES}
)
MESSAGES = st.lists(MESSAGE, max_size=3)
RECORDS = st.dictionaries(
    st.sampled_from(KEYS), VALUES | MESSAGES | st.sampled_from(["GENERATION", "completion", 1]), max_size=10
)


@pytest.mark.parametrize("name", FORMATS)
@given(record=RECORDS)
@settings(max_examples=150, deadline=None)
def test_a_reader_takes_any_record_or_says_why_not(name: str, record: dict[str, Any]) -> None:
    chosen = FORMATS[name]
    if not chosen.fits(record):
        return
    try:
        found = list(chosen.read(record, 7))
    except NotReplayableError as refused:
        assert isinstance(refused.reason, Reason)
        return
    for each in found:
        assert each.line == 7
        if isinstance(each, Entry) and each.text == "whole":
            assert each.body.get("messages") or each.body.get("prompt")


@given(content=st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_no_bytes_crash_a_reader(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(content)
        try:
            list(read_trace(path, format_name="openai"))
        except InputError as error:
            assert error.hint or error.what


@given(cut=st.integers(min_value=1, max_value=2 * len(GOOD)), flip=st.integers(min_value=0, max_value=255))
@settings(max_examples=200, deadline=None)
def test_nothing_of_a_text_is_said(cut: int, flip: int) -> None:
    content = bytearray((GOOD + b"\n") * 3)
    content[cut] = flip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(bytes(content[: len(content) - cut % 7]))
        try:
            found = repr(list(read_trace(path)))
        except InputError as error:
            found = str(error)
    for word in ("private", "somebody"):
        assert word not in found


def test_arrays_of_any_size_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path]) -> None:
    monkeypatch.setattr("harness.workload.traces.records._CHUNK_BYTES", 7)
    talks = [{"id": f"ä{n}", "conversations": [{"from": "human", "value": "w" * n}]} for n in range(1, 40)]

    path = write(json.dumps(talks, ensure_ascii=False, indent=1).encode())

    assert [len(entry.body["messages"][0]["content"]) for entry in entries(path)] == list(range(1, 40))


def test_the_longest_line_is_a_line() -> None:
    assert source.MOST_LINE_BYTES >= 1024 * 1024
