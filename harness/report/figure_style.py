"""How every figure looks: palette, type, and the mark of a simulated run."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from harness.records.manifest import SIMULATED_MARK

INK, QUIET, GRID = "#262626", "#6e6e6e", "#dedede"  # the page replaces these three by its own
WARNING = "#D55E00"
# Okabe and Ito's palette, which stays distinct under colour blindness; the yellow is left out on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4D4D4D")
PAPER = "#fefefe"
DASHES: tuple[tuple[float, tuple[float, ...]], ...] = (
    (0.0, ()),  # solid
    (0.0, (5.0, 2.0)),
    (0.0, (1.5, 1.5)),
    (0.0, (6.0, 2.0, 1.5, 2.0)),
)
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "harness",  # else the ids inside are random
    "svg.fonttype": "none",  # text stays text: it can be read, searched, and is small
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.color": QUIET,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "path.simplify": False,
    "text.parse_math": False,  # names come from users: a dollar sign is one
}
WIDTH_IN = 10.4


def mark_simulated(axes: Axes) -> None:
    """Write it across the axes."""
    axes.text(
        0.5,
        0.5,
        SIMULATED_MARK,
        transform=axes.transAxes,
        ha="center",
        va="center",
        fontsize=26,
        color="#b00020",
        alpha=0.16,
        rotation=18,
        fontweight="bold",
    )
