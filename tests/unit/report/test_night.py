"""What a report says of a night: verdict, why to believe it, the nights before it, and nothing that breaks a page."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from harness.records.nightly import Baseline
from harness.records.plan import PlannedNightly
from harness.report.facts import NightFacts
from harness.report.html import render_html
from harness.report.markdown import render_markdown, render_paste
from harness.report.models import NextStep, NightView, ReportView
from harness.report.night import night_view, with_sparks
from harness.report.night_words import belief, night_line
from harness.report.terminal import print_result
from harness.report.view import report_view
from harness.report.write import write_report
from harness.stats.changepoint import Change
from harness.stats.gate import FLOOR_RATIO
from harness.stats.morning import Morning
from harness.stats.nights import judge_night
from tests.fakes.run_builder import RunShape, fake_facts
from tests.unit.report import night_build
from tests.unit.report.night_build import accepted, doubtful, fine, history, night, regressed, unaccepted

HOSTILE = (
    "</script><script>alert(1)</script> `x` | *b* [l](http://h/) \x1b[31mred\x1b[0m\u202e \" ' & {{ 7*7 }} \n# head"
)
SHAPE = RunShape(tokens=(4,), contexts=(256,), repeats=1, with_failure=False, with_refusal=False)
BASELINE = accepted(history(14))


def view_of(morning: Morning, baseline: Baseline | None = BASELINE, *watched: tuple[str, Morning]) -> NightView:
    view = night_view((("four (k=4)", morning), *watched), baseline)
    assert view is not None
    return view


def report_of(morning: Morning, *watched: tuple[str, Morning], baseline: Baseline | None = BASELINE) -> ReportView:
    facts = fake_facts(replace(SHAPE, simulated=morning.night.simulated))
    night = NightFacts(mornings=(("four (k=4)", morning), *watched), baseline=baseline)
    return report_view(replace(facts, night=night))


def on_screen(view: ReportView, width: int = 140) -> str:
    console = Console(width=width, record=True, force_terminal=True, file=Path("/dev/null").open("w"), markup=False)  # noqa: SIM115
    print_result(view, console)
    console.file.close()
    return console.export_text()


class _Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def test_a_night_is_the_headline_with_its_cause_and_what_differs() -> None:
    view = report_of(regressed())

    assert view.headline.result.startswith("Regressed since 2026-11-25: speed -6.1 %")
    assert any("clocks, drivers, kernels" in line for line in view.headline.qualifications)
    assert "What differs across the change: spark-1 driver: 580.95 → 590.12" in view.headline.qualifications
    assert view.best is None
    assert report_view(fake_facts(SHAPE)).night is None


def test_what_may_be_posted_names_no_node() -> None:
    text = render_paste(report_of(regressed()))

    assert "Regressed since 2026-11-25" in text
    assert "both launches of this night are below the limit" in text
    assert "spark-1" not in text


def test_the_series_stand_in_a_table_as_they_are_measured_with_their_limits() -> None:
    table = view_of(regressed()).series

    rows = {row.values[0]: row.values[1:] for row in table.rows}
    assert list(rows) == ["speed", "tokens per step", "steps per second"]
    assert rows["speed"] == ("2.46 s", "2.30 s", "-6.4 %", "-5.0 %", "2026-11-25", "gate and change point -6.1 %")
    assert rows["tokens per step"][2:] == ("+0.2 %", "-8.0 %", "–", "nothing moved")
    assert any("speed -6.8 % and -6.0 %" in note for note in table.notes)


def test_a_figure_that_is_missing_is_no_zero() -> None:
    tonight = night(40)
    morning = judge_night(replace(tonight, figures=tonight.figures | {"step_s": ()}), history(40), BASELINE)

    row = view_of(morning).series.rows[2]

    assert row.values == (
        "steps per second",
        "–",
        "24.3",
        "–",
        f"-{FLOOR_RATIO['step_s']:.1%}".replace("%", " %"),
        "–",
        "not measured",
    )
    assert row.void
    assert view_of(morning).badge.endswith("Doubtful, not judged")


def test_the_baseline_is_named_with_its_author_reason_and_date() -> None:
    facts = {fact.name: fact.value for fact in view_of(fine()).baseline}

    assert facts["baseline"] == "shipped: 13 nights, accepted 2026-11-06 by operator: as shipped"
    assert facts["history"].startswith("37 nights")
    assert facts["doubtful nights"].startswith("3,")
    assert view_of(unaccepted(), None).baseline[-1].value == "none is accepted: only the history judges"
    assert "does not judge" in view_of(unaccepted(), BASELINE).baseline[-1].value


def test_what_moved_beside_is_named_and_the_rest_is_counted() -> None:
    moved, quiet = view_of(regressed()), view_of(fine())

    assert moved.beside is not None
    assert [row.values[:2] for row in moved.beside.rows] == [("step, streams x time / drafts", "code · 1K × 4 · cold")]
    assert moved.beside.rows[0].values[5] == "worse"
    assert quiet.beside is None
    assert quiet.beside_words == "Beside them 5 figures of cells and boots were looked at: none moved."
    assert (
        "cannot be told (3 earlier nights measured it, 5 are needed)"
        in view_of(judge_night(night(3), history(3), None)).beside_words
    )


def test_the_picture_shows_every_night_and_where_it_changed() -> None:
    speed, tokens, _ = view_of(regressed()).picture.panels

    assert [dot.tonight for dot in speed.dots].index(True) == len(speed.dots) - 1 == 39
    assert [number for number, dot in enumerate(speed.dots) if dot.doubtful] == [8, 19, 30]
    assert [number for number, dot in enumerate(speed.dots) if dot.launches] == [33, 39]
    assert [(mark.label, mark.tone, mark.day) for mark in speed.marks] == [("2026-11-25: -6.1 %", "worse", 32.5)]
    assert tokens.marks == ()
    assert speed.limit == pytest.approx(-5.0)
    assert all(speed.shown[0] < dot.value < speed.shown[1] for dot in speed.dots)


def test_without_a_baseline_nights_are_held_against_their_median() -> None:
    picture = view_of(unaccepted(), None).picture

    assert picture.y_label == "vs their median"
    assert [panel.limit for panel in picture.panels] == [None] * 3
    assert "dashed" not in picture.caption
    assert sorted(dot.value for dot in picture.panels[0].dots if not dot.doubtful)[6 - 1] == pytest.approx(0, abs=0.5)


def test_an_accepted_change_is_marked_as_one() -> None:
    before = history(39, step_at=20)
    later = replace(BASELINE, run_ids=tuple(one.run_id for one in before[25:]))
    morning = judge_night(night(39, moved=night_build.STEP), before, later)

    marks = [mark for panel in view_of(morning).picture.panels for mark in panel.marks]

    assert {mark.tone for mark in marks} == {"accepted"}
    assert all(mark.label.endswith("(accepted)") for mark in marks)


def test_a_long_history_is_cut_and_says_so() -> None:
    nights = [night(number) for number in range(120)]
    picture = view_of(judge_night(night(120), nights, accepted(nights))).picture

    assert {len(panel.dots) for panel in picture.panels} == {90}
    assert "31 older nights are not shown" in picture.caption
    assert 3 <= len(picture.ticks) <= 9
    assert picture.ticks[0][0] == 0


def test_a_first_night_has_no_picture_and_says_why() -> None:
    view = view_of(judge_night(night(0), [], None), None)

    assert view.picture.absent_because == "this series has fewer than two nights"
    assert with_sparks(view) == view.series
    assert "Not drawn: this series has fewer than two nights" in render_html(report_of(judge_night(night(0), [], None)))


def test_bars_of_text_stand_for_nights_where_nothing_can_be_drawn() -> None:
    view = view_of(regressed())
    bars = view.sparks[0]

    assert len(bars) == 30
    assert bars.count("·") == 2
    assert set(bars[-7:]) <= set("▁▂")
    assert with_sparks(view).rows[0].values[-1] == bars


def test_a_drawing_is_inline_and_simulated_ones_say_so(tmp_path: Path) -> None:
    view = report_of(regressed(simulated=True), ("k=0", unaccepted()))
    html = render_html(view)

    names = [figure.name for figure in view.drawn]
    assert names[:2] == ["nights", "nights-1"]
    assert html.count("2026-11-25: -6.1 %</text>") == 1
    drawn = html[html.index("The night") :]
    assert drawn.count("SIMULATED</text>") >= 3
    paths = write_report(view, tmp_path / "report")
    assert "simulated-nights.svg" in {path.name for path in paths.figures}


def test_watched_configurations_stand_below_and_are_news_only_where_they_moved() -> None:
    quiet = report_of(fine(), ("k=0", unaccepted()))
    news = report_of(fine(), ("k=0", regressed()))

    assert not [line for line in quiet.headline.qualifications if "Watched" in line]
    assert any(line.startswith("Watched, does not gate: k=0: Regressed") for line in news.headline.qualifications)
    assert "k=0 (watched, does not gate)" in render_markdown(quiet)
    assert "watched, does not gate" in render_html(quiet)
    assert "k=0 (watched, does not gate)" in on_screen(quiet)
    assert night_view(()) is None


def test_the_terminal_shows_the_nights_and_ends_with_the_verdict() -> None:
    text = on_screen(report_of(regressed()))

    assert "last 30 nights" in text
    assert "baseline: shipped: 13 nights" in text
    assert text.index("speed ") < text.index("Regressed since 2026-11-25")
    assert all(len(line) <= 80 for line in on_screen(report_of(fine()), width=80).splitlines())


def test_why_to_believe_it_is_said_for_each_kind_of_night() -> None:
    few = history(6)  # too few for a change point
    early = accepted(few)
    by_gate = judge_night(night(6, moved=math.log(0.8), launches=2), few, early)
    alone = judge_night(night(6, moved=math.log(0.8)), few, early)
    better = judge_night(night(6, moved=math.log(1.2), launches=2), few, early)
    tonight = night(6, launches=2)
    apart = judge_night(replace(tonight, figures=tonight.figures | {"seconds": (-0.95, -0.83)}), few, early)

    assert "p < 1e-9; both launches of this night are below the limit (-5.0 %)" in belief(regressed())
    assert belief(by_gate) == "both launches of this night are below the limit (-5.0 %)"
    assert alone.verdict == "doubtful"
    assert belief(better) == "both launches of this night are above the limit (+5.3 %)"
    assert apart.verdict == "doubtful"
    assert re.search(r"speed -\d+\.\d % and [+-]\d+\.\d %", belief(apart))
    assert belief(fine()) == ""


def asked_next(morning: Morning, *command: str) -> NextStep | None:
    facts = fake_facts(SHAPE)
    manifest = replace(facts.manifest, run_id=morning.night.run_id, command=("harness", "nightly", "x.yaml", *command))
    plan = replace(facts.plan, nightly=PlannedNightly(gate_id="g", watched_ids=(), baseline="small"))
    night = NightFacts(mornings=(("k=4", morning),), baseline=BASELINE)
    return report_view(replace(facts, manifest=manifest, plan=plan, night=night)).headline.next_step


def test_what_waits_for_a_decision_comes_with_its_command() -> None:
    accept, begin = asked_next(regressed()), asked_next(unaccepted(), "--root", "a b")

    assert accept is not None
    assert accept.command == ("harness baseline accept 20260039-nightly --name small --since 2026-11-25 --reason WHY")
    assert begin is not None
    assert begin.command == "harness baseline accept 20260012-nightly --name small --reason WHY --root 'a b'"
    assert "12 nights" in begin.because
    assert asked_next(fine()) is None
    assert asked_next(doubtful()) is None
    assert asked_next(judge_night(night(2), history(2), None)) is None


def test_a_drift_is_called_one() -> None:
    change = Change(index=20, log_ratio=-0.1, low=-0.12, high=-0.08, p=1e-5, shape="drift", per_night=-0.005)
    morning = regressed()
    figures = tuple(replace(one, change=change if one.change else None) for one in morning.figures)
    marks = tuple(replace(one, change=change) for one in morning.changes)
    drifting = replace(morning, figures=figures, changes=marks)

    assert view_of(drifting).picture.panels[0].marks[0].label == "drift from 2026-11-25: -9.5 %"
    assert "a change point of the nights, p = 1e-05" in belief(drifting)


def line_of(morning: Morning, exit_code: int = 0, **more: str | None) -> str:
    return night_line("laptop-nightly", (("k=4", morning),), exit_code, **more)


def test_the_one_line_of_each_kind_of_night() -> None:
    assert line_of(fine(), report="reports/x") == (
        "laptop-nightly 2026-12-02: fine · speed +1.1 % · tokens per step +0.7 % · steps per second +1.1 % · "
        "37 earlier nights · report reports/x"
    )
    said = line_of(regressed(), 1)
    assert said.startswith("laptop-nightly 2026-12-01: regressed since 2026-11-25: speed -6.1 % (-6.7 % … -5.6 %)")
    assert "step time moved and acceptance did not" in said
    assert "both launches of this night are below the limit" in said
    assert said.endswith("· 36 earlier nights · exit 1")
    assert "canary moved; it is not judged" in line_of(doubtful(), 4)
    assert "no baseline · measured; no baseline is accepted yet" in line_of(unaccepted())
    assert line_of(fine(simulated=True)).endswith("SIMULATED")


def test_a_night_that_could_not_run_says_why_on_one_line() -> None:
    said = night_line("small", (), 3, date="2026-12-01", reason="port 8000 is taken\n  Stop what listens there.")

    assert said == "small 2026-12-01: could not run · port 8000 is taken Stop what listens there. · exit 3"


def test_hostile_text_stays_text_everywhere() -> None:
    tonight = regressed()
    morning = replace(tonight, sentence=HOSTILE, cause=HOSTILE, differences=(HOSTILE,), notes=(HOSTILE,))
    view = report_of(morning, (HOSTILE, morning), baseline=replace(BASELINE, name=HOSTILE, reason=HOSTILE))
    html, markdown, screen = render_html(view), render_markdown(view), on_screen(view)

    assert "script" not in _Tags(html).tags
    assert "&lt;script&gt;alert(1)" in html
    assert re.search(r"(?<!\\)<script>", re.sub(r"(`+)[^\n]*?\1", "", markdown)) is None
    assert not any(line.startswith("# head") for line in markdown.splitlines())
    assert "49" not in html.replace("{{ 7*7 }}", "")[: html.index("<figure>")]
    for text in (html, markdown, screen, line_of(morning)):
        assert "\x1b" not in text
        assert "\u202e" not in text
