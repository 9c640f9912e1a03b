"""What is known of a rig across runs: the canaries of its launches, kept under the results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from harness.records.codec import from_json, to_json
from harness.records.launch import CanaryReading
from harness.store.files import disk_error

_CANARIES = "canary.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCanary:
    """A canary of an accepted launch. Comparable only under the same configuration, engine and measuring version."""

    at: str
    configuration_id: str
    engine_version: str | None
    measuring_version: int
    reading: CanaryReading


def read_canaries(results: Path, rig_id: str) -> tuple[StoredCanary, ...]:
    """Return the stored canaries of a rig, oldest first. A line that is none (cut by a crash) is passed over."""
    try:
        lines = _file(results, rig_id).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise disk_error(error, _file(results, rig_id)) from error
    return tuple(canary for line in lines if (canary := _canary(line)) is not None)


def add_canary(results: Path, rig_id: str, canary: StoredCanary) -> None:
    """Append one canary. Raises StoreError."""
    path = _file(results, rig_id)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{to_json(canary)}\n")
    except OSError as error:
        raise disk_error(error, path) from error


def _file(results: Path, rig_id: str) -> Path:
    return results / "rigs" / rig_id / _CANARIES


def _canary(line: str) -> StoredCanary | None:
    try:
        return from_json(StoredCanary, line)
    except ValidationError:
        return None
