"""What a run is doing now, in words, from its events."""

from __future__ import annotations

from collections.abc import Callable

from harness.records.events import (
    Event,
    LaunchEnded,
    LaunchProgress,
    LaunchReady,
    LaunchStarted,
    Note,
    PreparationProgress,
    RunStarted,
    TrialDone,
    TrialStarted,
)
from harness.records.launch import LaunchRecord
from harness.report.labels import Labels, counted, words
from harness.report.text import one_line
from harness.units import format_seconds


class ProgressState:
    """What a live display says at this moment."""

    def __init__(self, labels: Labels, *, now_s: Callable[[], float]) -> None:
        self.trials = 0
        self.done = 0
        self.detail = ""  # the last line of a boot log, or of a preparation
        self._labels = labels
        self._now_s = now_s
        self._text = "starting"
        self._since_s = now_s()
        self._expected_s: float | None = None
        self._left_s: float | None = None
        self._left_at_s = now_s()

    def take(self, event: Event) -> None:
        """Update from one event."""
        if isinstance(event, RunStarted):
            self.trials, self.done = event.trials, event.done_trials
            self._expect_left(event.predicted_s)
        elif isinstance(event, TrialDone):
            self.done += 1
            self._expect_left(event.remaining_s)
        elif isinstance(event, LaunchStarted):
            self._begin(event_words(event, self._labels), event.expected_s)
        elif isinstance(event, PreparationProgress):
            self._begin(event.step, None)
        elif isinstance(event, (LaunchReady, TrialStarted, LaunchEnded)):
            self._begin(event_words(event, self._labels), None)
        self.detail = _detail(event, self.detail)

    def now_line(self) -> str:
        """What goes on, and for how long."""
        took_s = self._now_s() - self._since_s
        late = ", longer than expected" if self._expected_s and took_s > self._expected_s else ""
        return one_line(f"{self._text} · {format_whole_seconds(took_s)}{late}")

    def bar_text(self) -> str:
        """Trials done, and the time left."""
        left = ""
        if self._left_s is not None:
            left = f" · about {format_whole_seconds(max(0.0, self._left_s - self._now_s() + self._left_at_s))} left"
        return f"{self.done} of {counted(self.trials, 'trial')}{left}"

    def _begin(self, text: str, expected_s: float | None) -> None:
        if text != self._text:
            self._since_s = self._now_s()
        self._text, self._expected_s = text, expected_s

    def _expect_left(self, seconds: float | None) -> None:
        self._left_s, self._left_at_s = seconds, self._now_s()


def event_words(event: Event, labels: Labels) -> str:
    """Return one clean line for an event that is not the end of a trial."""
    return one_line(_words(event, labels))


def format_whole_seconds(seconds: float) -> str:
    """Return a running time that does not flicker: whole seconds below a minute."""
    return f"{int(seconds)} s" if seconds < 60 else format_seconds(seconds)


def launch_words(launch: LaunchRecord, labels: Labels) -> str:
    """Return how a launch ended."""
    name = labels.configuration(launch.configuration)
    if launch.outcome == "measured":
        return f"{name}: done after {format_seconds(launch.total_s)}"
    return f"{name}: {words(launch.outcome)}{f': {launch.reason}' if launch.reason else ''}"


def _detail(event: Event, before: str) -> str:
    if isinstance(event, LaunchProgress):
        return one_line(event.text)
    if isinstance(event, PreparationProgress):
        return one_line(event.detail)
    return before if isinstance(event, Note) else ""


def _words(event: Event, labels: Labels) -> str:
    if isinstance(event, RunStarted):
        return _run_words(event)
    if isinstance(event, LaunchStarted):
        expected = f", about {format_seconds(event.expected_s)}" if event.expected_s else ""
        return f"launch {event.ordinal}/{event.launches}: {labels.configuration(event.configuration)}{expected}"
    if isinstance(event, LaunchReady):
        return f"ready after {format_seconds(event.ready_s)} ({event.proof})"
    if isinstance(event, TrialStarted):
        return f"trial {event.ordinal}/{event.trials}: {labels.cell(event.cell)}"
    if isinstance(event, PreparationProgress):
        return f"{event.step}: {event.detail}"
    if isinstance(event, LaunchEnded):
        return launch_words(event.launch, labels)
    return labels.cell(event.trial.cell) if isinstance(event, TrialDone) else event.text


def _run_words(event: RunStarted) -> str:
    most = "at most " if event.at_most else ""
    parts = [most + counted(event.launches, "launch", "launches"), counted(event.trials, "trial")]
    if event.done_trials:
        parts.append(f"{event.done_trials} done already")
    if event.predicted_s is not None:
        parts.append(f"{'' if event.at_most else 'about '}{format_seconds(event.predicted_s)}")
    return f"run {event.run_id}: {', '.join(parts)}"
