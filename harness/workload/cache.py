"""Texts on disk, so that a launch does not pay for those of the launch before it. Safe to delete at any time."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.records.codec import from_json, to_json
from harness.workload.texts import Texts

FOLDER_VARIABLE = "HARNESS_CACHE_DIR"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    sha256: str  # of the texts as they are written here
    texts: str


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return where caches lie: HARNESS_CACHE_DIR, else the user's cache folder."""
    named = environment.get(FOLDER_VARIABLE)
    return Path(named) if named else Path(platformdirs.user_cache_dir("harness"))


class PromptCache:
    """One file per order and tokenizer. A file that is not what was written counts as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "prompts"

    def load(self, key: str) -> Texts | None:
        """Return the texts kept under ``key``, or None."""
        try:
            entry = _Entry.model_validate_json(self._file(key).read_bytes())
            return from_json(Texts, entry.texts) if entry.sha256 == _digest(entry.texts) else None
        except (OSError, ValidationError):
            return None

    def store(self, key: str, texts: Texts) -> None:
        """Keep the texts. A folder that cannot be written costs time at the next launch, not this run."""
        content = to_json(texts)
        entry = _Entry(sha256=_digest(content), texts=content).model_dump_json()
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            _replace(self._file(key), entry)

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _replace(file: Path, content: str) -> None:
    """Write beside, then rename: a reader sees the old file or the new one, and writers do not mix."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}-")
    beside = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(content)
        beside.replace(file)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
