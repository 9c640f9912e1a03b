"""Servers that tell what they sent: ours, or a compiled one with the same routes and a CSV log."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from urllib.request import urlopen

TTFT_US, STEP_US, STEPS = 200_000, 20_000, "3,1,6,2,4"
_CORES = sorted(os.sched_getaffinity(0))
_REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that is running."""

    url: str
    log: Path
    compiled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One stream, as the client or the server saw it."""

    order: int  # sorts the streams alike on both sides
    ttft_s: float
    span_s: float  # from the first event to the last
    gap_s: float | None  # median between events; None where single events have no times
    steps: int
    decoded_tokens: int  # after the first event
    tokens: tuple[int | None, ...]  # of each event


@contextmanager
def running_server(folder: Path, *, truthd: Path | None) -> Iterator[Server]:
    """Start a server with its log in ``folder``; the compiled one if ``truthd`` names it."""
    log, port = folder / "truth.log", _free_port()
    schedule = [str(TTFT_US), str(STEP_US), STEPS]
    if truthd is not None:
        command = [str(truthd.resolve()), str(port), *schedule, str(log)]
    else:
        command = [sys.executable, "-m", "tests.fakes.truth_server", "--port", str(port), "--log", str(log)]
        command += [part for pair in zip(("--ttft-us", "--step-us", "--steps"), schedule, strict=True) for part in pair]
    with subprocess.Popen(command, cwd=_REPOSITORY, stdout=subprocess.DEVNULL) as process:
        try:
            _keep_apart(process.pid)
            url = f"http://127.0.0.1:{port}"
            _wait_until_healthy(url)
            yield Server(url=url, log=log, compiled=truthd is not None)
        finally:
            process.terminate()


def _keep_apart(server_pid: int) -> None:
    """Server and client on a core each, where there are two: on loopback the kernel likes to wake a client on the core
    of the server that has just written to it, where it waits until the server is done with all streams."""
    if len(_CORES) > 1:
        os.sched_setaffinity(server_pid, _CORES[1:])
        os.sched_setaffinity(0, _CORES[:1])  # inherited by the other client, a child of this process


def read_log(server: Server, streams: int) -> list[Timeline]:
    """Return what the server really did for the last ``streams`` requests."""
    deadline = time.monotonic() + 10
    while len(timelines := _timelines(server)) < streams:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server logged {len(timelines)} of {streams} streams")
        time.sleep(0.05)
    return timelines[-streams:]


def _timelines(server: Server) -> list[Timeline]:
    """In the order of arrival."""
    text = server.log.read_text(encoding="utf-8")
    lines = text[: text.rfind("\n") + 1].splitlines()
    if server.compiled:
        return [_from_row(row) for row in sorted(csv.DictReader(lines), key=lambda row: int(row["t_received_ns"]))]
    entries = [json.loads(line) for line in lines]
    return [_from_entry(entry) for entry in sorted(entries, key=lambda entry: int(entry["received_ns"]))]


def _from_entry(entry: dict[str, list[int] | int]) -> Timeline:
    sent_ns, tokens = entry["sent_ns"], entry["tokens"]
    received_ns, prompt_tokens = entry["received_ns"], entry["prompt_tokens"]
    assert isinstance(sent_ns, list) and isinstance(tokens, list)
    assert isinstance(received_ns, int) and isinstance(prompt_tokens, int)
    gaps_ns = [later - earlier for earlier, later in pairwise(sent_ns)]
    return Timeline(
        order=prompt_tokens,
        ttft_s=(sent_ns[0] - received_ns) / 1e9,
        span_s=(sent_ns[-1] - sent_ns[0]) / 1e9,
        gap_s=median(gaps_ns) / 1e9 if gaps_ns else None,
        steps=len(sent_ns) - 1,
        decoded_tokens=sum(tokens[1:]),
        tokens=tuple(tokens),
    )


def _from_row(row: dict[str, str]) -> Timeline:
    number = {name: int(value) for name, value in row.items()}
    return Timeline(
        order=number["prompt_tokens"],
        ttft_s=(number["t_first_ns"] - number["t_received_ns"]) / 1e9,
        span_s=(number["t_last_ns"] - number["t_first_ns"]) / 1e9,
        gap_s=None,
        steps=number["chunks"] - 1,
        decoded_tokens=number["tokens"] - 1,
        tokens=(None,),
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_healthy(url: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            with urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
