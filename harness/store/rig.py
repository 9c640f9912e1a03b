"""What is known of a rig across runs: canaries of its launches and its noise floor, kept under the results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from harness.records.codec import from_json, to_json
from harness.records.launch import CanaryReading
from harness.records.manifest import UNKNOWN_RIG
from harness.records.noise import StoredNoise
from harness.store.files import disk_error

_CANARIES = "canary.jsonl"
_NOISE = "noise.jsonl"
Record = TypeVar("Record")


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
    return _read(StoredCanary, _file(results, rig_id, _CANARIES))


def add_canary(results: Path, rig_id: str, canary: StoredCanary) -> None:
    """Append one canary; of a rig that is not known it would be anybody's, and is not kept. Raises StoreError."""
    if rig_id != UNKNOWN_RIG:
        _add(_file(results, rig_id, _CANARIES), to_json(canary))


def read_noise(results: Path, rig_id: str) -> tuple[StoredNoise, ...]:
    """Return what A/As of a rig found, oldest first; of one run the last word."""
    by_run = {noise.run_id: noise for noise in _read(StoredNoise, _file(results, rig_id, _NOISE))}
    return tuple(by_run.values())


def add_noise(results: Path, rig_id: str, noise: StoredNoise) -> None:
    """Append what an A/A found. Raises StoreError."""
    _add(_file(results, rig_id, _NOISE), to_json(noise))


def _read(kind: type[Record], path: Path) -> tuple[Record, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise disk_error(error, path) from error
    return tuple(record for line in lines if (record := _record(kind, line)) is not None)


def _add(path: Path, line: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError as error:
        raise disk_error(error, path) from error


def _file(results: Path, rig_id: str, name: str) -> Path:
    return results / "rigs" / rig_id / name


def _record(kind: type[Record], line: str) -> Record | None:
    try:
        return from_json(kind, line)
    except ValueError:  # of pydantic too
        return None
