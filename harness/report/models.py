"""What a report shows, as frozen text and figure data. Rendering decides nothing any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.records.cell import Configuration
from harness.records.verdict import Verdict
from harness.report.night_picture import NightsPicture

Standing = Literal["map", "measured", "nothing", "verdict"]
Tone = Literal["good", "bad", "doubt", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table. Where a screen has little room, ``detail`` columns are left out, then ``spare`` ones."""

    label: str
    numeric: bool = True
    detail: bool = False
    spare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row. ``doubts`` are numbers of the report's doubt list, shown as marks behind the last value."""

    values: tuple[str, ...]
    group: str = ""  # rows of one group stand together under this heading
    doubts: tuple[int, ...] = ()
    emphasis: bool = False  # the best of its group, or what the table's badge says
    reference: bool = False  # gains are measured against it
    void: bool = False  # nothing usable was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """A table with its caption. ``notes`` stand below it."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    group_label: str = ""  # what a group is, where groups must become a column
    notes: tuple[str, ...] = ()
    simulated: bool = False
    badge: str = "fastest"  # what an emphasised row is


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What to run next, and what it costs."""

    because: str
    command: str
    time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What was found, in one sentence, and how far it can be trusted."""

    standing: Standing  # map: one launch each, which is no verdict
    result: str
    qualifications: tuple[str, ...]
    next_step: NextStep | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtCase:
    """Where a doubt arose, and its figures."""

    where: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtGroup:
    """All doubts of one kind with one remedy. ``number`` is the mark in the tables."""

    number: int
    kind: str
    title: str
    meaning: str
    remedy: str
    void: bool
    cases: tuple[DoubtCase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """A launch that measured nothing, with the last lines of its log."""

    configuration: str
    outcome: str
    reason: str
    log_tail: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalView:
    """A configuration that was not launched."""

    configuration: str
    because: str
    source: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NullReason:
    """Why figures are missing, and in how many cells."""

    metric: str
    reason: str
    cells: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A line of the provenance list."""

    name: str
    value: str
    private: bool = False  # names the machine: never in what is pasted elsewhere
    code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What was measured at one k: every trial, and their median."""

    k: int
    median: float
    values: tuple[float, ...]
    doubtful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a figure. ``colour`` and ``dash`` are positions in the palette, equal where the meaning is equal."""

    label: str
    points: tuple[Point, ...]
    colour: int = 0
    dash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One set of axes. ``x_label`` counts whole numbers."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    y_limit: float | None = None
    factor: float = 1.0  # from SI to what the axis shows


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureView:
    """A figure as data. ``absent_because`` replaces a figure that has nothing to show."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    shared_y: bool = False
    simulated: bool = False
    absent_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A launch or a trial on the time axis."""

    begin_s: float  # since the run began, pauses left out
    end_s: float
    label: str = ""
    colour: int = 0
    faint: bool = False  # nothing of it is used
    marked: bool = False  # it has a doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Bars in one line."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One quantity of one node over time. A new segment begins behind each gap."""

    label: str
    segments: tuple[tuple[tuple[float, float], ...], ...]  # of (seconds, value)
    colour: int = 0
    marks: tuple[tuple[float, float], ...] = ()  # points at which the node throttled


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackPanel:
    """The same quantity of all nodes."""

    y_label: str
    tracks: tuple[Track, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineView:
    """The run over time: what was done, and below it how the nodes fared."""

    name: str
    title: str
    caption: str
    length_s: float
    lanes: tuple[Lane, ...]
    panels: tuple[TrackPanel, ...] = ()
    cuts_s: tuple[float, ...] = ()  # where a long pause was left out
    simulated: bool = False
    absent_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestRow:
    """An effect as a ratio minus 1, with its interval."""

    label: str
    estimate: float
    low: float
    high: float
    verdict: Verdict
    whole: bool = False  # of the whole workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestView:
    """Effects below one another, with the margin as a band."""

    name: str
    title: str
    caption: str
    rows: tuple[ForestRow, ...]
    shown: tuple[float, float]  # ratios minus 1 from left to right; a longer bar leaves the figure
    margin_ratio: float
    x_label: str
    simulated: bool = False
    absent_because: str | None = None


AnyFigure = FigureView | TimelineView | ForestView | NightsPicture


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """Base against candidate. The headline says the verdict."""

    verdict: Verdict
    same: bool
    cells: TableView
    cell_parts: TableView
    parts: TableView
    looks: TableView | None
    noise: TableView | None  # of an A/A
    effects: ForestView
    doubts: tuple[DoubtCase, ...]
    broken_limits: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedView:
    """A search: its finalists, its launches, and what is best where."""

    finalists: TableView | None  # None: nothing was worth confirming
    steps: TableView
    best_by_load: TableView
    depth_by_streams: TableView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NightView:
    """What a night of a regression run says of one configuration. Of the first, the headline says the verdict."""

    configuration: str
    badge: str  # the verdict as a word or two
    tone: Tone
    has_news: bool  # something moved, or nothing can be said
    sentence: str
    reasons: tuple[str, ...]  # what it comes from, and why to believe it or not
    differences: tuple[str, ...]  # of facts across the change: names nodes, so never in what is pasted elsewhere
    series: TableView
    sparks: tuple[str, ...]  # the last nights of each of them as bars, for where there is no picture
    beside: TableView | None  # what moved beside the series that gate; None where nothing did
    beside_words: str  # how many figures are looked at beside, "" for none
    notes: tuple[str, ...]
    baseline: tuple[Fact, ...]
    picture: NightsPicture
    watched: tuple[NightView, ...] = ()  # configurations that do not gate


@dataclass(frozen=True, slots=True, kw_only=True)
class BestConfiguration:
    """The configuration that a best.env is written for."""

    label: str
    configuration: Configuration
    standing: Standing
    env: str | None  # the content of best.env; None where it cannot be spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckView:
    """What a check of the site said of a configuration."""

    configuration: str
    result: str  # in one line, with the check's name
    failed: bool
    tail: tuple[str, ...]  # of its output, where it failed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """A report, headline first."""

    title: str
    sweep_hash: str
    public_command: str  # the run's command as it may be posted
    simulated: bool
    headline: Headline
    rig_line: str
    facts_line: str  # cells, trials, launches
    cells: TableView
    configurations: TableView
    launches: TableView
    overview: TableView  # configurations by loads, small enough to be pasted
    drafts: TableView | None  # what the engine says of its drafts per launch; None where it counts them per trial
    failures: tuple[FailureView, ...]
    refusals: tuple[RefusalView, ...]
    collapsed: tuple[RefusalView, ...]
    doubts: tuple[DoubtGroup, ...]
    null_reasons: tuple[NullReason, ...]
    notes: tuple[str, ...]
    provenance: tuple[Fact, ...]
    definitions: tuple[Fact, ...]
    figures: tuple[FigureView, ...]
    timeline: TimelineView
    best: BestConfiguration | None
    checks: tuple[CheckView, ...] = ()
    comparison: ComparisonView | None = None
    tuned: TunedView | None = None
    night: NightView | None = None

    @property
    def drawn(self) -> tuple[AnyFigure, ...]:
        """Every figure that has something to show."""
        compared = (self.comparison.effects,) if self.comparison else ()
        nights = (self.night.picture, *(one.picture for one in self.night.watched)) if self.night else ()
        every: tuple[AnyFigure, ...] = (*nights, *compared, *self.figures, self.timeline)
        return tuple(figure for figure in every if figure.absent_because is None)
