"""What `harness history` does to stored runs: nights derived again, old runs thinned out, journals compressed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path

from harness.cli.loading import summaries_of
from harness.cli.nights import nights_of
from harness.errors import HarnessError, StoreError, UnreadableRunError
from harness.records.nightly import Night
from harness.report.labels import counted
from harness.stats.changepoint import change_points
from harness.store.compression import compress_journal
from harness.store.history import write_history
from harness.store.journal import is_being_written, run_lock
from harness.store.layout import RESULTS, RunFolder, list_runs, slug
from harness.store.nights import list_acceptances, nightly_lock, read_all_nights, rewrite_nights
from harness.store.pruning import clear_removed, remove_run, size_bytes
from harness.store.reader import read_plan, read_run
from harness.store.retention import Period, thinned
from harness.units import format_bytes

Say = Callable[[str], None]
COMPRESSED_AFTER_DAYS = 30
_LEFT_ALONE = "is being written: left alone"
_DAY_S = 86_400.0


def rebuild(root: Path, say: Say) -> None:
    """Derive the nights of every stored run again; a night whose run cannot give it stays as it was written down.

    Raises:
        StoreError: a nightly run is going on, or the disk does not let us.
    """
    results = root / RESULTS
    runs = [run for run in list_runs(root) if _is_nightly(run)]
    with ExitStack() as locks:
        for sweep in _sweeps(read_all_nights(results), runs):
            locks.enter_context(nightly_lock(results, sweep))
        stored = read_all_nights(results)
        derived = {run.run_id: of_run for run in runs if (of_run := _derived(run, say)) is not None}
        kept = [night for night in stored if night.run_id not in derived]
        nights = [*kept, *chain.from_iterable(derived.values())]
        damaged = 0
        for name in dict.fromkeys(night.sweep for night in (*stored, *nights)):
            damaged += rewrite_nights(results, name, [one for one in nights if slug(one.sweep) == slug(name)])
    table = write_history(results)
    say(f"{counted(len(nights) - len(kept), 'night')} derived from {counted(len(derived), 'run')}")
    if kept:
        say(f"{counted(len(kept), 'night')} kept as written down: no run folder gives them any more")
    if damaged:
        say(f"{counted(damaged, 'line')} of {results / 'nights'} were no nights: moved to files beside, .damaged")
    say(f"written: {table}")


@dataclass(kw_only=True)
class _Tally:
    """What has been done to runs."""

    runs: int = 0
    bytes: int = 0
    failed: list[HarnessError] = field(default_factory=list)


def prune(root: Path, period: Period, *, now: str, dry_run: bool, say: Say) -> None:
    """Thin out the run folders of old nights, then compress old journals. The nights themselves stay.

    Args:
        root: where results/ lies.
        period: that is kept whole.
        now: wall clock, ISO 8601 with zone.
        dry_run: only say what would be done.
        say: takes a line.

    Raises:
        StoreError: the disk does not let us; the other runs are done all the same.
    """
    results = root / RESULTS
    nights = read_all_nights(results)
    folders = {run.run_id: run for run in list_runs(root)}
    nightly = {run_id for run_id in {night.run_id for night in nights} & set(folders) if _is_nightly(folders[run_id])}
    there = [night for night in nights if night.run_id in nightly]
    rule = thinned(there, period, now=now, protected=protected_runs(root, nights, nightly))
    gone, kept = _Tally(), _Tally()
    for run_id in rule.removed:
        _remove(folders[run_id], gone, kept, dry_run=dry_run, say=say)
    for run_id in rule.kept:
        kept.runs, kept.bytes = kept.runs + 1, kept.bytes + size_bytes(folders[run_id])
    for why in dict.fromkeys(rule.kept.values()):
        say(f"kept: {counted(list(rule.kept.values()).count(why), 'run')}: {why}")
    others = len(folders) - len(nightly)
    if others:
        say(f"not looked at: {counted(others, 'run')} that {'is' if others == 1 else 'are'} no night")
    verb = "would be removed" if dry_run else "removed"
    say(f"{verb}: {counted(gone.runs, 'run')}, {_bytes(gone.bytes)}")
    say(f"kept: {counted(kept.runs, 'run')}, {_bytes(kept.bytes)}, and all {counted(len(nights), 'night')}")
    if not dry_run:
        clear_removed(results)
        compress(root, now=now, days=COMPRESSED_AFTER_DAYS, every=False, say=say)
    _raise_first(gone.failed)


def compress(root: Path, *, now: str, days: int, every: bool, say: Say) -> None:
    """Compress the journals that nobody wrote for so many days: of nights, or of every run.

    Raises:
        StoreError: the disk does not let us; the other journals are done all the same.
    """
    nightly = {night.run_id for night in read_all_nights(root / RESULTS)}
    until_s = datetime.fromisoformat(now).timestamp() - days * _DAY_S
    done = _Tally()
    for run in list_runs(root):
        if (every or run.run_id in nightly) and _written_before(run, until_s):
            _compress(run, done, say)
    say(f"compressed: {counted(done.runs, 'journal')}, {_bytes(done.bytes)} less")
    _raise_first(done.failed)


def protected_runs(root: Path, nights: Sequence[Night], there: Collection[str]) -> dict[str, str]:
    """Return the runs that stay whatever their age, and why: what others refer to, and the newest night of each series.

    Args:
        root: where baselines/ lies.
        nights: every one, oldest first, so that changes are found where they were.
        there: the runs whose folders are there.

    Raises:
        InputError: a baseline is damaged, so that nobody knows what it refers to.
    """
    protected: dict[str, str] = {}
    for series in _series(nights):
        protected |= dict.fromkeys(_at_changes(series), "beside a change point")
        protected |= dict.fromkeys([one.run_id for one in series if one.run_id in there][-1:], "newest of its series")
    for found in list_acceptances(root):
        for acceptance in found.all:
            protected |= dict.fromkeys(acceptance.baseline.run_ids, f"of the baseline {found.current.baseline.name}")
    return protected


def _series(nights: Sequence[Night]) -> Iterator[list[Night]]:
    """The nights that can be compared, each oldest first."""
    for name in dict.fromkeys((night.sweep, night.key, night.simulated) for night in nights):
        yield [night for night in nights if (night.sweep, night.key, night.simulated) == name]


def _at_changes(series: Sequence[Night]) -> Iterator[str]:
    """The nights on both sides of every change point of every figure."""
    for figure in dict.fromkeys(name for night in series for name in night.figures):
        known = [(night, value) for night in series if night.is_valid and (value := night.value(figure)) is not None]
        launches = [float(len(night.figures[figure])) for night, _ in known]
        for change in change_points([value for _, value in known], launches):
            yield known[change.index - 1][0].run_id
            yield known[change.index][0].run_id


def _remove(run: RunFolder, gone: _Tally, kept: _Tally, *, dry_run: bool, say: Say) -> None:
    size = size_bytes(run)
    if is_being_written(run):
        say(f"{run.run_id} {_LEFT_ALONE}")
        kept.runs, kept.bytes = kept.runs + 1, kept.bytes + size
        return
    try:
        if not dry_run:
            remove_run(run)
    except StoreError as error:
        say(f"{run.run_id}: not removed: {error.what}")
        gone.failed.append(error)
        kept.runs, kept.bytes = kept.runs + 1, kept.bytes + size
        return
    say(f"{'would remove' if dry_run else 'removed'} {run.run_id} ({_bytes(size)})")
    gone.runs, gone.bytes = gone.runs + 1, gone.bytes + size


def _compress(run: RunFolder, done: _Tally, say: Say) -> None:
    if is_being_written(run):
        say(f"{run.run_id} {_LEFT_ALONE}")
        return
    try:
        with run_lock(run):
            freed = compress_journal(run)
    except StoreError as error:
        say(f"{run.run_id}: not compressed: {error.what}")
        done.failed.append(error)
        return
    if freed is not None:
        done.runs, done.bytes = done.runs + 1, done.bytes + freed


def _written_before(run: RunFolder, until_s: float) -> bool:
    try:
        return run.journal.stat().st_mtime < until_s
    except OSError:  # compressed already, or none
        return False


def _is_nightly(run: RunFolder) -> bool:
    """It is a run of `harness nightly`, as far as that can be read."""
    try:
        plan = read_plan(run)
    except StoreError:
        return False
    return plan is not None and plan.nightly is not None


def _derived(run: RunFolder, say: Say) -> tuple[Night, ...] | None:
    """The nights of a run; None, and why is said, where it cannot give them."""
    if is_being_written(run):
        say(f"{run.run_id} {_LEFT_ALONE}")
        return None
    try:
        data = read_run(run)
    except UnreadableRunError as error:
        say(f"{run.run_id}: {error.what}: its nights stay as written down")
        return None
    if not data.trials:
        return None  # it measured nothing, as when the engine never came up
    return tuple(night for _, night in nights_of(data, summaries_of(data)))


def _sweeps(nights: Iterable[Night], runs: Iterable[RunFolder]) -> list[str]:
    """One sweep for each file of nights."""
    names = [night.sweep for night in nights]
    for run in runs:
        try:
            plan = read_plan(run)
        except StoreError:
            continue
        names += [plan.sweep] if plan is not None else []
    return list({slug(name): name for name in names}.values())


def _bytes(count: int) -> str:
    return format_bytes(count) if count else "0 B"


def _raise_first(failed: Sequence[HarnessError]) -> None:
    if failed:
        raise failed[0]
