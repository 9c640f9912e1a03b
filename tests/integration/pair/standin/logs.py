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
    path = store.path(container_id) / LOG
    asked = given.last("-n", "--tail")
    tail = int(asked) if asked and asked.lstrip("-").isdigit() and int(asked) >= 0 else None
    seen = len(view.log_entries(path, since=None, tail=None))
    for entry in view.log_entries(path, since=given.last("--since"), tail=tail):
        _print(entry, given, prefix)
    if not given.has("-f", "--follow"):
        return
    for later in view.follow(path, seen=seen):
        if later is not None:
            _print(later, given, prefix)
        elif not store.exists(container_id) or store.state(container_id)["Status"] not in UP:
            return
        else:
            time.sleep(_POLL_S)


def _print(entry: Tree, given: Arguments, prefix: str | None) -> None:
    stamp = f"{entry['time']} " if given.has("-t", "--timestamps") else ""
    stream = sys.stderr if prefix is None and entry["stream"] == "stderr" else sys.stdout
    print(f"{prefix or ''}{stamp}{entry['log']}", file=stream, flush=True)
