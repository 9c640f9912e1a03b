"""An engine that sends on a schedule, and logs what it really sent and when.

    python -m tests.fakes.truth_server --port 0 --ttft-us 200000 --step-us 20000 --steps 3,1,6,2,4 --log FILE

Prints one line, ``listening on PORT``. Speaks vLLM's routes: /health, /version, /v1/models, /metrics, /tokenize,
/v1/completions and /v1/chat/completions (streamed). The first event carries one token, as an engine's prefill does;
then one event a step. Each finished request is one JSON line in the log, with CLOCK_MONOTONIC nanoseconds taken right
after the request was read and right before each event was sent. Written when no stream is running, so that the log
disturbs no schedule.

One thread and raw sockets: whatever is due is sent before anything is read, and while requests keep arriving they are
read and stamped, not looked at, so that a burst of them is stamped as it comes.
"""

from __future__ import annotations

import argparse
import heapq
import json
import select
import signal
import socket
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tests.fakes.truth_events import (
    MAX_MODEL_LEN,
    MODEL,
    STREAM_HEAD,
    Counters,
    Form,
    Schedule,
    count_words,
    event,
    exposition,
    role_event,
    token_event,
)

_ABORTIVE_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: reset instead of FIN
_IDLE_POLL_S = 0.05
_BURST_GAP_NS, _LONGEST_WAIT_NS = 300_000, 50_000_000


@dataclass(slots=True)
class Stream:
    """One answer in progress."""

    number: int
    form: Form
    received_ns: int
    due_ns: int
    sent_tokens: int = 0
    step: int = 0
    head_sent: bool = False
    sent_ns: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    reset: bool = False


class Peer:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received = bytearray()
        self.unsent = bytearray()
        self.stream: Stream | None = None


class TruthServer:
    """The selector loop."""

    def __init__(self, schedule: Schedule, log: TextIO | None, *, port: int = 0) -> None:
        self._schedule = schedule
        self._log = log
        self._listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._poll = select.epoll()
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        self._peers: dict[int, Peer] = {}
        self._unread: deque[tuple[Peer, int]] = deque()  # with the time of their last read
        self._due: list[tuple[int, int, Peer]] = []
        self._order = 0
        self._active = 0
        self._finished: list[Stream] = []
        self._counters = Counters()
        self._requests = 0
        self.stopping = False

    def serve(self) -> None:
        """Run until ``stopping``."""
        while not self.stopping:
            self._send_due()
            if not self._active:
                self._write_log()
            self._handle(self._poll.poll(self._wait_s(), 4096))
            if self._unread and self._quiet():
                self._take_requests(*self._unread.popleft())
        self._write_log()

    def _wait_s(self) -> float:
        if self._unread:
            return 0.0
        if not self._due:
            return _IDLE_POLL_S
        # epoll rounds up to whole milliseconds: the last one is spent polling.
        left_ms = (self._due[0][0] - time.monotonic_ns()) // 1_000_000 - 1
        return max(min(left_ms / 1000, _IDLE_POLL_S), 0.0)

    def _handle(self, ready: list[tuple[int, int]]) -> None:
        for descriptor, _ in ready:
            if descriptor == self._listener.fileno():
                self._accept()
                continue
            peer = self._peers.get(descriptor)
            if peer is not None and self._read(peer):
                self._unread.append((peer, time.monotonic_ns()))

    def _quiet(self) -> bool:
        """The burst is over, or its first request should not wait any longer."""
        now_ns = time.monotonic_ns()
        waited_ns = min(_LONGEST_WAIT_NS, self._schedule.ttft_us * 500)
        return now_ns - self._unread[-1][1] > _BURST_GAP_NS or now_ns - self._unread[0][1] > waited_ns

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peers[sock.fileno()] = Peer(sock)
            self._poll.register(sock.fileno(), select.EPOLLIN)

    def _read(self, peer: Peer) -> bool:
        """Read what there is. True if it may be a request."""
        if peer.unsent:
            self._put(peer, b"")
        try:
            data = peer.sock.recv(1 << 20)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._drop(peer)
            return False
        peer.received += data
        return True

    def _take_requests(self, peer: Peer, received_ns: int) -> None:
        while (end := peer.received.find(b"\r\n\r\n")) >= 0:
            head = bytes(peer.received[:end])
            length = _content_length(head)
            if len(peer.received) < end + 4 + length:
                return
            body = bytes(peer.received[end + 4 : end + 4 + length])
            del peer.received[: end + 4 + length]
            self._answer(peer, head, body, received_ns)

    def _answer(self, peer: Peer, head: bytes, body: bytes, received_ns: int) -> None:
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        if path == "/health":
            return self._reply(peer, 200, "", kind="text/plain")
        if path == "/metrics":
            return self._reply(peer, 200, exposition(self._counters, self._schedule), kind="text/plain; version=0.0.4")
        if not self._authorised(head):
            return self._refuse(peer, 401, "Unauthorized")
        if method == "GET" and path in ("/v1/models", "/version"):
            card = {"id": MODEL, "object": "model", "owned_by": "truth", "max_model_len": MAX_MODEL_LEN}
            return self._json(peer, {"version": "0"} if path == "/version" else {"object": "list", "data": [card]})
        if method == "POST" and path == "/tokenize" and self._schedule.tokenize:
            count = count_words(json.loads(body))
            return self._json(peer, {"count": count, "max_model_len": MAX_MODEL_LEN, "tokens": [], "token_strs": None})
        if method == "POST" and path in ("/v1/completions", "/v1/chat/completions"):
            return self._start(peer, json.loads(body), chat="chat" in path, received_ns=received_ns)
        return self._json(peer, {"detail": "Not Found"}, status=404)

    def _authorised(self, head: bytes) -> bool:
        key = self._schedule.api_key
        return key is None or f"bearer {key}".encode().lower() in head.lower()

    def _start(self, peer: Peer, body: dict[str, Any], *, chat: bool, received_ns: int) -> None:
        options = body.get("stream_options") or {}
        refused = sorted(self._schedule.rejects & ({*body} | {*options}))
        if refused:
            return self._refuse(peer, 400, f"Unsupported parameter: {refused[0]}")
        self._requests += 1
        form = Form(
            chat=chat,
            token_ids=bool(body.get("return_token_ids")) and self._schedule.counts,
            running_usage=bool(options.get("continuous_usage_stats")) and self._schedule.counts,
            usage=bool(options.get("include_usage")),
            prompt_tokens=count_words(body),
            max_tokens=max(int(body.get("max_tokens") or body.get("max_completion_tokens") or 128), 1),
        )
        role_us = self._schedule.role_us
        wait_us = self._schedule.ttft_us if role_us is None else role_us
        peer.stream = Stream(self._requests, form, received_ns, received_ns + wait_us * 1000)
        self._counters.prompt_tokens += form.prompt_tokens
        self._active += 1
        self._push(peer)

    def _push(self, peer: Peer) -> None:
        assert peer.stream is not None
        self._order += 1
        heapq.heappush(self._due, (peer.stream.due_ns, self._order, peer))

    def _send_due(self) -> None:
        due = self._due
        while due and due[0][0] <= time.monotonic_ns():
            peer = heapq.heappop(due)[2]
            if peer.stream is not None:
                self._advance(peer, peer.stream)

    def _advance(self, peer: Peer, stream: Stream) -> None:
        schedule, form, events = self._schedule, stream.form, len(stream.tokens)
        if schedule.role_us is not None and not stream.head_sent:
            stream.head_sent = True
            self._put(peer, STREAM_HEAD + role_event(form))
            stream.due_ns = stream.received_ns + schedule.ttft_us * 1000
            return self._push(peer)
        if self._interrupt(peer, stream, events):
            return None
        wanted = 1 if events == 0 else schedule.steps[stream.step % len(schedule.steps)]
        if events:
            stream.step += 1
            self._counters.count_step(wanted, schedule.num_speculative_tokens)
        tokens = min(wanted, form.max_tokens - stream.sent_tokens)
        last = stream.sent_tokens + tokens >= form.max_tokens
        data = token_event(form, stream.sent_tokens, tokens, last, schedule.word)
        if not stream.head_sent:
            stream.head_sent = True
            data = STREAM_HEAD + role_event(form) + data
        stream.sent_ns.append(time.monotonic_ns())
        self._put(peer, data)
        stream.tokens.append(tokens)
        stream.sent_tokens += tokens
        self._counters.generation_tokens += tokens
        if last:
            self._counters.requests_finished += 1
            return self._finish(peer, stream)
        stream.due_ns += schedule.step_us * 1000
        return self._push(peer)

    def _interrupt(self, peer: Peer, stream: Stream, events: int) -> bool:
        schedule = self._schedule
        if schedule.hang_after_events is not None and events >= schedule.hang_after_events:
            return True
        if schedule.error_after_events is not None and events >= schedule.error_after_events:
            error = {"error": {"message": "the engine failed", "type": "InternalServerError", "code": 500}}
            end = event(json.dumps(error)) + event("[DONE]") + b"0\r\n\r\n"
            self._put(peer, end if stream.head_sent else STREAM_HEAD + end)
            self._finish(peer, stream)
            return True
        if schedule.reset_after_events is not None and events >= schedule.reset_after_events:
            stream.reset = True
            peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTIVE_CLOSE)
            self._drop(peer)
            return True
        return False

    def _finish(self, peer: Peer, stream: Stream) -> None:
        self._finished.append(stream)
        self._active -= 1
        peer.stream = None

    def _drop(self, peer: Peer) -> None:
        if peer.stream is not None:
            self._finish(peer, peer.stream)
        self._poll.unregister(peer.sock.fileno())
        self._peers.pop(peer.sock.fileno(), None)
        peer.sock.close()

    def _put(self, peer: Peer, data: bytes) -> None:
        """Send, or keep for later what a slow client does not take."""
        if peer.unsent:
            peer.unsent += data
            data = bytes(peer.unsent)
            peer.unsent.clear()
        try:
            sent = peer.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return
        if sent < len(data):
            peer.unsent += data[sent:]
        if sent < len(data) or not data:
            interest = select.EPOLLIN | (select.EPOLLOUT if peer.unsent else 0)
            self._poll.modify(peer.sock.fileno(), interest)

    def _reply(self, peer: Peer, status: int, body: str, *, kind: str) -> None:
        data = body.encode()
        head = f"HTTP/1.1 {status} .\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n"
        self._put(peer, head.encode() + data)

    def _json(self, peer: Peer, tree: dict[str, Any], *, status: int = 200) -> None:
        self._reply(peer, status, json.dumps(tree), kind="application/json")

    def _refuse(self, peer: Peer, status: int, message: str) -> None:
        self._json(peer, {"error": {"message": message, "type": "BadRequestError", "code": status}}, status=status)

    def _write_log(self) -> None:
        if self._log is not None and self._finished:
            self._log.write("".join(f"{json.dumps(log_entry(stream))}\n" for stream in self._finished))
            self._log.flush()
        self._finished.clear()


def log_entry(stream: Stream) -> dict[str, Any]:
    """Return what the log says of one request."""
    return {
        "request": stream.number,
        "received_ns": stream.received_ns,
        "sent_ns": stream.sent_ns,
        "tokens": stream.tokens,
        "prompt_tokens": stream.form.prompt_tokens,
        "reset": stream.reset,
    }


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def _schedule(options: argparse.Namespace) -> Schedule:
    return Schedule(
        ttft_us=options.ttft_us,
        step_us=options.step_us,
        steps=tuple(int(tokens) for tokens in options.steps.split(",")),
        role_us=options.role_us,
        word=options.word,
        reset_after_events=options.reset_after_events,
        hang_after_events=options.hang_after_events,
        error_after_events=options.error_after_events,
        rejects=frozenset(filter(None, options.rejects.split(","))),
        api_key=options.api_key,
        counts=not options.no_counts,
        tokenize=not options.no_tokenize,
    )


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="truth_server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--ttft-us", type=int, default=200_000)
    parser.add_argument("--step-us", type=int, default=20_000)
    parser.add_argument("--steps", default="3,1,6,2,4")
    parser.add_argument("--role-us", type=int)
    parser.add_argument("--word", default="w")
    for name in ("reset", "hang", "error"):
        parser.add_argument(f"--{name}-after-events", type=int)
    parser.add_argument("--rejects", default="")
    parser.add_argument("--api-key")
    parser.add_argument("--no-counts", action="store_true")
    parser.add_argument("--no-tokenize", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Serve until SIGTERM or SIGINT."""
    options = _options(arguments)
    log = options.log.open("w", encoding="utf-8") if options.log else None
    server = TruthServer(_schedule(options), log, port=options.port)

    def stop(*_: object) -> None:
        server.stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"listening on {server.port}", flush=True)
    server.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
