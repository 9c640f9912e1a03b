"""Figure data to SVG with matplotlib. The bytes are the same for the same data, so that a report can be compared."""

from __future__ import annotations

import io

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from harness.report.figure_style import COLOURS, DASHES, GRID, PAPER, QUIET, STYLE, WARNING, WIDTH_IN, mark_simulated
from harness.report.models import AnyFigure, Bar, FigureView, ForestView, Line, Panel, TimelineView, TrackPanel
from harness.report.night_figure import draw_nights
from harness.report.night_picture import NightsPicture

_PANEL_HEIGHT_IN = 3.6
_PER_ROW = 2
_MOST_TICKS = 12
_MOST_DIRECT_LABELS = 8
_LONGEST_DIRECT_LABEL = 18
_MOST_LEGEND_COLUMNS = 4
_LEGEND_ROW_IN = 0.2
_LABEL_GAP_PT = 11.5  # direct labels nearer than this are moved apart
_LANE_IN = 0.42
_TRACK_IN = 1.35
_LETTER_IN = 0.066  # of a bar's label
_FOREST_ROW_IN = 0.3
_VERDICT_COLOURS = {"better": "#009E73", "worse": WARNING, "no difference": "#0072B2", "cannot tell": QUIET}
_UNITS = ((7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))  # from a length on


def figure_svg(view: AnyFigure) -> str:
    """Return the figure as SVG text without XML prolog, ready to stand inside HTML or in a file.

    Raises:
        ValueError: the figure has nothing to show; ``view.absent_because`` says why.
    """
    if view.absent_because is not None:
        raise ValueError(view.absent_because)
    with mpl.rc_context(STYLE):
        figure = _figure(view)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return _prefixed(text[text.index("<svg") :], view.name)


def _figure(view: AnyFigure) -> Figure:
    if isinstance(view, TimelineView):
        return _draw_timeline(view)
    if isinstance(view, NightsPicture):
        return draw_nights(view)
    return _draw_forest(view) if isinstance(view, ForestView) else _draw(view)


def _draw_forest(view: ForestView) -> Figure:
    height = _FOREST_ROW_IN * len(view.rows) + 0.75
    label_in = min(4.0, 0.3 + _LETTER_IN * 1.08 * max(len(row.label) for row in view.rows))
    figure = Figure(figsize=(WIDTH_IN, height))
    figure.subplots_adjust(
        left=label_in / WIDTH_IN, right=1 - 0.15 / WIDTH_IN, top=1 - 0.1 / height, bottom=0.55 / height
    )
    axes = figure.subplots()
    margin = 100 * view.margin_ratio
    axes.axvspan(-margin, margin, color=GRID, alpha=0.7, linewidth=0)
    axes.axvline(0, color=QUIET, linewidth=0.9)
    for at, row in enumerate(view.rows):
        colour = _VERDICT_COLOURS[row.verdict]
        width = 2.6 if row.whole else 1.5
        axes.plot([100 * row.low, 100 * row.high], [at, at], color=colour, linewidth=width, solid_capstyle="butt")
        axes.plot(
            100 * row.estimate, at, marker="D" if row.whole else "o", color=colour, markersize=7 if row.whole else 5
        )
    axes.set_yticks(range(len(view.rows)), [row.label for row in view.rows])
    axes.set_ylim(len(view.rows) - 0.4, -0.6)
    axes.set_xlim(100 * view.shown[0], 100 * view.shown[1])
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(view.x_label)
    if view.simulated:
        mark_simulated(axes)
    return figure


def _draw(view: FigureView) -> Figure:
    columns = min(_PER_ROW, len(view.panels))
    rows = -(-len(view.panels) // columns)
    entries = _legend_entries(view) if _needs_legend(view) else {}
    legend_in = _LEGEND_ROW_IN * -(-len(entries) // _legend_columns(entries))
    height = _PANEL_HEIGHT_IN * rows + legend_in
    figure = Figure(figsize=(WIDTH_IN, height))
    # Margins are fixed: a layout engine takes a second for each figure, and moves the axes with the labels.
    figure.subplots_adjust(
        left=0.62 / WIDTH_IN,
        right=1 - 0.1 / WIDTH_IN,
        top=1 - 0.32 / height,
        bottom=(0.55 + legend_in) / height,
        wspace=0.17,
        hspace=0.32,
    )
    places = [axes for row in figure.subplots(rows, columns, squeeze=False) for axes in row]
    top = max((_highest(panel) for panel in view.panels), default=0.0)
    for axes, panel in zip(places, view.panels, strict=False):
        _draw_panel(axes, panel, view, top=top if view.shared_y else _highest(panel))
    for axes in places[len(view.panels) :]:
        axes.set_visible(False)
    if entries:
        _draw_legend(figure, entries)
    return figure


def _needs_legend(view: FigureView) -> bool:
    """Whether the names are too long, or too many, to stand at the ends of their lines."""
    most = max((len(panel.lines) for panel in view.panels), default=0)
    return most > _MOST_DIRECT_LABELS or max(map(_longest_label, view.panels), default=0) > _LONGEST_DIRECT_LABEL


def _legend_entries(view: FigureView) -> dict[str, Line]:
    return {line.label: line for panel in view.panels for line in panel.lines}


def _legend_columns(entries: dict[str, Line]) -> int:
    """As many as fit: a letter takes about 0.075 in, a line sample and its gaps 0.75 in."""
    longest = max(map(len, entries), default=0)
    return max(1, min(_MOST_LEGEND_COLUMNS, int(WIDTH_IN / (0.075 * longest + 0.75))))


def _draw_legend(figure: Figure, entries: dict[str, Line]) -> None:
    handles = [
        Line2D([], [], color=_colour(line), linestyle=_dash(line), linewidth=1.8, label=label)
        for label, line in entries.items()
    ]
    figure.legend(
        handles=handles, loc="lower left", ncols=_legend_columns(entries), frameon=False, fontsize=9, handlelength=3
    )


def _draw_panel(axes: Axes, panel: Panel, view: FigureView, *, top: float) -> None:
    for line in panel.lines:
        _draw_line(axes, line, panel.factor)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_ylim(0, panel.y_limit or top * 1.08 or 1)
    depths = sorted({point.k for one in view.panels for line in one.lines for point in line.points})
    first, last = (depths[0], depths[-1]) if depths else (0, 1)
    span = max(1, last - first)
    # Room on the right for the labels that stand at the ends of the lines.
    longest = 0 if _needs_legend(view) else max(map(_longest_label, view.panels))
    axes.set_xlim(first - 0.05 * span, last + (0.06 + 0.021 * longest) * span)
    if len(depths) <= _MOST_TICKS:
        axes.set_xticks(depths)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False, axis="x")
    if view.simulated:
        mark_simulated(axes)
    if not _needs_legend(view):
        _label_lines(axes, panel)


def _draw_line(axes: Axes, line: Line, factor: float) -> None:
    colour, dash = _colour(line), _dash(line)
    depths = [point.k for point in line.points]
    axes.plot(depths, [point.median * factor for point in line.points], color=colour, linestyle=dash, linewidth=1.8)
    dots = [(point.k, value * factor) for point in line.points for value in point.values]
    axes.scatter([k for k, _ in dots], [value for _, value in dots], s=16, color=colour, alpha=0.75, linewidths=0)
    rings = [point for point in line.points if point.doubtful]
    axes.scatter(
        [point.k for point in rings],
        [point.median * factor for point in rings],
        s=95,
        facecolors="none",
        edgecolors=colour,
        linewidths=1.1,
    )


def _label_lines(axes: Axes, panel: Panel) -> None:
    """Write each line's name at its end, pushed apart where the ends are close to one another."""
    ends = [(line.points[-1].k, line.points[-1].median * panel.factor, line) for line in panel.lines if line.points]
    points_per_pixel = 72.0 / axes.figure.dpi
    heights = [(axes.transData.transform((k, value))[1] * points_per_pixel, k, value, line) for k, value, line in ends]
    placed: list[tuple[float, float, float]] = []  # k, height and wished height of what stands already
    for height, k, value, line in sorted(heights, key=lambda entry: entry[0]):
        below = [used for other, used, _ in placed if abs(other - k) < 1.5]
        raised = max([height, *(used + _LABEL_GAP_PT for used in below)])
        placed.append((k, raised, height))
        axes.annotate(
            line.label,
            (k, value),
            xytext=(7, raised - height - 3.5),
            textcoords="offset points",
            color=_colour(line),
            fontsize=9,
            annotation_clip=False,
            bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
        )


def _highest(panel: Panel) -> float:
    return max(
        (value * panel.factor for line in panel.lines for point in line.points for value in point.values), default=0.0
    )


def _longest_label(panel: Panel) -> int:
    return max((len(line.label) for line in panel.lines), default=0)


def _colour(line: Line) -> str:
    return COLOURS[line.colour % len(COLOURS)]


def _dash(line: Line) -> tuple[float, tuple[float, ...]]:
    return DASHES[line.dash % len(DASHES)]


def _draw_timeline(view: TimelineView) -> Figure:
    heights = [_LANE_IN * len(view.lanes), *(_TRACK_IN for _ in view.panels)]
    height = sum(heights) + 0.75 + 0.12 * len(view.panels)
    figure = Figure(figsize=(WIDTH_IN, height))
    figure.subplots_adjust(
        left=0.82 / WIDTH_IN, right=1 - 0.1 / WIDTH_IN, top=1 - 0.15 / height, bottom=0.55 / height, hspace=0.1
    )
    rows = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    places = [row[0] for row in rows]
    factor, unit = next((factor, unit) for least, factor, unit in _UNITS if view.length_s >= least)
    _draw_lanes(places[0], view, factor)
    for axes, panel in zip(places[1:], view.panels, strict=True):
        _draw_tracks(axes, panel, factor)
    for axes in places:
        for cut_s in view.cuts_s:
            axes.axvline(cut_s / factor, color=QUIET, linewidth=0.9, linestyle=DASHES[1])
        if view.simulated:
            mark_simulated(axes)
    places[-1].set_xlim(0, max(view.length_s, 1.0) / factor)
    places[-1].set_xlabel(f"{unit} since the run began")
    return figure


def _draw_lanes(axes: Axes, view: TimelineView, factor: float) -> None:
    for row, lane in enumerate(view.lanes):
        for bar in lane.bars:
            colour = QUIET if bar.colour < 0 else COLOURS[bar.colour % len(COLOURS)]
            axes.barh(
                row,
                (bar.end_s - bar.begin_s) / factor,
                left=bar.begin_s / factor,
                height=0.7,
                color=colour,
                alpha=0.25 if bar.faint else 0.9,
                edgecolor=WARNING if bar.marked else PAPER,
                linewidth=1.2 if bar.marked else 0.6,
            )
            label = _bar_label(bar, view.length_s)
            if label:
                middle = (bar.begin_s + bar.end_s) / 2 / factor
                shade = "#262626" if bar.faint else "#ffffff"
                axes.text(middle, row, label, ha="center", va="center", fontsize=8, color=shade)
    axes.set_yticks(range(len(view.lanes)), [lane.label for lane in view.lanes])
    axes.set_ylim(len(view.lanes) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.tick_params(axis="x", labelbottom=not view.panels)


def _bar_label(bar: Bar, length_s: float) -> str:
    """The whole label, its number, or nothing, whichever fits."""
    room = (bar.end_s - bar.begin_s) / max(length_s, 1.0) * (WIDTH_IN - 1) / _LETTER_IN
    return next((text for text in (bar.label, bar.label.partition(":")[0]) if len(text) + 1 <= room), "")


def _draw_tracks(axes: Axes, panel: TrackPanel, factor: float) -> None:
    for track in panel.tracks:
        colour = COLOURS[track.colour % len(COLOURS)]
        for number, segment in enumerate(track.segments):
            seconds = [at_s / factor for at_s, _ in segment]
            values = [value for _, value in segment]
            label = track.label if number == 0 else None
            axes.plot(
                seconds, values, color=colour, linewidth=1.2, label=label, marker="." if len(segment) == 1 else ""
            )
        axes.scatter(
            [at_s / factor for at_s, _ in track.marks],
            [value for _, value in track.marks],
            s=22,
            facecolors="none",
            edgecolors=WARNING,
            linewidths=0.9,
        )
    axes.set_ylabel(panel.y_label, fontsize=9)
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right", ncols=len(panel.tracks), frameon=False, fontsize=9)


def _prefixed(svg: str, name: str) -> str:
    """Make ids unique to this figure: several figures stand in one page."""
    for mark in ('id="', 'xlink:href="#', "url(#", 'href="#'):
        svg = svg.replace(mark, f"{mark}{name}-")
    return svg.replace(f'xlink:href="#{name}-{name}-', f'xlink:href="#{name}-')
