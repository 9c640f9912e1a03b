"""Captured replies as exchanges."""

from __future__ import annotations

import csv
from pathlib import Path

from harness.client.exchange import SocketExchange
from harness.client.framing import ReplyEnd

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "client"


def captured(name: str) -> bytes:
    """Return the bytes of a fixture."""
    return (FIXTURES / f"{name}.http").read_bytes()


def exchange_of(*reads: bytes, step_s: float = 1.0, method: str = "POST") -> SocketExchange:
    """Return the exchange in which ``reads`` came ``step_s`` apart, the first one after as much."""
    return stamped_exchange([(step_s * index, data) for index, data in enumerate(reads, start=1)], method=method)


def stamped_exchange(reads: list[tuple[float, bytes]], *, sent_s: float = 0.0, method: str = "POST") -> SocketExchange:
    """Return the exchange that a transport would make of ``reads``."""
    end = ReplyEnd(method=method)
    complete = [end.feed(data) for _, data in reads]
    return SocketExchange(
        method=method,
        sent_s=sent_s,
        closed_s=reads[-1][0],
        ended="complete" if complete[-1] else "eof",
        status=end.status,
        reads=tuple(reads),
        detail=None if complete[-1] else "the server closed the connection before the reply was complete",
    )


def recorded_exchange(name: str, sent_ns: int) -> SocketExchange:
    """Return a captured reply with the times of its reads."""
    whole = captured(name)
    lines = (FIXTURES / f"{name}_reads.csv").read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    reads = []
    for row in rows:
        start = int(row["offset"])
        reads.append((int(row["t_ns"]) / 1e9, whole[start : start + int(row["bytes"])]))
    return stamped_exchange([read for read in reads if read[1]], sent_s=sent_ns / 1e9)
