"""What h11 finds in the reads."""

from pathlib import Path

import pytest

from harness.client.exchange import SocketExchange, parse_reply
from harness.records.exchange import Exchange
from tests.fakes.byte_server import chunk, chunked, reply
from tests.fakes.recorded import FIXTURES, captured, exchange_of

NAMES = sorted(str(path.relative_to(FIXTURES).with_suffix("")) for path in Path(FIXTURES).rglob("*.http"))


@pytest.mark.parametrize("name", NAMES)
def test_the_body_is_the_same_however_it_was_read(name: str) -> None:
    whole = captured(name)
    in_one = exchange_of(whole)
    in_many = exchange_of(*(whole[start : start + 61] for start in range(0, len(whole), 61)))
    assert in_one.reply.problem is None
    assert in_one.body == in_many.body
    assert in_one.status == in_one.reply.status == in_many.status


def test_each_piece_keeps_the_stamp_of_its_read() -> None:
    head, first, second = chunked(end=False), chunk(b"data: 1\n\n"), chunk(b"data: 2\n\n")
    exchange = exchange_of(head, first + second[:5], second[5:] + b"0\r\n", b"\r\n")
    assert [(read.at_s, read.data) for read in exchange.body_reads()] == [
        (2.0, b"data: 1\n\n"),
        (2.0, b"da"),
        (3.0, b"ta: 2\n\n"),
    ]
    assert exchange.ended == "complete"
    assert exchange.closed_s == 4.0


def test_a_broken_body_keeps_what_came_before() -> None:
    exchange = exchange_of(chunked(b"data: 1\n\n", end=False), b"zz\r\n")
    assert exchange.body == b"data: 1\n\n"
    assert exchange.reply.problem is not None


def test_a_body_that_ends_with_the_connection_is_whole() -> None:
    parsed = parse_reply([(1.0, b"HTTP/1.1 200 OK\r\n\r\nabc"), (2.0, b"def")], method="GET", closed=True)
    assert b"".join(read.data for read in parsed.body) == b"abcdef"
    assert parsed.problem is None


def test_informational_replies_are_skipped() -> None:
    exchange = exchange_of(b"HTTP/1.1 100 Continue\r\n\r\n", reply(201, b"{}"))
    assert (exchange.status, exchange.body) == (201, b"{}")


def test_nothing_at_all() -> None:
    parsed = parse_reply([], method="POST", closed=True)
    assert (parsed.status, parsed.body, parsed.problem) == (None, (), None)


def test_it_is_an_exchange() -> None:
    exchange: Exchange = exchange_of(reply(200, b"{}"))
    assert isinstance(exchange, SocketExchange)
