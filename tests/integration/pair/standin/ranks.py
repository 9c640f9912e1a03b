"""The tie between the two ranks: rank 0 listens, rank 1 joins, and each ends when it hears nothing of the other."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

_BEAT = b"."
_BEAT_S = 0.25
_RETRY_S = 0.1
_CONNECT_S = 2.0

Say = Callable[[str], None]


class RankLostError(Exception):
    """The other rank is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a rank says of itself when they meet."""

    rank: int
    k: int

    def line(self) -> bytes:
        """As it travels."""
        return json.dumps({"rank": self.rank, "k": self.k}).encode() + b"\n"


class Tie:
    """An open connection to the other rank."""

    def __init__(self, connection: socket.socket, other: Hello, *, silence_s: float) -> None:
        """``silence_s``: after so long without a sign of life the other rank is lost."""
        self.other = other
        self._connection = connection
        connection.settimeout(silence_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def watch(self, on_lost: Callable[[str], None]) -> None:
        """From now on send signs of life, and call ``on_lost`` once, from a thread, when none come."""
        threading.Thread(target=self._beat, daemon=True).start()
        threading.Thread(target=self._listen, args=(on_lost,), daemon=True).start()

    def _beat(self) -> None:
        try:
            while True:
                self._connection.sendall(_BEAT)
                time.sleep(_BEAT_S)
        except OSError:
            return

    def _listen(self, on_lost: Callable[[str], None]) -> None:
        try:
            while self._connection.recv(4096):
                pass
            on_lost("it closed the connection")
        except TimeoutError:
            on_lost("it says nothing any more")
        except OSError as problem:
            on_lost(problem.strerror or str(problem))


def wait_for_worker(port: int, hello: Hello, say: Say, *, silence_s: float) -> Tie:
    """Be rank 0: listen until rank 1 has joined. Raises OSError: the port is taken."""
    with socket.create_server(("0.0.0.0", port)) as server:
        say(f"rank 0 waits for rank 1 on port {port}")
        while True:
            connection, address = server.accept()
            connection.settimeout(_CONNECT_S)
            try:
                other = _met(connection, hello)
            except (OSError, ValueError) as problem:
                say(f"somebody at {address[0]} is no rank: {problem}")
                connection.close()
                continue
            say(
                f"rank {other.rank} connected from {address[0]}, num_speculative_tokens rank0={hello.k} rank1={other.k}"
            )
            return Tie(connection, other, silence_s=silence_s)


def join_head(address: str, port: int, hello: Hello, say: Say, *, silence_s: float) -> Tie:
    """Be rank 1: try until rank 0 is there."""
    said = ""
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=_CONNECT_S)
            other = _met(connection, hello)
        except (OSError, ValueError) as problem:
            if str(problem) != said:
                say(f"rank 1 waits for rank 0 at {address}:{port} ({problem})")
                said = str(problem)
            time.sleep(_RETRY_S)
            continue
        say(f"rank 1 joined {address}:{port} num_speculative_tokens={hello.k}")
        return Tie(connection, other, silence_s=silence_s)


def _met(connection: socket.socket, hello: Hello) -> Hello:
    connection.sendall(hello.line())
    said = b""
    while not said.endswith(b"\n"):
        byte = connection.recv(1)  # not more: signs of life may follow at once
        if not byte:
            raise ConnectionError("the other side closed the connection")
        said += byte
    return Hello(**json.loads(said))
