"""`docker logs` and `docker compose logs`."""

from __future__ import annotations

import sys
import time

from tests.integration.pair.standin import view
from tests.integration.pair.standin.arguments import Arguments
from tests.integration.pair.standin.lifecycle import UP
from tests.integration.pair.standin.store import LOG, Store, Tree

_POLL_S = 0.05


def print_log(store: Store, container_id: str, given: Arguments, *, prefix: str | None = None) -> None:
    """Print a container's log, and go on while it is up if ``-f`` says so.

    Args:
        store: of the host.
        container_id: whose log.
        given: ``--tail``, ``--since``, ``--timestamps`` and ``--follow``.
        prefix: of each line, as compose does; None: each line goes to the stream that it was written to.
    """
    log = view.ContainerLog(store.path(container_id) / LOG)
    asked = given.last("-n", "--tail")
    tail = int(asked) if asked and asked.lstrip("-").isdigit() and int(asked) >= 0 else None
    for entry in view.chosen(log.more(), since=given.last("--since"), tail=tail):
        _print(entry, given, prefix)
    if not given.has("-f", "--follow"):
        return
    while True:
        is_up = store.exists(container_id) and store.state(container_id)["Status"] in UP
        for entry in log.more():
            _print(entry, given, prefix)
        if not is_up:
            return
        time.sleep(_POLL_S)


def _print(entry: Tree, given: Arguments, prefix: str | None) -> None:
    stamp = f"{entry['time']} " if given.has("-t", "--timestamps") else ""
    stream = sys.stderr if prefix is None and entry["stream"] == "stderr" else sys.stdout
    print(f"{prefix or ''}{stamp}{entry['log']}", file=stream, flush=True)
