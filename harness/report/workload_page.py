"""What is in a trace, as one HTML file that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.report.workload_view import Section


def render_workload(title: str, sections: Sequence[Section]) -> str:
    """Return the page. Every text is escaped."""
    environment = Environment(
        loader=PackageLoader("harness.report"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("workload.html.j2").render(title=title, sections=sections)
