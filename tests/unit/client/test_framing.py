"""Where a reply ends."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.client.framing import ReplyEnd
from tests.fakes.byte_server import chunked, reply
from tests.fakes.recorded import FIXTURES, captured

COMPLETE = sorted(
    str(path.relative_to(FIXTURES).with_suffix(""))
    for path in FIXTURES.rglob("*.http")
    if path.stem not in ("cut_by_sigkill", "extras_abandoned")
)
TRICKY = chunked(b"data: 0\r\n\r\n", b"0\r\n\r\n", b"\r\n\r\n", b"data: {}\n\n")


def feed(pieces: list[bytes], method: str = "POST") -> tuple[ReplyEnd, list[bool]]:
    end = ReplyEnd(method=method)
    return end, [end.feed(piece) for piece in pieces]


def split(whole: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({cut % len(whole) for cut in cuts} - {0}), len(whole)]
    return [whole[start:stop] for start, stop in pairwise(edges)]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((name, size) for name in COMPLETE for size in (61, 4096)),
        *((f"vllm-cpu/{name}", 1) for name in ("draft_chat_tokenids", "error_not_found", "dead_stream")),
    ],
)
def test_a_captured_reply_ends_with_its_last_byte_and_not_before(name: str, size: int) -> None:
    whole = captured(name)
    end, complete = feed([whole[start : start + size] for start in range(0, len(whole), size)])
    assert complete == [False] * (len(complete) - 1) + [True]
    assert end.status == int(whole[9:12])
    assert not end.reusable  # these were captured with connection: close


@pytest.mark.parametrize("name", ["vllm-cpu/cut_by_sigkill", "vllm-gpu-dspark/extras_abandoned"])
def test_a_stream_that_was_cut_never_ends(name: str) -> None:
    end, complete = feed([captured(name)])
    assert complete == [False]
    assert not end.complete_at_eof


@given(st.lists(st.integers(min_value=0, max_value=10_000)))
def test_payload_that_looks_like_the_terminator_does_not_end_the_reply(cuts: list[int]) -> None:
    end, complete = feed(split(TRICKY, cuts))
    assert complete == [False] * (len(complete) - 1) + [True]
    assert end.reusable


@pytest.mark.parametrize(
    ("head", "method"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET"),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n", "GET"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n", "HEAD"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "HEAD"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "GET"),
        (b"HTTP/1.1 200 OK\ncontent-length: 0\n\n", "GET"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "POST"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nsum: 1\r\n\r\n", "POST"),
    ],
)
def test_replies_of_every_framing_end_where_they_should(head: bytes, method: str) -> None:
    for cut in range(1, len(head)):
        end, complete = feed([head[:cut], head[cut:]], method)
        assert complete == [False, True], cut
        assert end.reusable


def test_bytes_after_the_end_make_the_connection_unusable() -> None:
    for whole in (reply(200, b"{}"), chunked(b"data: 1\n\n")):
        end, complete = feed([whole + b"HTTP/1.1 200 OK\r\n"])
        assert complete == [True]
        assert not end.reusable


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\nConnection: Keep-Alive\r\n\r\n", True),
    ],
)
def test_keep_alive_follows_version_and_header(head: bytes, reusable: bool) -> None:
    assert feed([head])[0].reusable is reusable


def test_a_body_without_framing_ends_where_the_peer_closes() -> None:
    end, complete = feed([b"HTTP/1.1 200 OK\r\n\r\n", b"data: 1\n\n"])
    assert complete == [False, False]
    assert end.complete_at_eof


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"\x16\x03\x01\x02\x00",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000,
    ],
)
def test_what_is_not_http_ends_at_once(garbage: bytes) -> None:
    end, complete = feed([garbage])
    assert complete == [True]
    assert end.mode == "broken"
    assert not end.reusable
