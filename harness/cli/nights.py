"""Nights around a run of `nightly`: what earlier ones say of it, whether it needs another launch, its exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.cli.loading import summaries_of
from harness.errors import InputError
from harness.records.journal import RunData
from harness.records.nightly import Night, NightVerdict
from harness.records.plan import PlannedNightly
from harness.records.summary import CellSummary
from harness.run.outcome import CANNOT_TELL, ENGINE_FAILED, FINE
from harness.stats.arms import Stored
from harness.stats.nights import Morning, judge_night, night_of, wants_second_launch
from harness.store.layout import RunFolder
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedMorning:
    """What a morning says of one configuration."""

    label: str
    morning: Morning


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


def mornings_of(folder: RunFolder, run: RunData, cells: tuple[CellSummary, ...]) -> tuple[WatchedMorning, ...]:
    """Return what to say of a night, by the nights before it and the baseline that is accepted now.

    () for another run. Only the first configuration has a baseline; the others are held against their history.
    """
    asked = run.plan.nightly if run.plan else None
    if asked is None:
        return ()
    baseline = read_baseline(folder.path.parent.parent, asked.baseline)
    return tuple(
        WatchedMorning(label=label, morning=judge_night(night, _before(folder, night), None if at else baseline))
        for at, (label, night) in enumerate(nights_of(run, cells))
    )


def night_judge(folder: RunFolder, asked: PlannedNightly) -> Callable[[int], str | None]:
    """Return what decides after the first launches whether the night needs another one.

    It raises InputError where the accepted baseline is damaged: before the night is paid for.
    """
    root = folder.path.parent.parent
    read_baseline(root, asked.baseline)

    def judge(round_number: int) -> str | None:
        if round_number != _FIRST_LOOK:
            return None
        run = read_run(folder)
        nights = nights_of(run, summaries_of(run))
        _, night = nights[0]
        because = wants_second_launch(night, _before(folder, night), read_baseline(root, asked.baseline))
        return None if because else "one launch is enough: nothing looks bad"

    return judge


def night_code(mornings: Sequence[WatchedMorning], code: int) -> int:
    """Return the exit code of a night; ``code`` is that of its run, which counts where nothing could be measured."""
    gate = mornings[0].morning
    if code == ENGINE_FAILED and not gate.night.is_valid:
        return code
    return _CODES[gate.verdict]


def require_real_baseline(name: str, *, simulated: bool) -> None:
    """Raise InputError where a rehearsal would be held against what is real, or the other way round."""
    if name.startswith("simulated_") != simulated:
        what = "a rehearsal" if simulated else "a real night"
        raise InputError(
            f"{what} is not held against the baseline {name}",
            where="--baseline",
            hint="Baselines of rehearsals are called simulated_NAME, and no others are.",
        )


def _before(folder: RunFolder, night: Night) -> tuple[Night, ...]:
    nights = read_nights(folder.path.parent, night.sweep)
    return tuple(one for one in nights if one.run_id != night.run_id and one.at < night.at)
