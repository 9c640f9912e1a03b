"""What a test asks the stand-ins of one host to do wrong. Kept in a file of that host; docker and vllm both look."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# What docker on this host does wrong.
DAEMON_DOWN = "daemon_down"  # every command that needs the daemon fails; containers live on
IMAGE_MISSING = "image_missing"  # there is no image
DIGEST_DIFFERS = "digest_differs"  # each image has another id and digest than on the other host
UP_FAILS = "up_fails"  # `compose up` makes nothing
STOP_FAILS = "stop_fails"  # `stop`, `kill`, `compose stop` and `compose down` leave containers running
RM_FAILS = "rm_fails"  # `rm`, also -f, leaves containers as they are
# What a rank on this host does wrong, from its next boot on.
NEVER_READY = "never_ready"  # rank 0 loads for ever
HEAD_DIES_IN_BOOT = "head_dies_in_boot"  # rank 0 runs out of memory, after rank 1 has joined
WORKER_DIES = "worker_dies"  # rank 1 dies before it joins
CHAT_500 = "chat_500"  # rank 0 is ready, and answers chats with HTTP 500
LATER_CHAT_500 = "later_chat_500"  # likewise, but for the first chat after a boot

NAMES = frozenset(
    {
        *(DAEMON_DOWN, IMAGE_MISSING, DIGEST_DIFFERS, UP_FAILS, STOP_FAILS, RM_FAILS),
        *(NEVER_READY, HEAD_DIES_IN_BOOT, WORKER_DIES, CHAT_500, LATER_CHAT_500),
    }
)
FILE = "faults.json"


class Faults:
    """Fault name -> how often it happens yet; None: until it is taken back."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is the stand-ins' own; the file is made when it is needed."""
        self._path = folder / FILE

    def set(self, name: str, times: int | None = None) -> None:
        """From now on. Raises ValueError: there is no such fault."""
        if name not in NAMES:
            raise ValueError(f"unknown fault {name!r}; known: {', '.join(sorted(NAMES))}")
        with self._opened() as known:
            known[name] = times

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        with self._opened() as known:
            known.clear()

    def happens(self, name: str) -> bool:
        """Whether it happens now; one that happens a number of times has then happened once more."""
        if not self._path.exists():
            return False
        with self._opened() as known:
            if name not in known:
                return False
            left = known[name]
            if left is not None:
                known[name] = left - 1
            if left == 1:
                del known[name]
            return left is None or left > 0

    @contextmanager
    def _opened(self) -> Iterator[dict[str, int | None]]:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        with os.fdopen(descriptor, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            known: dict[str, int | None] = json.loads(file.read() or "{}")
            yield known
            file.seek(0)
            file.truncate()
            file.write(json.dumps(known))
