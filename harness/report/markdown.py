"""A view as Markdown: report.md, paste.md for a forum thread, and a night as the summary of a build."""

from __future__ import annotations

from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.report.models import AnyFigure, Column, ReportView, Row, TableView
from harness.report.night import night_view, with_sparks
from harness.report.night_result import NightResult
from harness.report.text import clean, escape_markdown, without_places

PASTE_LINES = 30
PASTE_ROWS = 8
PASTE_QUALIFICATIONS = 3


class Markdown(str):
    """Text that is Markdown already, and is not escaped again."""

    __slots__ = ()


def render_markdown(view: ReportView) -> str:
    """Return report.md. Figures are referred to as files beside it."""
    environment = _environment(escape_markdown)
    return environment.get_template("report.md.j2").render(view=view, figure_file=figure_file)


def render_paste(view: ReportView) -> str:
    """Return at most 30 lines that may be posted: no host, address, path or prompt."""
    environment = _environment(lambda text: escape_markdown(without_places(text)))
    table = paste_table(view)
    return environment.get_template("paste.md.j2").render(
        view=view,
        table=table,
        left_out=len(view.overview.rows) - len(table.rows),
        qualifications=view.night.reasons if view.night else view.headline.qualifications[:PASTE_QUALIFICATIONS],
    )


def render_night(result: NightResult) -> str:
    """Return a night as a build server shows it below its log. There is no picture: nothing can be attached."""
    environment = _environment(escape_markdown)
    night = night_view(result.mornings, result.baseline)
    return environment.get_template("night_summary.md.j2").render(result=result, night=night, series=with_sparks)


def paste_table(view: ReportView) -> TableView:
    """Return the overview, cut to the best rows and the reference."""
    rows = view.overview.rows
    if len(rows) > PASTE_ROWS:
        rows = (
            *rows[: PASTE_ROWS - 1],
            next((row for row in rows[PASTE_ROWS - 1 :] if row.reference), rows[PASTE_ROWS - 1]),
        )
    overview = view.overview
    return TableView(caption=overview.caption, columns=overview.columns, rows=rows, notes=overview.notes)


def figure_file(figure: AnyFigure) -> str:
    """Return the path of a figure within its report; a simulated one says so in its name."""
    return f"figures/{'simulated-' if figure.simulated else ''}{figure.name}.svg"


def markdown_table(table: TableView, escape: Callable[[str], str] = escape_markdown) -> Markdown:
    """Return the table in GitHub's form, groups as a first column, doubts as numbers in brackets."""
    grouped = bool(table.group_label)
    columns = ((Column(label=table.group_label, numeric=False),) if grouped else ()) + table.columns
    head = _row([escape(column.label) for column in columns])
    rule = "|" + "|".join("---:" if column.numeric else "---" for column in columns) + "|"
    return Markdown("\n".join([head, rule, *(_row(_values(row, grouped, escape)) for row in table.rows)]))


def code(text: str) -> Markdown:
    """Return the text as inline code, whatever backticks it holds."""
    plain = " ".join(clean(text).split())
    ticks = "`" * (_longest_run(plain) + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return Markdown(f"{ticks}{pad}{plain}{pad}{ticks}")


def code_block(lines: tuple[str, ...]) -> Markdown:
    """Return the lines as a fenced block that nothing inside can close."""
    plain = [clean(line).replace("\n", " ") for line in lines]
    fence = "`" * max(3, _longest_run("\n".join(plain)) + 1)
    return Markdown("\n".join([f"{fence}text", *plain, fence]))


def _environment(escape: Callable[[str], str]) -> Environment:
    def finalize(value: object) -> object:
        return value if isinstance(value, Markdown) else escape(str(value))

    environment = Environment(
        loader=PackageLoader("harness.report"),
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # this is not HTML: finalize escapes every expression for Markdown
    )
    environment.filters.update(
        table=lambda table: markdown_table(table, escape), code=code, code_block=code_block, link=Markdown
    )
    return environment


def _values(row: Row, grouped: bool, escape: Callable[[str], str]) -> list[str]:
    values = [escape(value) for value in row.values]
    if row.emphasis:
        values[0] = f"**{values[0]}**"
    values[-1] += "".join(f" [{number}]" for number in row.doubts)
    return [escape(row.group), *values] if grouped else values


def _row(values: list[str]) -> str:
    return f"| {' | '.join(values)} |"


def _longest_run(text: str) -> int:
    """The longest run of backticks."""
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
