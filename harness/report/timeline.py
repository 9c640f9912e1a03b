"""The run over time as data: launches and trials as bars, and clocks, heat and power of the nodes below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.records.host import NodeSample
from harness.records.launch import FAILED, LaunchRecord
from harness.report.facts import TrialSpan
from harness.report.labels import counted
from harness.report.models import Bar, Lane, TimelineView, Track, TrackPanel
from harness.report.reading import Reading

_LONGEST_PAUSE_S = 600.0  # longer ones are cut out: a run that was resumed the next day
_KEPT_PAUSE_S = 60.0
_MOST_POINTS = 600  # of a track
_QUANTITIES = {"sm_clock_mhz": "SM clock, MHz", "temperature_c": "temperature, °C", "power_w": "power, W"}


def timeline(reading: Reading) -> TimelineView:
    """Return the timeline of a run; the nodes only where they were sampled."""
    facts = reading.facts
    axis = _axis(facts.launches, facts.trial_spans)
    samples = [sample for launch in facts.launches for sample in launch.samples]
    panels = tuple(_panels(facts.launches, axis))
    return TimelineView(
        name="timeline",
        title="The run over time",
        caption=_caption(samples, panels, axis),
        length_s=axis.length_s,
        lanes=(_launch_lane(reading, axis), _trial_lane(facts.trial_spans, axis)),
        panels=panels,
        cuts_s=axis.cuts_s,
        simulated=facts.manifest.simulated,
        absent_because=None if axis.length_s > 0 else "no launch has lasted",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Seconds since the run began, without long pauses."""

    begin: datetime | None
    removed: tuple[tuple[float, float], ...]  # (seconds since the beginning, seconds taken out there)
    length_s: float

    def at(self, stamp: str) -> float:
        """Return the place of a moment."""
        raw_s = _seconds(stamp, self.begin)
        return raw_s - sum(min(taken_s, max(0.0, raw_s - since_s)) for since_s, taken_s in self.removed)

    @property
    def cuts_s(self) -> tuple[float, ...]:
        """Places at which something was taken out."""
        places, before_s = [], 0.0
        for since_s, taken_s in self.removed:
            places.append(since_s - before_s)
            before_s += taken_s
        return tuple(places)


def _axis(launches: Sequence[LaunchRecord], trials: Sequence[TrialSpan]) -> _Axis:
    stamps = [*(launch.started_at for launch in launches), *(trial.started_at for trial in trials)]
    if not stamps:
        return _Axis(begin=None, removed=(), length_s=0.0)
    begin = min(datetime.fromisoformat(stamp) for stamp in stamps)
    busy = [(_seconds(one.started_at, begin), one.total_s or 0.0) for one in launches]
    busy += [(_seconds(one.started_at, begin), one.took_s) for one in trials]
    removed, reached_s = [], 0.0
    for start_s, took_s in sorted(busy):
        if start_s - reached_s > _LONGEST_PAUSE_S:
            removed.append((reached_s + _KEPT_PAUSE_S, start_s - reached_s - _KEPT_PAUSE_S))
        reached_s = max(reached_s, start_s + took_s)
    return _Axis(begin=begin, removed=tuple(removed), length_s=reached_s - sum(taken_s for _, taken_s in removed))


def _seconds(stamp: str, begin: datetime | None) -> float:
    return 0.0 if begin is None else (datetime.fromisoformat(stamp) - begin).total_seconds()


def _launch_lane(reading: Reading, axis: _Axis) -> Lane:
    launches = reading.facts.launches
    order = list(dict.fromkeys(launch.configuration.configuration_id for launch in launches))
    bars = tuple(
        Bar(
            begin_s=axis.at(launch.started_at),
            end_s=axis.at(launch.started_at) + (launch.total_s or 0.0),
            label=f"{number}: {reading.labels.configuration(launch.configuration)}",
            colour=order.index(launch.configuration.configuration_id),
            faint=launch.outcome in FAILED or launch.outcome == "slow_canary",
        )
        for number, launch in enumerate(launches, start=1)
    )
    return Lane(label="launches", bars=bars)


def _trial_lane(trials: Iterable[TrialSpan], axis: _Axis) -> Lane:
    bars = tuple(
        Bar(
            begin_s=axis.at(trial.started_at),
            end_s=axis.at(trial.started_at) + trial.took_s,
            colour=-1,
            faint=trial.void,
            marked=trial.doubtful,
        )
        for trial in trials
    )
    return Lane(label="trials", bars=bars)


def _panels(launches: Sequence[LaunchRecord], axis: _Axis) -> Iterable[TrackPanel]:
    nodes = list(dict.fromkeys(sample.node for launch in launches for sample in launch.samples))
    for quantity, y_label in _QUANTITIES.items():
        tracks = []
        for colour, node in enumerate(nodes):
            segments = tuple(_segments(launches, node, quantity, axis))
            if segments:
                marks = _marks(launches, node, quantity, axis) if quantity == "sm_clock_mhz" else ()
                tracks.append(Track(label=node, segments=segments, colour=colour, marks=marks))
        if tracks:
            yield TrackPanel(y_label=y_label, tracks=tuple(tracks))


def _segments(
    launches: Sequence[LaunchRecord], node: str, quantity: str, axis: _Axis
) -> Iterable[tuple[tuple[float, float], ...]]:
    """Unbroken stretches: a missing value or another launch ends one."""
    total = sum(sample.node == node for launch in launches for sample in launch.samples)
    for launch in launches:
        segment: list[tuple[float, float]] = []
        for sample in launch.samples:
            if sample.node != node:
                continue
            value = getattr(sample, quantity)
            if value is not None:
                segment.append((axis.at(sample.at), value))
            elif segment:
                yield _thinned(segment, total)
                segment = []
        if segment:
            yield _thinned(segment, total)


def _thinned(segment: list[tuple[float, float]], total: int) -> tuple[tuple[float, float], ...]:
    """The lowest and the highest of each stretch, so that no spike is lost."""
    width = -(-2 * total // _MOST_POINTS)
    if width <= 2:
        return tuple(segment)
    kept: list[tuple[float, float]] = []
    for start in range(0, len(segment), width):
        stretch = segment[start : start + width]
        ends = (min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1]))
        kept.extend(sorted(set(ends)))
    return tuple(kept)


def _marks(launches: Sequence[LaunchRecord], node: str, quantity: str, axis: _Axis) -> tuple[tuple[float, float], ...]:
    found = [
        (axis.at(sample.at), value)
        for launch in launches
        for sample in launch.samples
        if sample.node == node and sample.is_busy and sample.faults
        if (value := getattr(sample, quantity)) is not None
    ]
    step = -(-len(found) // _MOST_POINTS) or 1
    return tuple(found[::step])


def _caption(samples: Sequence[NodeSample], panels: Sequence[TrackPanel], axis: _Axis) -> str:
    text = "Numbers are those of the launches below. Bars that are pale were not used; an outlined trial has a doubt."
    if panels:
        text += " A ring is a moment at which the node lowered its clocks because of heat or power."
    gaps = sum(sample.gap is not None for sample in samples)
    if gaps:
        text += f" The nodes did not answer {counted(gaps, 'time')}."
    missing = [label for name, label in _QUANTITIES.items() if samples and not _known(samples, name)]
    if missing:
        text += f" Not reported by the nodes: {'; '.join(missing)}."
    if axis.removed:
        text += " A dashed line is a pause that was left out."
    return text


def _known(samples: Sequence[NodeSample], quantity: str) -> bool:
    return any(getattr(sample, quantity) is not None for sample in samples)
