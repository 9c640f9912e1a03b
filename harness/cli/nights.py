"""Nights around a run of `nightly`: what earlier ones say of it, whether it needs another launch, its exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.cli.loading import summaries_of
from harness.records.journal import RunData
from harness.records.nightly import Night, NightVerdict
from harness.records.plan import PlannedNightly
from harness.records.summary import CellSummary
from harness.report.facts import NightFacts
from harness.run.outcome import CANNOT_TELL, ENGINE_FAILED, FINE
from harness.stats.arms import Stored
from harness.stats.night import night_of
from harness.stats.nights import judge_night, wants_second_launch
from harness.store.layout import RESULTS, RunFolder
from harness.store.nights import add_night, read_baseline, read_nights
from harness.store.reader import read_run

REGRESSED = 1
_CODES: dict[NightVerdict, int] = {
    "fine": FINE,
    "improved": FINE,
    "no baseline": FINE,
    "regressed": REGRESSED,
    "doubtful": CANNOT_TELL,
}
_FIRST_LOOK = 1  # rounds after which a night is looked at; there are two at the most


def nights_of(run: RunData, cells: tuple[CellSummary, ...]) -> tuple[tuple[str, Night], ...]:
    """Return what a run of `nightly` measured, by the configuration's name; the one that decides is the first."""
    if run.plan is None or run.plan.nightly is None:
        return ()
    stored = Stored(run=run, cells=cells)
    labels = {one.configuration_id: one.label for one in run.plan.configurations}
    asked = run.plan.nightly
    return tuple((labels[name], night_of(stored, name)) for name in (asked.gate_id, *asked.watched_ids))


def keep_nights(folder: RunFolder, run: RunData, cells: tuple[CellSummary, ...]) -> None:
    """Add what a run measured to the history. A run that goes on is added again; the last word counts."""
    for _, night in nights_of(run, cells):
        add_night(folder.path.parent, night)


def night_facts(folder: RunFolder, run: RunData, cells: tuple[CellSummary, ...]) -> NightFacts | None:
    """Return what to say of a night, by the nights before it and the baseline that is accepted now.

    None for another run. Only the first configuration has a baseline; the others are held against their history.
    """
    asked = run.plan.nightly if run.plan else None
    if asked is None:
        return None
    baseline = read_baseline(folder.path.parent.parent, asked.baseline)
    mornings = tuple(
        (label, judge_night(night, _before(folder, night), None if at else baseline))
        for at, (label, night) in enumerate(nights_of(run, cells))
    )
    return NightFacts(mornings=mornings, baseline=baseline)


def require_judgeable(root: Path, sweep: str, asked: PlannedNightly) -> None:
    """Raise InputError or StoreError where baseline or history cannot be read, before it costs a run."""
    read_baseline(root, asked.baseline)
    read_nights(root / RESULTS, sweep)


def night_judge(folder: RunFolder, asked: PlannedNightly) -> Callable[[int], str | None]:
    """Return what decides after the first launches whether the night needs another one.

    It raises InputError where the accepted baseline is damaged: before a night that is carried on is paid for.
    """
    root = folder.path.parent.parent
    read_baseline(root, asked.baseline)

    def judge(round_number: int) -> str | None:
        if round_number != _FIRST_LOOK:
            return None
        run = read_run(folder)
        _, night = nights_of(run, summaries_of(run))[0]
        because = wants_second_launch(night, _before(folder, night), read_baseline(root, asked.baseline))
        return None if because else "one launch is enough: nothing looks bad"

    return judge


def night_code(facts: NightFacts, code: int) -> int:
    """Return the exit code of a night; ``code`` is that of its run, which counts where nothing could be measured."""
    _, gate = facts.mornings[0]
    return code if code == ENGINE_FAILED and not gate.night.is_valid else _CODES[gate.verdict]


def _before(folder: RunFolder, night: Night) -> tuple[Night, ...]:
    nights = read_nights(folder.path.parent, night.sweep)
    return tuple(one for one in nights if one.run_id != night.run_id and one.at < night.at)
