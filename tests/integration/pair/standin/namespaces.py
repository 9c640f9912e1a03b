"""The few system calls on namespaces and mounts that Python 3.11 has no function for. Imports the standard library."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

NEWTIME = 0x00000080
NEWNS = 0x00020000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWPID = 0x20000000
NEWNET = 0x40000000

MS_RDONLY = 1
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

_PR_SET_PDEATHSIG = 1
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def setns(descriptor: int, kind: int) -> None:
    """Enter a namespace. Of a process namespace: only children that are made from now on are in it."""
    _require(_libc.setns(descriptor, kind), "setns")


def unshare(kinds: int) -> None:
    """Leave namespaces for new ones."""
    _require(_libc.unshare(kinds), "unshare")


def mount(source: str, target: str, *, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    """Mount, bind or change a mount."""
    arguments = (source.encode(), target.encode(), kind.encode() if kind else None, flags, options.encode() or None)
    _require(_libc.mount(*arguments), f"mount {source} on {target}")


def unmount(target: str) -> None:
    """Take a mount away, also one that is in use."""
    _require(_libc.umount2(target.encode(), _MNT_DETACH), f"unmount {target}")


def bind(source: str, target: str) -> None:
    """Let ``target`` be ``source``, with all that is mounted below it."""
    mount(source, target, flags=MS_BIND | MS_REC)


def die_with_parent(signal_number: int) -> None:
    """Get a signal when the parent ends."""
    _require(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def set_host_name(name: str) -> None:
    """Set the name of this UTS namespace."""
    _require(_libc.sethostname(name.encode(), len(name)), "sethostname")


@contextmanager
def children_in(process_namespace: int) -> Iterator[None]:
    """Children that this thread makes meanwhile are born in that process namespace.

    A process cannot change its own, so a launcher would have to fork: then the process that a test holds would be the
    launcher, and a signal to it would miss.
    """
    own = os.open("/proc/thread-self/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(process_namespace, NEWPID)
        try:
            yield
        finally:
            setns(own, NEWPID)
    finally:
        os.close(own)


def _require(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
