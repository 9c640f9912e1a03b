"""A view as one HTML file that needs nothing beside it: style and figures are inside, and there is no script."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.report.figures import figure_svg
from harness.report.models import AnyFigure, ReportView, Row
from harness.report.text import clean


def render_html(view: ReportView, drawn: Mapping[str, str] | None = None) -> str:
    """Return the page. Every text is escaped; figures come as inline SVG.

    Args:
        view: what it says.
        drawn: SVG by figure name, where it is drawn already; the rest is drawn here.
    """
    svgs = drawn or {}

    def inline(figure: AnyFigure) -> Markup:
        return _inline_svg(svgs.get(figure.name) or figure_svg(figure), figure.title)

    environment = Environment(
        loader=PackageLoader("harness.report"),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_without_control_codes,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["groupby_in_order"] = _groups
    return environment.get_template("report.html.j2").render(view=view, svg=inline)


def _groups(rows: tuple[Row, ...]) -> list[dict[str, object]]:
    """Rows under their headings, in the order that the view gave them."""
    return [{"name": name, "rows": list(same)} for name, same in groupby(rows, key=lambda row: row.group)]


def _without_control_codes(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _inline_svg(svg: str, title: str) -> Markup:
    """The figure in the page's own colours, so that it follows a dark page."""
    for fixed, variable in _PAGE_COLOURS.items():
        svg = svg.replace(fixed, f"var({variable}, {fixed})")
    label = Markup('role="img" aria-label="{}"').format(title)
    return Markup(svg.replace("<svg ", f"<svg {label} ", 1))  # figures.py escapes its text


_PAGE_COLOURS = {
    "#fefefe": "--paper",
    "#262626": "--ink",
    "#6e6e6e": "--quiet",
    "#dedede": "--line",
    "#0072b2": "--blue",
    "#4d4d4d": "--grey",
}
