"""Journals of old runs as gzip: a fraction of the bytes, read as before, and plain again before anything is added.

At every moment one whole journal is on the disk. Where a crash left both, the plain one counts.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import StoreError, UnreadableRunError
from harness.store.files import disk_error, write_whole
from harness.store.layout import RunFolder, sync_directory

_BLOCK_BYTES = 1 << 20
_LEVEL = 9
JournalFile = io.BufferedReader | gzip.GzipFile


def open_stored_journal(folder: RunFolder) -> tuple[Path, JournalFile] | None:
    """Return the journal of a run, compressed or not, opened for reading; None where there is none yet.

    Raises:
        StoreError: the disk does not let us.
    """
    # The plain one is tried again at the end: a writer may have made it while we looked for the other.
    for path in (folder.journal, folder.compressed_journal, folder.journal):
        try:
            return path, path.open("rb") if path == folder.journal else gzip.open(path, "rb")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise disk_error(error, path) from error
    return None


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Around reading an opened journal. Raises UnreadableRunError where what was compressed is damaged."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UnreadableRunError(
            "the compressed journal is damaged",
            where=str(path),
            hint="The file was changed or the disk lost data. Put a copy of it back.",
        ) from error
    except OSError as error:
        raise disk_error(error, path) from error


def compress_journal(folder: RunFolder) -> int | None:
    """Compress the journal of a run, whose lock is held. The plain one goes once the other was read back from the disk.

    Returns:
        The bytes that this frees; None where there is no plain journal.

    Raises:
        StoreError: it cannot be written, or does not come back as it was; the plain journal is untouched.
    """
    try:
        size = folder.journal.stat().st_size
        digest = _write_compressed(folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise disk_error(error, folder.compressed_journal) from error
    if digest != _digest_of_compressed(folder.compressed_journal):
        folder.compressed_journal.unlink(missing_ok=True)
        raise StoreError(
            "the compressed journal does not read back as it was; the plain one is kept",
            where=str(folder.journal),
            hint="Check the disk (dmesg) before you trust it.",
        )
    try:
        smaller = folder.compressed_journal.stat().st_size
        folder.journal.unlink()
        sync_directory(folder.path)
    except OSError as error:
        raise disk_error(error, folder.journal) from error
    return size - smaller


def expand_journal(folder: RunFolder) -> None:
    """Make the journal of a run plain again, whose lock is held. Nothing happens where it is. Raises StoreError."""
    packed = folder.compressed_journal
    if not packed.exists():
        return
    if not folder.journal.exists():
        with readable(packed), gzip.open(packed, "rb") as file:
            content = file.read()
        write_whole(folder.journal, content)
    try:
        packed.unlink(missing_ok=True)
        sync_directory(folder.path)
    except OSError as error:
        raise disk_error(error, packed) from error


def _write_compressed(folder: RunFolder) -> str:
    """Write it under its name in one step, and return the digest of what went in. Raises OSError."""
    target = folder.compressed_journal
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    digest = hashlib.sha256()
    try:
        with folder.journal.open("rb") as source, temporary.open("wb") as raw:
            # Without name and time: equal journals give equal bytes.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0) as packed:
                while block := source.read(_BLOCK_BYTES):
                    digest.update(block)
                    packed.write(block)
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(target)
        sync_directory(folder.path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return digest.hexdigest()


def _digest_of_compressed(path: Path) -> str | None:
    digest = hashlib.sha256()
    try:
        with gzip.open(path, "rb") as packed:
            while block := packed.read(_BLOCK_BYTES):
                digest.update(block)
    except (OSError, EOFError, zlib.error):
        return None
    return digest.hexdigest()
