"""The nights of a series as a picture and as a line of text: percent against the middle of the baseline. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from harness.report.night_picture import NightDot, NightMark, NightPanel, NightsPicture
from harness.report.night_words import LONG, percent
from harness.stats.morning import Figure, Morning, SeriesChange, SeriesPoint

MOST_NIGHTS = 90
_LEAST_NIGHTS = 2
_DAY_S = 86_400
_MOST_TICKS = 9
_TICK_DAYS = (1, 2, 7, 14, 28, 56, 182, 364)
_LEAST_SPAN = 3.0  # percent up and down, so that scatter does not look like news
_BAND_DEVIATIONS = 2
_SPARKS = "▁▂▃▄▅▆▇█"
_DOUBTFUL = "·"


def nights_picture(name: str, title: str, morning: Morning) -> NightsPicture:
    """Return the headline series over the last nights, tonight the last."""
    shown = _Shown.of(morning)
    panels = tuple(shown.panel(one) for one in morning.figures if len(shown.points(one)) >= _LEAST_NIGHTS)
    return NightsPicture(
        name=name,
        title=title,
        caption=_caption(shown),
        y_label="vs baseline" if shown.is_accepted else "vs their median",
        panels=panels,
        ticks=shown.ticks(),
        simulated=morning.night.simulated,
        absent_because=None if panels else "this series has fewer than two nights",
    )


def spark(one: Figure, morning: Morning, most: int) -> str:
    """Return the last nights of a series as a line of bars, doubtful ones as a dot; "" where there are too few."""
    shown = _Shown.of(morning)
    dots = shown.panel(one).dots[-most:]
    if len(dots) < _LEAST_NIGHTS:
        return ""
    low, high = _span([*(dot.value for dot in dots if not dot.doubtful), *shown.limits(one)])
    return "".join(_DOUBTFUL if dot.doubtful else _bar(dot.value, low, high) for dot in dots)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """Nights on one axis."""

    morning: Morning
    dates: tuple[str, ...]  # wall clocks of the nights that are shown, oldest first
    left_out: int

    @classmethod
    def of(cls, morning: Morning) -> _Shown:
        dates = sorted({point.at for points in morning.series.values() for point in points})
        return cls(morning=morning, dates=tuple(dates[-MOST_NIGHTS:]), left_out=max(0, len(dates) - MOST_NIGHTS))

    @property
    def is_accepted(self) -> bool:
        """There is a baseline to be held against."""
        return any(one.baseline is not None for one in self.morning.figures)

    def points(self, one: Figure) -> tuple[SeriesPoint, ...]:
        return tuple(point for point in self.morning.series.get(one.name, ()) if point.at >= self.dates[0])

    def changes(self, one: Figure) -> tuple[SeriesChange, ...]:
        marks = (mark for mark in self.morning.changes if mark.figure == one.name)
        return tuple(mark for mark in marks if mark.at >= self.dates[0])

    def limits(self, one: Figure) -> tuple[float, ...]:
        return (_percent(-one.baseline.limit_log),) if one.baseline is not None else ()

    def panel(self, one: Figure) -> NightPanel:
        center = self._center(one)
        dots = tuple(self._dot(point, center) for point in self.points(one))
        values = [value for dot in dots for value in (dot.value, *dot.launches)]
        low, high = _span([*values, *self.limits(one)])
        return NightPanel(
            title=LONG.get(one.name, one.name),
            dots=dots,
            marks=tuple(self._mark(change) for change in self.changes(one)),
            limit=next(iter(self.limits(one)), None),
            scatter=_percent(_BAND_DEVIATIONS * one.baseline.sd) if one.baseline else None,
            shown=(low - 0.1 * (high - low), high + 0.25 * (high - low)),  # the marks have their words above
        )

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Dates of nights at about an even distance, the first one's among them."""
        if not self.dates:
            return ()
        last = self._day(self.dates[-1])
        step = next((step for step in _TICK_DAYS if last / step < _MOST_TICKS), math.ceil(last / _MOST_TICKS))
        firsts = {int(self._day(at) + 0.5) // step: at for at in reversed(self.dates)}
        return tuple((self._day(at), at[:10]) for _, at in sorted(firsts.items()))

    def _center(self, one: Figure) -> float:
        if one.baseline is not None:
            return one.baseline.center
        points = self.points(one)
        known = [point.value for point in points if point.counts] or [point.value for point in points]
        return median(known) if known else 0.0

    def _dot(self, point: SeriesPoint, center: float) -> NightDot:
        several = len(point.launches) > 1
        return NightDot(
            day=self._day(point.at),
            value=_percent(point.value - center),
            launches=tuple(_percent(one - center) for one in point.launches) if several else (),
            doubtful=not point.counts,
            tonight=point.run_id == self.morning.night.run_id,
        )

    def _mark(self, change: SeriesChange) -> NightMark:
        """Between the night that is the first after it and the one before."""
        earlier = [at for at in self.dates if at < change.at]
        day = self._day(change.at)
        kind = "drift from" if change.change.shape == "drift" else ""
        said = (kind, f"{change.date}: {percent(change.change.log_ratio)}", "(accepted)" if change.accepted else "")
        return NightMark(
            day=(day + self._day(earlier[-1])) / 2 if earlier else day,
            label=" ".join(part for part in said if part),
            tone="accepted" if change.accepted else "worse" if change.change.log_ratio < 0 else "better",
        )

    def _day(self, at: str) -> float:
        return (_moment(at) - _moment(self.dates[0])).total_seconds() / _DAY_S


def _caption(shown: _Shown) -> str:
    said = ["Each dot is a night, the diamond is this one; up is better."]
    points = [point for points in shown.morning.series.values() for point in points if point.at in shown.dates]
    if any(not point.counts for point in points):
        said.append("Hollow: a doubtful night, which is not judged and judges none.")
    if any(len(point.launches) > 1 for point in points):
        said.append("A bar joins the launches of a night that was launched twice.")
    if shown.is_accepted:
        said.append(
            "The band is two standard deviations of the accepted nights; below the dashed line a launch falls out."
        )
    if any(change.at in shown.dates for change in shown.morning.changes):
        said.append("A dotted line is a change point, with its date and size.")
    if shown.left_out:
        said.append(f"{shown.left_out} older nights are not shown.")
    return " ".join(said)


def _span(values: Sequence[float]) -> tuple[float, float]:
    return min([-_LEAST_SPAN, *values]), max([_LEAST_SPAN, *values])


def _bar(value: float, low: float, high: float) -> str:
    place = (value - low) / (high - low) * (len(_SPARKS) - 1)
    return _SPARKS[max(0, min(len(_SPARKS) - 1, round(place)))]


def _percent(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)


def _moment(at: str) -> datetime:
    moment = datetime.fromisoformat(at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
