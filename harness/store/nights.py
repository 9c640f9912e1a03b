"""Nights and baselines on disk: a line for each night, which its run can give again, and a file for each baseline."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import InputError, StoreError
from harness.records.acceptance import Acceptance, Acceptances
from harness.records.codec import from_json, to_json
from harness.records.manifest import SIMULATED_MARK
from harness.records.nightly import Baseline, Night
from harness.store.files import disk_error, write_whole
from harness.store.layout import slug, sync_directory
from harness.store.locks import held

NIGHTS, _BASELINES = "nights", "baselines"
SIMULATED_NAME = "simulated_"  # baselines of rehearsals are called so, and no others
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def read_nights(results: Path, sweep: str) -> tuple[Night, ...]:
    """Return the nights of a sweep, oldest first; of one run and key the last word.

    A run that watches several configurations is a night of several keys. A line that is none is passed over.
    """
    return tuple(night for night in _last_words(_nights_file(results, sweep)) if night.sweep == sweep)


def read_all_nights(results: Path) -> tuple[Night, ...]:
    """Return the nights of every sweep, oldest first."""
    folder = results / NIGHTS
    files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else []
    return tuple(sorted((night for path in files for night in _last_words(path)), key=_order))


def count_damaged(results: Path, sweep: str) -> int:
    """Return how many lines are passed over in the file of a sweep, since they are no nights. Raises StoreError."""
    return sum(_night(line) is None for line in _lines(_nights_file(results, sweep)))


def add_night(results: Path, night: Night) -> None:
    """Append a night, so that it survives a power cut. Raises StoreError."""
    path = _nights_file(results, night.sweep)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            # After a line that a crash cut: it must not swallow this one.
            end = file.seek(0, os.SEEK_END)
            torn = end > 0 and _last_byte(file.fileno(), end) != b"\n"
            file.write((b"\n" if torn else b"") + f"{to_json(night)}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
    except OSError as error:
        raise disk_error(error, path) from error


def rewrite_nights(results: Path, sweep: str, nights: Iterable[Night]) -> int:
    """Put these nights in place of what the file of a sweep holds. Lines that are no nights are kept beside it.

    Args:
        results: the folder.
        sweep: any of those whose nights share the file.
        nights: of all those sweeps.

    Returns:
        How many lines were no nights.

    Raises:
        StoreError: the file cannot be written; what was there before is untouched.
    """
    path = _nights_file(results, sweep)
    damaged = [line for line in _lines(path) if _night(line) is None]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if damaged:
            with path.with_suffix(".damaged").open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in damaged))
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise disk_error(error, path) from error
    write_whole(path, "".join(f"{to_json(night)}\n" for night in sorted(nights, key=_order)).encode())
    return len(damaged)


@contextmanager
def nightly_lock(results: Path, sweep: str) -> Iterator[None]:
    """Be the only nightly run of a sweep under these results. The kernel's lock: it ends with the process.

    Raises:
        StoreError: another process has it, which the message names; or the folder cannot be written.
    """
    path = _nights_file(results, sweep).with_suffix(".lock")

    def refusal(owner: str) -> StoreError:
        return StoreError(
            f"{owner} is at the nightly run of {sweep}",
            where=str(path),
            hint="Wait for it, or stop it: two at a time would measure each other. Nothing was started.",
        )

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(error, path) from error
    with held(path, refusal):
        yield


def require_name(name: str, *, simulated: bool, where: str) -> None:
    """Raise InputError where no baseline of such nights can be called so; ``where`` is the option."""
    if not name.strip():
        raise InputError("a baseline needs a name", where=where)
    if _NAME.fullmatch(name) is None:
        hint = "Letters, digits, _ . and -, up to 100 of them: it is the name of a file."
        raise InputError(f"{json.dumps(name[:100])} is no name for a baseline", where=where, hint=hint)
    if name.startswith(SIMULATED_NAME) != simulated:
        kind = "of a rehearsal" if simulated else "real"
        hint = f"Baselines of rehearsals are called {SIMULATED_NAME}NAME, and no others are: they never mix."
        what = f"the night is {kind}, and {name} is not the name of such a baseline"
        raise InputError(what, where=where, hint=hint)


def read_baseline(root: Path, name: str) -> Baseline | None:
    """Return the baseline that is accepted now; None where there is none of that name. Raises InputError: damaged."""
    found = read_acceptances(root, name)
    return None if found is None else found.current.baseline


def read_acceptances(root: Path, name: str) -> Acceptances | None:
    """Return what was ever accepted under a name; None where nothing was.

    Raises:
        InputError: its file is damaged.
    """
    path = _baseline_file(root, name)
    hint = "Take it from your version control again."
    try:
        found = from_json(Acceptances, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:  # pydantic's, and that of text in another coding
        raise InputError("not a baseline", where=str(path), hint=hint) from error
    except OSError as error:
        raise disk_error(error, path) from error
    baseline = found.current.baseline
    if not baseline.values or any(len(values) != len(baseline.run_ids) for values in baseline.values.values()):
        # Else nights would be held against nothing, and called fine.
        raise InputError("a baseline that has not a value for each of its nights", where=str(path), hint=hint)
    return found


def list_acceptances(root: Path) -> tuple[Acceptances, ...]:
    """Return the file of every name, by name. Raises InputError where one is damaged."""
    folder = root / _BASELINES
    names = sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []
    return tuple(found for name in names if (found := read_acceptances(root, name)) is not None)


def list_baselines(root: Path) -> tuple[Baseline, ...]:
    """Return every baseline that is accepted now, by name."""
    return tuple(found.current.baseline for found in list_acceptances(root))


def write_baseline(root: Path, baseline: Baseline) -> Path:
    """Accept a baseline of which no more is known than it says itself, and return its file. As ``accept``."""
    return accept(root, Acceptance(baseline=baseline, mark=SIMULATED_MARK if baseline.simulated else None))


def accept(root: Path, acceptance: Acceptance) -> Path:
    """Accept a baseline under its name, and return the file. What was accepted before is kept in it.

    Raises:
        InputError: the name is that of another baseline when written as a file, or one of simulated nights is real.
        StoreError: the file cannot be written; what was there before is untouched.
    """
    name = acceptance.baseline.name
    path = _baseline_file(root, name)
    before = read_acceptances(root, name)
    if before is not None:
        _require_same(before.current.baseline, acceptance.baseline, path)
    whole = Acceptances(current=acceptance, earlier=before.all if before else ())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(error, path) from error
    # With line breaks: people keep it under version control and read the differences.
    write_whole(path, f"{json.dumps(json.loads(to_json(whole)), indent=1, ensure_ascii=False)}\n".encode())
    return path


def _require_same(before: Baseline, after: Baseline, path: Path) -> None:
    if before.name != after.name:
        what = f"{before.name} has this file already"
        raise InputError(what, where=str(path), hint="Choose a name that differs in letters or digits.")
    if before.simulated != after.simulated:
        words = {True: "simulated", False: "real"}
        what = f"{before.name} is of {words[before.simulated]} nights, these are {words[after.simulated]}"
        raise InputError(what, where=str(path), hint="Choose another name: a rehearsal never judges what is real.")


def _last_words(path: Path) -> list[Night]:
    nights = {
        (night.sweep, night.run_id, night.key): night for line in _lines(path) if (night := _night(line)) is not None
    }
    return sorted(nights.values(), key=_order)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise disk_error(error, path) from error
    return [line for line in text.split("\n") if line.strip()]


def _night(line: str) -> Night | None:
    try:
        return from_json(Night, line)
    except ValueError:  # of pydantic too
        return None


def _order(night: Night) -> tuple[str, str, str]:
    return night.at, night.run_id, night.key


def _last_byte(descriptor: int, end: int) -> bytes:
    return os.pread(descriptor, 1, end - 1)


def _nights_file(results: Path, sweep: str) -> Path:
    return results / NIGHTS / f"{slug(sweep)}.jsonl"


def _baseline_file(root: Path, name: str) -> Path:
    return root / _BASELINES / f"{slug(name)}.json"
