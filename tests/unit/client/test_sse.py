"""Events from bytes that are split anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.client.sse import EventDecoder, ServerEvent, decode_events
from harness.records.exchange import BodyRead

TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
LINE_ENDS = st.sampled_from(["\r\n", "\n", "\r"])


def decode(*reads: bytes) -> list[ServerEvent]:
    return list(decode_events(BodyRead(float(index), data) for index, data in enumerate(reads)))


def data_of(*reads: bytes) -> list[str]:
    return [event.data for event in decode(*reads)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: a\n\n", ["a"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data\n\n", [""]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: \xef\xbb\xbfa\n\n", ["\ufeffa"]),
        (b": comment\n\ndata: a\n\n", ["a"]),
        (b"id: 1\nretry: 5\n\n", []),
        (b"data: a\r\rdata: b\r\n\r\ndata: c\n\n", ["a", "b", "c"]),
        (b"data: a\n\r\ndata: b\r\n\n", ["a", "b"]),
        (b"data: a\n\ndata: unfinished\n", ["a"]),
        (b"data: a\n\ndata: unfinished", ["a"]),
        ("data: x\u2028y\u2029z\x85\x0b\x0c\n\n".encode(), ["x\u2028y\u2029z\x85\x0b\x0c"]),
        (b"data: \xff\n\n", ["\ufffd"]),
    ],
)
def test_the_letter_of_the_format(body: bytes, expected: list[str]) -> None:
    assert data_of(body) == expected
    assert data_of(*(bytes([byte]) for byte in body)) == expected


def test_an_event_has_the_time_of_the_read_that_completed_it() -> None:
    assert decode(b"data: a", b"\n", b"\n", b"data: b\n\ndata: c\n\nda", b"ta: d\r\n\r", b"\n") == [
        ServerEvent(2.0, "a"),
        ServerEvent(3.0, "b"),
        ServerEvent(3.0, "c"),
        ServerEvent(4.0, "d"),
    ]


def test_the_event_field_names_its_kind() -> None:
    assert decode(b"event: ping\ndata: 1\n\ndata: 2\n\n") == [ServerEvent(0.0, "1", "ping"), ServerEvent(0.0, "2")]


@given(events=st.lists(st.lists(TEXT, min_size=1, max_size=3)), ends=st.lists(LINE_ENDS, min_size=1), data=st.data())
def test_any_split_gives_the_same_events_at_the_right_times(
    events: list[list[str]], ends: list[str], data: st.DataObject
) -> None:
    body, completed_at = b"", []
    for index, lines in enumerate(events):
        # One kind of line end within an event: CR before LF would be one end, not two.
        end = ends[index % len(ends)].encode()
        body += b"".join(b"data: " + line.encode() + end for line in lines) + end
        completed_at.append(len(body) - (2 if end == b"\r\n" else 1))
    cuts = data.draw(st.lists(st.integers(min_value=0, max_value=len(body)), max_size=8))
    edges = [0, *sorted(cuts), len(body)]
    reads = [body[start:stop] for start, stop in pairwise(edges)]

    found = decode(*reads)

    assert [event.data for event in found] == ["\n".join(lines) for lines in events]
    ends_of_reads = edges[1:]
    expected = [next(i for i, stop in enumerate(ends_of_reads) if stop > position) for position in completed_at]
    assert [event.at_s for event in found] == expected


@given(st.binary(max_size=200), st.lists(st.integers(min_value=0, max_value=200)))
def test_no_bytes_are_too_strange(body: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    split = data_of(*(body[start:stop] for start, stop in pairwise(edges)))
    assert split == data_of(body)


def test_a_decoder_can_be_fed_bit_by_bit() -> None:
    decoder = EventDecoder()
    assert decoder.feed(BodyRead(0.0, b"")) == []
    assert decoder.feed(BodyRead(1.0, b"\xef\xbb")) == []
    assert decoder.feed(BodyRead(2.0, b"\xbfdata: a\n\n")) == [ServerEvent(2.0, "a")]
