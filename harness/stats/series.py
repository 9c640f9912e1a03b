"""The nights of one key as series: points for pictures, change points, and which of these stand. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.nightly import Baseline, Night
from harness.stats.changepoint import LEAST_RATIO, Change, change_points
from harness.stats.morning import SeriesChange, SeriesPoint
from harness.stats.new_series import differences
from harness.stats.shape import described


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One headline figure over the nights that count."""

    figure: str
    nights: tuple[Night, ...]  # that have it
    accepted: tuple[Change, ...]  # the baseline's last night comes after them
    unaccepted: tuple[Change, ...]
    searched_from: int  # index of the night that the next change is looked for from

    def values(self, start: int = 0, end: int | None = None) -> list[float]:
        """The nights' values."""
        return [_value(night, self.figure) for night in self.nights[start:end]]

    def launches(self, start: int = 0, end: int | None = None) -> list[float]:
        """How often each night was launched."""
        return [float(len(night.figures[self.figure])) for night in self.nights[start:end]]

    @property
    def standing(self) -> Change | None:
        """What moved since the baseline and stands; None where nothing did, or where it came back."""
        if len(self.unaccepted) < 2:
            return next(iter(self.unaccepted), None)
        net = sum(change.log_ratio for change in self.unaccepted)
        if abs(net) < math.log1p(LEAST_RATIO):
            return None
        return next(change for change in reversed(self.unaccepted) if change.log_ratio * net > 0)


def series_of(figure: str, nights: Sequence[Night], baseline: Baseline | None) -> Series:
    """Return a figure over the nights that count.

    Args:
        figure: of the headline.
        nights: that count, oldest first.
        baseline: accepted for this series.
    """
    known = tuple(night for night in nights if night.figures.get(figure))
    values = [_value(night, figure) for night in known]
    weights = [float(len(night.figures[figure])) for night in known]
    found = change_points(values, weights)
    # Described apart: of a drift that went on after it was accepted, what came since is news.
    end = _accepted_nights(known, baseline)
    old = [change for change in found if change.index < end]
    return Series(
        figure=figure,
        nights=known,
        accepted=described(old, values[:end], weights[:end]),
        unaccepted=described(found[len(old) :], values, weights, start=old[-1].index if old else 0),
        searched_from=found[-1].index if found else 0,
    )


def points(figure: str, nights: Sequence[Night], counting: Sequence[Night]) -> tuple[SeriesPoint, ...]:
    """Return every night that has a figure; those that do not count say so."""
    counts = {night.run_id for night in counting}
    return tuple(
        SeriesPoint(
            run_id=one.run_id, at=one.at, value=value, launches=one.figures[figure], counts=one.run_id in counts
        )
        for one in nights
        if (value := one.value(figure)) is not None
    )


def marks(series: Series) -> tuple[SeriesChange, ...]:
    """Return the change points of a series with their dates, oldest first."""
    return tuple(
        SeriesChange(
            figure=series.figure,
            at=series.nights[change.index].at,
            found_at=series.nights[change.found].at,
            change=change,
            accepted=accepted,
            differences=across(series.nights, change.index),
        )
        for accepted, changes in ((True, series.accepted), (False, series.unaccepted))
        for change in changes
    )


def across(nights: Sequence[Night], index: int) -> tuple[str, ...]:
    """Return the facts that differ between a night and the one before it; () for the first."""
    return differences(nights[index - 1].facts, nights[index].facts) if 0 < index < len(nights) else ()


def _value(night: Night, figure: str) -> float:
    values = night.figures[figure]
    return sum(values) / len(values)


def _accepted_nights(nights: Sequence[Night], baseline: Baseline | None) -> int:
    """How many nights there are up to the last one of the baseline."""
    if baseline is None:
        return 0
    own = [at for at, night in enumerate(nights) if night.run_id in baseline.run_ids]
    # Its nights may have been pruned: then what was there when somebody accepted it.
    earlier = [at for at, night in enumerate(nights) if night.at <= baseline.accepted_at]
    return max(own or earlier, default=-1) + 1
