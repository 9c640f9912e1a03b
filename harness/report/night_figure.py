"""Drawing the nights of a series: dots against the band of the baseline, changes as lines, tonight last and largest."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.report.figure_style import COLOURS, DASHES, GRID, INK, PAPER, QUIET, WARNING, WIDTH_IN, mark_simulated
from harness.report.night_picture import NightDot, NightPanel, NightsPicture

_FIRST_IN, _OTHER_IN = 2.3, 1.5  # the first series decides
_NIGHT = COLOURS[0]
_MARKS = {"worse": WARNING, "better": COLOURS[2], "accepted": QUIET}
_MARK_LETTER_IN = 0.075


def draw_nights(view: NightsPicture) -> Figure:
    """Return the figure: a panel for each series, over the same nights."""
    heights = [_FIRST_IN if number == 0 else _OTHER_IN for number in range(len(view.panels))]
    height = sum(heights) + 0.3 * len(heights) + 0.45
    figure = Figure(figsize=(WIDTH_IN, height))
    figure.subplots_adjust(
        left=0.72 / WIDTH_IN, right=1 - 0.75 / WIDTH_IN, top=1 - 0.3 / height, bottom=0.4 / height, hspace=0.26
    )
    rows = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    places = [row[0] for row in rows]
    days = [dot.day for panel in view.panels for dot in panel.dots]
    first, last = min(days, default=0), max(days, default=1)
    for axes, panel in zip(places, view.panels, strict=True):
        axes.set_xlim(first - 0.8, max(last, first + 1) + 0.8)
        _draw_panel(axes, panel, view)
    places[-1].set_xticks([day for day, _ in view.ticks], [label for _, label in view.ticks])
    return figure


def _draw_panel(axes: Axes, panel: NightPanel, view: NightsPicture) -> None:
    axes.set_ylim(*panel.shown)
    if panel.scatter is not None:
        axes.axhspan(-panel.scatter, panel.scatter, color=GRID, alpha=0.7, linewidth=0)
    axes.axhline(0, color=QUIET, linewidth=0.9)
    if panel.limit is not None:
        axes.axhline(panel.limit, color=WARNING, linewidth=0.9, linestyle=DASHES[1])
    _draw_marks(axes, panel)
    for dot in panel.dots:
        _draw_dot(axes, dot, panel)
    axes.set_title(panel.title)
    axes.set_ylabel(view.y_label, fontsize=9)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.0f} %" if value else "0"))
    axes.grid(visible=False, axis="x")
    if view.simulated:
        mark_simulated(axes)


def _draw_marks(axes: Axes, panel: NightPanel) -> None:
    left, right = axes.get_xlim()
    for mark in panel.marks:
        colour = _MARKS[mark.tone]
        axes.axvline(mark.day, color=colour, linewidth=1.1, linestyle=DASHES[2])
        room = (right - mark.day) / (right - left) * (WIDTH_IN - 1.5)
        fits = room > _MARK_LETTER_IN * len(mark.label) + 0.1
        axes.annotate(
            mark.label,
            (mark.day, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(4 if fits else -4, -2),
            textcoords="offset points",
            ha="left" if fits else "right",
            va="top",
            fontsize=9,
            color=colour,
            annotation_clip=False,
            bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.85, "pad": 0.8},
        )


def _draw_dot(axes: Axes, dot: NightDot, panel: NightPanel) -> None:
    colour = _colour(dot, panel)
    if dot.launches:
        axes.plot([dot.day] * 2, [min(dot.launches), max(dot.launches)], color=colour, linewidth=1.0, alpha=0.8)
        width = 260 if dot.tonight else 80
        axes.scatter([dot.day] * len(dot.launches), dot.launches, s=width, marker="_", color=colour, linewidths=1.3)
    axes.scatter(
        [dot.day],
        [dot.value],
        s=90 if dot.tonight else 26,
        marker="D" if dot.tonight else "o",
        facecolors=PAPER if dot.doubtful else colour,
        edgecolors=colour if dot.doubtful else PAPER,
        linewidths=1.2 if dot.doubtful or dot.tonight else 0.4,
        zorder=4 if dot.tonight else 3,
        clip_on=False,
    )
    if dot.tonight:
        axes.annotate(
            f"{dot.value:+.1f} %",
            (dot.day, dot.value),
            xytext=(12, -3.5),
            textcoords="offset points",
            fontsize=10,
            fontweight="bold",
            color=INK,
            annotation_clip=False,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.6},
        )


def _colour(dot: NightDot, panel: NightPanel) -> str:
    """A night below the limit warns, whoever judges it."""
    return WARNING if panel.limit is not None and dot.value < panel.limit else _NIGHT
