"""Nights and baselines on disk: a line for each night, which its run can give again, and a file for each baseline."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from harness.errors import InputError
from harness.records.codec import from_json, to_json
from harness.records.nightly import Baseline, Night
from harness.store.files import disk_error
from harness.store.layout import slug

_NIGHTS, _BASELINES = "nights", "baselines"


def read_nights(results: Path, sweep: str) -> tuple[Night, ...]:
    """Return the nights of a sweep, oldest first; of one run the last word. A line that is none is passed over."""
    path = _nights_file(results, sweep)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise disk_error(error, path) from error
    nights: dict[str, Night] = {}
    for line in lines:
        try:
            night = from_json(Night, line)
        except ValidationError:
            continue
        nights[night.run_id] = night
    return tuple(sorted(nights.values(), key=lambda night: night.at))


def add_night(results: Path, night: Night) -> None:
    """Append a night. Raises StoreError."""
    path = _nights_file(results, night.sweep)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{to_json(night)}\n")
    except OSError as error:
        raise disk_error(error, path) from error


def read_baseline(root: Path, name: str) -> Baseline | None:
    """Return an accepted baseline; None where there is none of that name.

    Raises:
        InputError: its file is damaged.
    """
    path = _baseline_file(root, name)
    try:
        return from_json(Baseline, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise InputError("not a baseline", where=str(path), hint="Take it from your version control again.") from error
    except OSError as error:
        raise disk_error(error, path) from error


def list_baselines(root: Path) -> tuple[Baseline, ...]:
    """Return every baseline, by name."""
    folder = root / _BASELINES
    names = sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []
    return tuple(found for name in names if (found := read_baseline(root, name)) is not None)


def write_baseline(root: Path, baseline: Baseline) -> Path:
    """Write a baseline in place of an earlier one of its name, and return its file. Raises StoreError."""
    path = _baseline_file(root, baseline.name)
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(f"{to_json(baseline)}\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise disk_error(error, path) from error
    return path


def _nights_file(results: Path, sweep: str) -> Path:
    return results / _NIGHTS / f"{slug(sweep)}.jsonl"


def _baseline_file(root: Path, name: str) -> Path:
    return root / _BASELINES / f"{slug(name)}.json"
