"""Which nights keep the folder of their run. Pure: the rule that `harness history prune` states in its help."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from harness.errors import InputError
from harness.records.nightly import Night

WEEKLY = timedelta(days=365)  # for so long before the whole period one a week is kept
_DAYS = {"d": 1, "w": 7}
_MOST_DAYS = 36_500
RECENT, OF_WEEK, OF_MONTH, NO_DATE = "of the last period", "one a week", "one a month", "without a readable date"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What is kept whole: so many days before now, or so many of a sweep's newest nights."""

    days: int | None = None
    nights: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinned:
    """What the rule says of the runs of some nights."""

    kept: dict[str, str] = field(default_factory=dict)  # by run id: why
    removed: tuple[str, ...] = ()  # run ids, oldest first


def parse_period(text: str) -> Period:
    """Return the period in "90d", "12w" or "30" (nights). Raises InputError for anything else, and for nothing."""
    match = re.fullmatch(r"(\d{1,6})\s*([dw]?)", text.strip())
    most = _MOST_DAYS // _DAYS.get(match[2], 1) if match else 0
    if match is None or not 1 <= int(match[1]) <= most:
        raise InputError(f"not a period: {text!r}", where="--keep", hint="As in 90d, 12w, or 30 for so many nights.")
    count = int(match[1])
    return Period(days=count * _DAYS[match[2]]) if match[2] else Period(nights=count)


def thinned(nights: Sequence[Night], period: Period, *, now: str, protected: Mapping[str, str]) -> Thinned:
    """Return which runs stay and which go.

    Of each series (sweep and key) all nights of the period stay; before it, for a year, the first valid night of each
    week; before that, the first valid one of each month. Where none is valid, the first counts. A run stays if any of
    its nights does, and each that is protected. The same nights give the same answer again once those that go are gone.

    Args:
        nights: whose run folders are there, of any sweeps.
        period: that is kept whole.
        now: wall clock, ISO 8601 with zone.
        protected: by run id: why it stays whatever the rule says.
    """
    ordered = sorted(nights, key=lambda night: (night.at, night.run_id, night.key))
    kept: dict[str, str] = {}
    for sweep in dict.fromkeys(night.sweep for night in ordered):
        of_sweep = [night for night in ordered if night.sweep == sweep]
        start = _start(of_sweep, period, now)
        for key in dict.fromkeys(night.key for night in of_sweep):
            kept |= _kept_of([night for night in of_sweep if night.key == key], start, kept)
    kept |= {night.run_id: protected[night.run_id] for night in ordered if night.run_id in protected}
    gone = dict.fromkeys(night.run_id for night in ordered if night.run_id not in kept)
    return Thinned(kept=kept, removed=tuple(gone))


def _start(of_sweep: Sequence[Night], period: Period, now: str) -> datetime:
    """From when on everything stays."""
    if period.days is not None:
        instant = _instant(now)
        assert instant is not None  # our own clock wrote it
        return instant - timedelta(days=period.days)
    dated: Collection[datetime] = {instant for night in of_sweep if (instant := _instant(night.at)) is not None}
    newest = sorted(dated, reverse=True)[: period.nights]
    return newest[-1] if newest else datetime.max.replace(tzinfo=UTC)


def _kept_of(series: Sequence[Night], start: datetime, already: Mapping[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    chosen: dict[tuple[str, int, int], Night] = {}
    for night in series:
        instant = _instant(night.at)
        if instant is None or instant >= start:
            kept[night.run_id] = NO_DATE if instant is None else RECENT
            continue
        day = datetime.fromisoformat(night.at).date()
        weekly = instant >= start - WEEKLY
        slot = (OF_WEEK, *day.isocalendar()[:2]) if weekly else (OF_MONTH, day.year, day.month)
        if slot not in chosen or (night.is_valid and not chosen[slot].is_valid):
            chosen[slot] = night
    kept |= {night.run_id: slot[0] for slot, night in chosen.items() if night.run_id not in kept}
    return {run_id: why for run_id, why in kept.items() if run_id not in already}


def _instant(at: str) -> datetime | None:
    """The moment of a stamp; without a zone it is taken as UTC."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
