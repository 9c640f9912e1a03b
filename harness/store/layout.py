"""Where runs and reports lie, how a run is called, and which run a word on the command line means."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.errors import InputError, StoreError
from harness.records.identity import content_id

RESULTS = "results"
REPORTS = "reports"
LATEST = "latest"
_HASH_DIGITS = 6
_SECOND_DIGITS = len("20261130-132811")
_RUN_ID = re.compile(rf"\d{{8}}-\d{{6}}-(?P<sweep>.+)-[0-9a-f]{{{_HASH_DIGITS}}}")
_MOST_CANDIDATES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def run_id(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def manifest(self) -> Path:
        """Provenance, written once."""
        return self.path / "manifest.json"

    @property
    def plan(self) -> Path:
        """What the run will do; replaced where a run is extended."""
        return self.path / "plan.json"

    @property
    def journal(self) -> Path:
        """The truth."""
        return self.path / "journal.jsonl"

    @property
    def compressed_journal(self) -> Path:
        """The truth of an old run. Where both are there, the plain one counts."""
        return self.path / "journal.jsonl.gz"

    @property
    def torn(self) -> Path:
        """Bytes of records that a crash cut."""
        return self.path / "journal.torn"

    @property
    def lock(self) -> Path:
        """Held by the one process that writes."""
        return self.path / "run.lock"

    @property
    def cells_csv(self) -> Path:
        """Derived, safe to delete."""
        return self.path / "cells.csv"

    @property
    def cells_parquet(self) -> Path:
        """Derived, safe to delete."""
        return self.path / "cells.parquet"

    @property
    def logs(self) -> Path:
        """One engine log per launch."""
        return self.path / "logs"


def new_run_id(stamp: str, sweep: str, unique: object) -> str:
    """Return an id that sorts by time: ``20261130-132811-laptop-4f2a9c``.

    Args:
        stamp: wall clock, ISO 8601 with zone; ids are in UTC, so that they sort across a change of zone.
        sweep: its name.
        unique: anything JSON that tells apart two runs of one second, such as the process id and the sweep's hash.
    """
    moment = datetime.fromisoformat(stamp).astimezone(UTC)
    return f"{moment:%Y%m%d-%H%M%S}-{slug(sweep)}-{content_id([stamp, sweep, unique])[:_HASH_DIGITS]}"


def unused_run_id(root: Path, stamp: str, sweep: str, unique: object) -> str:
    """Return the id of a new run under ``root``, a second later than the clock says where that second has a run.

    Two runs of one second would have no order, and in one process no names of their own.
    """
    try:
        taken = {path.name[:_SECOND_DIGITS] for path in (root / RESULTS).iterdir()}
    except OSError:  # none yet, or one in which no run can be made: create_run says so
        taken = set()
    moment = datetime.fromisoformat(stamp)
    while f"{moment.astimezone(UTC):%Y%m%d-%H%M%S}" in taken:
        moment += timedelta(seconds=1)
    return new_run_id(moment.isoformat(), sweep, unique)


def slug(name: str) -> str:
    """Return ``name`` as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "unnamed"


def create_run(root: Path, run_id: str) -> RunFolder:
    """Make the folder of a new run, and make sure that it survives a power cut.

    Raises:
        StoreError: it exists, or cannot be made.
    """
    folder = RunFolder(path=root / RESULTS / run_id)
    if folder.path.exists():
        raise StoreError("a run of this name exists already", where=str(folder.path))
    try:
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        folder.path.mkdir()
        folder.logs.mkdir()
        sync_directory(folder.path)
        sync_directory(folder.path.parent)
    except OSError as error:
        raise StoreError(
            f"cannot make the folder of the run: {error.strerror}",
            where=str(folder.path),
            hint="Choose another place with --root DIR.",
        ) from error
    return folder


def report_directory(root: Path, *, date: str, sweep: str, run_id: str) -> Path:
    """Return where the report of a run lies. ``date`` is ISO 8601; its day counts."""
    return root / REPORTS / f"{date[:10]}-{slug(sweep)}-{run_id}"


def list_runs(root: Path, *, sweep: str | None = None) -> tuple[RunFolder, ...]:
    """Return the runs under ``root``, oldest first; optionally those of one sweep."""
    results = root / RESULTS
    if not results.is_dir():
        return ()
    runs = [RunFolder(path=path) for path in sorted(results.iterdir()) if _is_run(path)]
    return tuple(run for run in runs if sweep is None or _sweep_of(run.run_id) == slug(sweep))


def resolve_run(reference: str, *, root: Path, sweep: str | None = None) -> RunFolder:
    """Return the run that a command line means: an id, a unique prefix of one, a path, or ``latest``.

    Args:
        reference: as written by the user.
        root: where results/ lies.
        sweep: only runs of this sweep count; a path is taken as it is.

    Raises:
        InputError: none or several match; the hint lists candidates.
    """
    by_path = _run_at(Path(reference).expanduser())
    if by_path is not None:
        return by_path
    runs = list_runs(root, sweep=sweep)
    if reference == LATEST and runs:
        return runs[-1]
    exact = [run for run in runs if run.run_id == reference]
    matches = exact or [run for run in runs if reference != LATEST and run.run_id.startswith(reference)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(f'"{reference}" fits {len(matches)} runs', where=_place(root), hint=_listed(matches))
    of_sweep = f" of sweep {sweep}" if sweep else ""
    what = f"there is no run{of_sweep} yet" if reference == LATEST else f'no run{of_sweep} is called "{reference}"'
    raise InputError(what, where=_place(root), hint=_listed(runs))


def sync_directory(path: Path) -> None:
    """Make a new name in this directory survive a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_run(path: Path) -> bool:
    return _RUN_ID.fullmatch(path.name) is not None and (path / "manifest.json").is_file()


def _sweep_of(run_id: str) -> str | None:
    match = _RUN_ID.fullmatch(run_id)
    return match["sweep"] if match else None


def _run_at(path: Path) -> RunFolder | None:
    """The run of a folder, or of a file in it. A bare word is a path only where it really is one."""
    folder = path.parent if path.is_file() else path
    return RunFolder(path=folder.resolve()) if (folder / "manifest.json").is_file() else None


def _place(root: Path) -> str:
    return str(root / RESULTS)


def _listed(runs: tuple[RunFolder, ...] | list[RunFolder]) -> str:
    if not runs:
        return "Start one with: harness sweep FILE. Results may lie elsewhere: --root DIR."
    newest = [run.run_id for run in reversed(runs)]
    more = f" and {len(newest) - _MOST_CANDIDATES} older" if len(newest) > _MOST_CANDIDATES else ""
    return f"Runs here: {', '.join(newest[:_MOST_CANDIDATES])}{more}."
