"""Files that are there whole or not at all, and disk errors as something the user can act on."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from harness.errors import StoreError
from harness.store.layout import sync_directory

_REMEDIES = {
    errno.ENOSPC: "The disk is full. Free some space, then resume: nothing measured so far is lost.",
    errno.EDQUOT: "The disk quota is used up. Free some space, then resume: nothing measured so far is lost.",
    errno.EFBIG: "The file may not grow (see ulimit -f). Lift the limit, then resume: nothing so far is lost.",
    errno.EIO: "The disk reports an error. Check it (dmesg) before you trust or resume this run.",
    errno.EROFS: "The file system is read-only. Choose another place with --root DIR.",
    errno.EACCES: "This user may not write there. Choose another place with --root DIR.",
}


def write_whole(path: Path, content: bytes) -> None:
    """Replace ``path`` in one step: a reader, or a power cut, sees the old content or the new one.

    Raises:
        StoreError: it cannot be written; what was there before is untouched.
    """
    # The name holds the process, so that two commands that rebuild the same file do not share a half-written one.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise disk_error(error, path) from error


def disk_error(error: OSError, path: Path) -> StoreError:
    """Return what to tell the user of a failed write or read."""
    return StoreError(
        error.strerror or str(error), where=str(path), hint=_REMEDIES.get(error.errno or 0, "See the system's log.")
    )
