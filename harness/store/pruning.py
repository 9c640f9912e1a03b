"""Taking the folder of a run away: in one step for whoever looks, and never while somebody writes it."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.errors import StoreError
from harness.store.files import disk_error
from harness.store.journal import run_lock
from harness.store.layout import RunFolder, sync_directory

_REMOVED = ".removed-"


def size_bytes(folder: RunFolder) -> int:
    """Return the bytes of all files in the folder of a run."""
    return sum(path.lstat().st_size for path in folder.path.rglob("*") if path.is_symlink() or path.is_file())


def remove_run(folder: RunFolder) -> None:
    """Remove a run for good. A crash in between leaves a hidden folder, which ``clear_removed`` takes away.

    Raises:
        StoreError: another process writes it, it is a link to elsewhere, or the disk does not let us.
    """
    if folder.path.is_symlink():
        what = "the folder of the run is a link to elsewhere"
        raise StoreError(what, where=str(folder.path), hint="Remove it by hand if you mean to.")
    results = folder.path.parent
    aside = results / f"{_REMOVED}{folder.run_id}"
    try:
        with run_lock(folder):
            folder.path.rename(aside)
            sync_directory(results)
        shutil.rmtree(aside)
    except OSError as error:
        raise disk_error(error, folder.path) from error


def clear_removed(results: Path) -> None:
    """Take away what a crash has left of removed runs."""
    for path in results.glob(f"{_REMOVED}*"):
        if not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
