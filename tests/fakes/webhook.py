"""A real HTTP server on loopback that takes what is posted to it, and answers as it was told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class Webhook:
    """What arrived, and with which statuses it is answered, in order; the last one is used again."""

    statuses: Sequence[int]
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)  # cleared: nothing is answered


@contextmanager
def webhook(*statuses: int, location: str | None = None) -> Iterator[Webhook]:
    """Serve while the context is open. Without a status it never answers."""
    state = Webhook(statuses=statuses)
    if statuses:
        state.answers.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            state.headers.append({name.lower(): value for name, value in self.headers.items()})
            state.paths.append(self.path)
            state.answers.wait()
            if not state.statuses:
                return
            self.send_response(state.statuses[min(len(state.bodies), len(state.statuses)) - 1])
            if location is not None:
                self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}/hook/s3cret"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield state
    finally:
        state.answers.set()
        server.shutdown()
        thread.join()
        server.server_close()
