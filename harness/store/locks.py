"""A lock that one process holds: the kernel's, so that it ends with the process, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import StoreError
from harness.store.files import disk_error


@contextmanager
def held(path: Path, refusal: Callable[[str], StoreError]) -> Iterator[None]:
    """Hold the lock of a file, which is made where it is missing and stays.

    Args:
        path: of the lock.
        refusal: what to raise where it is taken, by who holds it: "process 4711", or "another process".

    Raises:
        StoreError: as ``refusal`` says; or the file cannot be written.
    """
    try:
        # Closed on exec like every descriptor of Python's, so that an engine we start does not keep the lock.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise disk_error(error, path) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal(_owner(descriptor)) from None
        except OSError as error:
            raise disk_error(error, path) from error
        _write_owner(descriptor)
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Return whether some process holds the lock; False where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def _owner(descriptor: int) -> str:
    owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
    return f"process {owner}" if owner.isdigit() else "another process"


def _write_owner(descriptor: int) -> None:
    """Only for the message of whoever is refused; the lock itself is the kernel's."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError:  # a full disk must not keep a run from being repaired
        return
