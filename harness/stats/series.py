"""The nights of one key as series: points for pictures, change points, and which of these stand. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.nightly import Baseline, Night
from harness.stats.changepoint import Change, change_points
from harness.stats.morning import SeriesChange, SeriesPoint
from harness.stats.new_series import differences
from harness.stats.shape import described


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One headline figure over the nights that count."""

    figure: str
    nights: tuple[Night, ...]  # that have it
    changes: tuple[Change, ...]
    searched_from: int  # index of the night that the next change is looked for from
    accepted_to: int | None  # index of the last night that somebody accepted; None: nothing is

    def values(self, start: int = 0, end: int | None = None) -> list[float]:
        """The nights' values."""
        return [_value(night, self.figure) for night in self.nights[start:end]]

    def launches(self, start: int = 0, end: int | None = None) -> list[float]:
        """How often each night was launched."""
        return [float(len(night.figures[self.figure])) for night in self.nights[start:end]]

    @property
    def standing(self) -> Change | None:
        """What moved since the baseline and stands; None where nothing did, or where it came back."""
        unaccepted = [change for change in self.changes if not self.is_accepted(change)]
        net = sum(change.log_ratio for change in unaccepted)
        if len(unaccepted) > 1:
            whole = Change(index=0, log_ratio=net, low=net, high=net, p=0.0)
            unaccepted = [change for change in unaccepted if whole.matters and change.log_ratio * net > 0]
        return unaccepted[-1] if unaccepted else None

    def is_accepted(self, change: Change) -> bool:
        """The baseline's last night comes after it. Of a drift that went on after that, what came since is not."""
        if self.accepted_to is None or change.index > self.accepted_to:
            return False
        since = change.per_night * (len(self.nights) - 1 - self.accepted_to)
        return not Change(index=0, log_ratio=since, low=since, high=since, p=0.0).matters


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
    return Series(
        figure=figure,
        nights=known,
        changes=described(found, values, weights),
        searched_from=found[-1].index if found else 0,
        accepted_to=_accepted_to(known, baseline),
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
            accepted=series.is_accepted(change),
            differences=across(series.nights, change.index),
        )
        for change in series.changes
    )


def across(nights: Sequence[Night], index: int) -> tuple[str, ...]:
    """Return the facts that differ between a night and the one before it; () for the first."""
    return differences(nights[index - 1].facts, nights[index].facts) if 0 < index < len(nights) else ()


def _value(night: Night, figure: str) -> float:
    values = night.figures[figure]
    return sum(values) / len(values)


def _accepted_to(nights: Sequence[Night], baseline: Baseline | None) -> int | None:
    if baseline is None:
        return None
    own = [at for at, night in enumerate(nights) if night.run_id in baseline.run_ids]
    # Its nights may have been pruned: then what was there when somebody accepted it.
    earlier = [at for at, night in enumerate(nights) if night.at <= baseline.accepted_at]
    return max(own or earlier, default=None)
