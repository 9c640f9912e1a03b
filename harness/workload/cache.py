"""Texts that were made before: on disk for the next run, in memory for the next launch. Safe to lose at any time."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.records.codec import from_json, to_json
from harness.workload.texts import Texts

FOLDER_VARIABLE = "HARNESS_CACHE_DIR"
MOST_CHARACTERS = 128 * 1024 * 1024  # in memory


class TextStore(Protocol):
    """Keeps texts under a key."""

    def load(self, key: str) -> Texts | None:
        """Return the texts kept under ``key``, or None."""

    def store(self, key: str, texts: Texts) -> None:
        """Keep the texts, if possible."""


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


class SessionTexts:
    """Keeps texts in memory for as long as a process lives, in front of another store.

    Every launch of a session sends the same texts: reading those of deep prompts back from disk takes longer than
    most of what a rehearsal does. Beyond ``most_characters``, what was not used for longest is forgotten here.
    """

    def __init__(self, behind: TextStore, *, most_characters: int = MOST_CHARACTERS) -> None:
        self._behind = behind
        self._most = most_characters
        self._kept: OrderedDict[str, Texts] = OrderedDict()
        self._characters = 0

    def load(self, key: str) -> Texts | None:
        """Return the texts kept under ``key``, here or behind."""
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        found = self._behind.load(key)
        if found is not None:
            self._remember(key, found)
        return found

    def store(self, key: str, texts: Texts) -> None:
        """Keep the texts, here and behind."""
        self._remember(key, texts)
        self._behind.store(key, texts)

    def _remember(self, key: str, texts: Texts) -> None:
        former = self._kept.pop(key, None)
        self._characters += _characters(texts) - (_characters(former) if former is not None else 0)
        self._kept[key] = texts
        while self._characters > self._most:
            _, forgotten = self._kept.popitem(last=False)
            self._characters -= _characters(forgotten)


def _characters(texts: Texts) -> int:
    return sum(len(text.text) for group in (texts.fills, *texts.streams) for text in group)


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
