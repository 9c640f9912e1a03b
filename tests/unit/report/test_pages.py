"""Markdown and HTML: whole, self-contained, and safe for whatever a name or a log holds."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.figures import figure_svg
from harness.report.html import render_html
from harness.report.markdown import code, code_block, render_markdown, render_paste
from harness.report.models import Column, FailureView, ReportView, Row, TableView
from harness.report.text import clean, escape_markdown, without_places
from tests.fakes.run_builder import RUN_ID

HOSTILE = "<script>alert(1)</script> | `x` *b* [l](http://h/) \x1b[31mred\x1b[0m\u202e $a$ ${b} {{ 7*7 }} \\ \n# head"
DRAWN = {name: "<svg ></svg>" for name in ("speed", "acceptance", "step", "timeline")}
VOID = frozenset({"meta", "br", "img", "link"})


class _Page(HTMLParser):
    """Collects what a browser would fetch or run, and whether tags are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _page(html: str) -> _Page:
    page = _Page()
    page.feed(html)
    page.close()
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def hostile(view: ReportView) -> ReportView:
    """The view with a hostile text wherever a user, an engine or a model may write."""
    rows = tuple(replace(row, values=(HOSTILE, *row.values[1:]), group=HOSTILE) for row in view.cells.rows)
    return replace(
        view,
        title=HOSTILE,
        cells=replace(view.cells, rows=rows),
        overview=replace(
            view.overview, rows=tuple(replace(row, values=(HOSTILE, *row.values[1:])) for row in view.overview.rows)
        ),
        failures=(
            FailureView(configuration=HOSTILE, outcome="died", reason=HOSTILE, log_tail=(HOSTILE, "```", "</pre>")),
        ),
        refusals=tuple(replace(one, configuration=HOSTILE, because=HOSTILE, where=HOSTILE) for one in view.refusals),
        doubts=tuple(replace(one, remedy=HOSTILE, title=HOSTILE) for one in view.doubts),
        notes=(HOSTILE,),
        public_command=HOSTILE,
    )


def test_the_page_needs_nothing_beside_it(view: ReportView) -> None:
    page = _page(render_html(view))

    assert "script" not in page.tags
    assert all(target.startswith("#") for target in page.fetched)
    assert "@import" not in render_html(view, DRAWN)
    assert page.tags.count("svg") == 4


def test_marks_in_the_page_lead_to_a_doubt(view: ReportView) -> None:
    html = render_html(view, DRAWN)

    targets = set(re.findall(r'href="#(doubt-\d+)"', html))
    assert targets == {f"doubt-{group.number}" for group in view.doubts}
    assert all(f'id="{target}"' in html for target in targets)


def test_hostile_text_stays_text_in_html(hostile: ReportView) -> None:
    html = render_html(hostile, DRAWN)

    assert "script" not in _page(html).tags
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert html.count("{{ 7*7 }}") == html.count("&lt;script&gt;")


def test_hostile_text_stays_text_in_markdown(hostile: ReportView) -> None:
    for text in (render_markdown(hostile), render_paste(hostile)):
        assert "\x1b" not in text
        outside_code = re.sub(r"(`{3,}).*?\n\1|(`+)[^\n]*?\2", "", text, flags=re.S)
        assert re.search(r"(?<!\\)<script>", outside_code) is None
        assert not any(line.startswith("# head") for line in text.splitlines())
        tables = [line for line in text.splitlines() if line.startswith("|")]
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in tables if "alert" in line}
        assert widths <= {len(re.findall(r"(?<!\\)\|", line)) for line in tables if "---" in line}


def test_a_fence_cannot_be_closed_from_inside(hostile: ReportView) -> None:
    block = code_block(("```", "````", "x"))

    assert block.splitlines()[0] == "`````text"
    assert block.splitlines()[-1] == "`````"
    assert code("a`b``c") == "```a`b``c```"


@given(st.text())
def test_escaped_markdown_is_one_line_without_active_characters(text: str) -> None:
    escaped = escape_markdown(text)

    assert "\n" not in escaped
    assert re.search(r"(?<!\\)(?:\\\\)*[|`*<\[]", escaped) is None


@given(st.text())
def test_clean_text_has_no_control_codes(text: str) -> None:
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", clean(text)) is None


def test_a_paste_is_short_and_names_no_place(view: ReportView) -> None:
    rows = tuple(Row(values=("k=4 at /home/me/models/x", "1", "2")) for _ in range(40))
    many = replace(
        view,
        overview=TableView(
            caption="",
            columns=(Column(label="configuration"), Column(label="a"), Column(label="b")),
            rows=rows,
            notes=("n",),
        ),
        headline=replace(view.headline, result="See http://10.0.0.7:8000/v1 and ~/runs/one.yaml at 192.168.1.2:80"),
    )
    text = render_paste(many)

    assert len(text.splitlines()) <= 30
    assert "32 more configurations" in text
    for secret in ("/home", "10.0.0.7", "192.168", "~/runs", "http"):
        assert secret not in text


def test_the_paste_of_a_run(view: ReportView) -> None:
    text = render_paste(view)

    assert len(text.splitlines()) <= 30
    assert "over 4 cells and 1 launch" in text
    assert "tiny-target" in text
    assert "/models" not in text
    assert f"`{view.sweep_hash}`" in text
    assert "`harness sweep laptop.yaml`" in text
    assert RUN_ID not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--set model=/srv/models/a", "--set model=a"),
        ("org/model stays, as do tokens/s and 1 / 2", "org/model stays, as do tokens/s and 1 / 2"),
        ("at ../x/y.yaml", "at y.yaml"),
        ("https://host:1/v1?key=secret end", "… end"),
    ],
)
def test_places_are_taken_out(text: str, expected: str) -> None:
    assert without_places(text) == expected


def test_figures_have_the_same_bytes_every_time_and_are_well_formed(view: ReportView) -> None:
    figure = view.figures[0]
    named = replace(
        figure,
        simulated=True,
        panels=tuple(replace(panel, title='<b> $x$ & "y"') for panel in figure.panels),
    )

    first, second = figure_svg(named), figure_svg(named)

    assert first == second
    texts = [
        "".join(element.itertext()) for element in ElementTree.fromstring(first).iter() if element.tag.endswith("text")
    ]
    assert '<b> $x$ & "y"' in texts
    assert texts.count("SIMULATED") == len(figure.panels)
    assert "date" not in first.lower()


def test_ids_of_figures_do_not_clash_in_one_page(view: ReportView) -> None:
    first, second = (figure_svg(figure) for figure in view.figures[:2])

    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (first, second)]
    assert not ids[0] & ids[1]
    for svg, known in zip((first, second), ids, strict=True):
        assert set(re.findall(r'href="#([^"]+)"', svg)) <= known


def test_long_names_stand_in_a_legend_once(view: ReportView) -> None:
    figure = view.figures[0]
    panels = tuple(
        replace(
            panel, lines=tuple(replace(line, label=f"{line.label}, draft_sample_method=greedy") for line in panel.lines)
        )
        for panel in figure.panels
    )

    svg = figure_svg(replace(figure, panels=panels))

    assert svg.count("1 stream, draft_sample_method=greedy</text>") == 1
    assert figure_svg(figure).count("1 stream</text>") == len(figure.panels)


def test_a_figure_without_data_is_refused(view: ReportView) -> None:
    with pytest.raises(ValueError, match="no cell"):
        figure_svg(replace(view.figures[0], absent_because="no cell has a decode rate"))
