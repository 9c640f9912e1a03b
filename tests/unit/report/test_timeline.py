"""The timeline: where bars and samples stand, what a pause does to it, and what nodes say in the provenance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from inline_snapshot import snapshot

from harness.records.host import NodeFacts, NodeSample
from harness.records.journal import RunData
from harness.report.facts import run_facts
from harness.report.figures import figure_svg
from harness.report.html import render_html
from harness.report.markdown import render_markdown, render_paste
from harness.report.models import ReportView, TimelineView
from harness.report.view import report_view
from harness.report.write import write_report
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from tests.fakes.nodes import node_facts, node_sample
from tests.fakes.run_builder import RunShape, fake_data

SAMPLED = RunShape(
    tokens=(0, 2), contexts=(256,), concurrencies=(1,), with_failure=False, with_doubts=False, sampled=True
)


def view_of(data: RunData) -> ReportView:
    return report_view(run_facts(data, summarise_run(data.trials, data.launches, Limits(least_drafts=1))))


@pytest.fixture(scope="module")
def data() -> RunData:
    """Two launches on a pair; in the second one the worker gets hot."""
    return fake_data(SAMPLED)


@pytest.fixture(scope="module")
def pair(data: RunData) -> ReportView:
    return view_of(data)


def test_bars_stand_where_launches_and_trials_were(pair: ReportView, data: RunData) -> None:
    launches, trials = pair.timeline.lanes

    assert [bar.label for bar in launches.bars] == ["1: no speculation", "2: k=2"]
    assert launches.bars[0].begin_s == 0.0
    assert launches.bars[0].end_s == data.launches[0].total_s
    assert [round(bar.end_s - bar.begin_s) for bar in trials.bars] == [20, 20, 20, 20]
    assert [bar.marked for bar in trials.bars] == [False, False, True, True]
    assert not any(bar.faint for bar in (*launches.bars, *trials.bars))


def test_each_node_has_a_line_that_breaks_at_gaps(pair: ReportView) -> None:
    assert [panel.y_label for panel in pair.timeline.panels] == ["SM clock, MHz", "temperature, °C", "power, W"]
    clocks = pair.timeline.panels[0]
    assert [track.label for track in clocks.tracks] == ["head", "worker"]
    head, worker = clocks.tracks
    assert [len(segment) for segment in head.segments] == [8, 4, 3]  # one launch whole, one with a gap in it
    assert {value for segment in worker.segments for _, value in segment} == {2411.0, 1410.0}
    assert {value for _, value in worker.marks} == {1410.0}
    assert not head.marks
    assert "The nodes did not answer 1 time." in pair.timeline.caption


def test_a_hot_node_is_a_doubt_of_its_trials(pair: ReportView) -> None:
    (group,) = [group for group in pair.doubts if group.kind == "node_throttled"]

    assert {case.where.partition(" ")[0] for case in group.cases} == {"k=2"}
    assert all("worker: sw_thermal_slowdown" in case.evidence for case in group.cases)


def test_what_a_driver_does_not_report_is_said(data: RunData) -> None:
    launches = tuple(
        replace(launch, samples=tuple(replace(sample, power_w=None) for sample in launch.samples))
        for launch in data.launches
    )

    timeline = view_of(replace(data, launches=launches)).timeline

    assert [panel.y_label for panel in timeline.panels] == ["SM clock, MHz", "temperature, °C"]
    assert "Not reported by the nodes: power, W." in timeline.caption


def test_a_long_pause_is_cut_out(data: RunData) -> None:
    first, second = data.launches
    later = replace(
        second,
        started_at="2026-12-01T09:00:00+00:00",
        samples=(node_sample("head", "2026-12-01T09:00:30+00:00"), node_sample("head", "2026-12-01T09:00:35+00:00")),
    )
    trials = tuple(trial for trial in data.trials if trial.launch_id == first.launch_id)

    timeline = view_of(replace(data, launches=(first, later), trials=trials)).timeline

    launches = timeline.lanes[0].bars
    assert launches[1].begin_s == pytest.approx((first.total_s or 0) + 60)
    assert timeline.cuts_s == (pytest.approx((first.total_s or 0) + 60),)
    assert timeline.length_s == pytest.approx(launches[1].end_s)
    segment = timeline.panels[0].tracks[0].segments[-1]
    assert [at_s for at_s, _ in segment] == [pytest.approx(launches[1].begin_s + 30 + more) for more in (0, 5)]
    assert "A dashed line is a pause that was left out." in timeline.caption


def test_many_samples_keep_their_extremes(data: RunData) -> None:
    first = data.launches[0]
    many = [
        node_sample("head", f"2026-11-30T13:{30 + index // 60:02d}:{index % 60:02d}+00:00", sm_clock_mhz=2400.0)
        for index in range(1700)
    ]
    many[777] = replace(many[777], sm_clock_mhz=300.0)

    timeline = view_of(replace(data, launches=(replace(first, samples=tuple(many)),))).timeline

    (segment,) = timeline.panels[0].tracks[0].segments
    assert len(segment) <= 600
    assert min(value for _, value in segment) == 300.0
    assert [at_s for at_s, _ in segment] == sorted(at_s for at_s, _ in segment)


def test_without_samples_there_are_bars_alone(view: ReportView) -> None:
    assert view.timeline.absent_because is None
    assert view.timeline.panels == ()
    assert len(view.timeline.lanes[0].bars) == 7
    assert [bar.faint for bar in view.timeline.lanes[0].bars][-1]  # it failed


def test_the_drawing_is_the_same_every_time_and_names_what_it_shows(pair: ReportView) -> None:
    first, second = figure_svg(pair.timeline), figure_svg(pair.timeline)

    assert first == second
    said = {"".join(each.itertext()) for each in ElementTree.fromstring(first).iter() if each.tag.endswith("text")}
    assert {"launches", "trials", "head", "worker", "SM clock, MHz", "power, W", "seconds since the run began"} <= said
    assert "SIMULATED" not in said


def test_a_simulated_timeline_says_so(pair: ReportView) -> None:
    assert figure_svg(replace(pair.timeline, simulated=True)).count(">SIMULATED</text>") == 4


def test_pages_hold_the_timeline_and_the_nodes(pair: ReportView, tmp_path: Path) -> None:
    drawn = {figure.name: "<svg ></svg>" for figure in pair.figures} | {"timeline": "<svg ></svg>"}
    page, text = render_html(pair, drawn), render_markdown(pair)

    assert page.index("<h2>Launches</h2>") < page.index('aria-label="The run over time"') < page.index("Every launch")
    assert "![The run over time](figures/timeline.svg)" in text
    for shown in (page, text):
        assert "head, GPU" in shown and "NVIDIA GB10, driver 580.95.05" in shown
    paths = write_report(pair, tmp_path / "report")
    assert tmp_path / "report" / "figures" / "timeline.svg" in paths.figures


def test_a_run_in_which_nothing_lasted_has_no_timeline(data: RunData) -> None:
    nothing = view_of(replace(data, launches=(), trials=()))

    assert nothing.timeline.absent_because == "no launch has lasted"
    assert "The run over time" not in render_markdown(nothing)


def facts_about(data: RunData, *nodes: tuple[NodeFacts, ...]) -> dict[str, str]:
    launches = tuple(replace(launch, nodes=of) for launch, of in zip(data.launches, nodes, strict=True))
    view = view_of(replace(data, launches=launches))
    return {fact.name: fact.value for fact in view.provenance if fact.name.startswith(("head", "worker"))}


def test_the_provenance_names_what_each_node_was(data: RunData) -> None:
    at = data.launches[0].started_at
    later = node_facts(
        "head", at, driver_version="580.126.01", temperature_c=55.0, memory_available_bytes=117 * 1024**3
    )

    assert facts_about(data, (node_facts("head", at),), (later,)) == snapshot(
        {
            "head, GPU": "NVIDIA GB10, driver 580.95.05, then 580.126.01, VBIOS 9A.0B.14.00.09",
            "head, system": "firmware 5.36_0ACUM018, kernel 6.11.0-1016-nvidia, up for 26 h",
            "head, before launches": "41 °C – 55 °C, 4.70 W, 208 MHz, memory available 113 GiB – 117 GiB, no swap used",
            "head, images": "registry.example/engine:0.1.1 sha256:0123456789ab",
            "head, not known": "power limit: nvidia-smi says [N/A]",
        }
    )


def test_a_node_that_never_answered_is_said_to_be_unknown(data: RunData) -> None:
    silent = NodeFacts(
        node="worker",
        at=data.launches[0].started_at,
        null_reasons=dict.fromkeys(("driver_version", "power_w", "images"), "ssh to spark-b failed: No route to host"),
    )

    assert facts_about(data, (silent,), (silent,)) == {
        "worker, not known": "driver, power, images: ssh to spark-b failed: No route to host"
    }


def test_what_is_pasted_elsewhere_holds_nothing_of_the_nodes(pair: ReportView) -> None:
    assert "spark-a" not in render_paste(pair)
    assert "6.11.0" not in render_paste(pair)


def test_a_sample_between_nodes_does_not_break_the_other_ones_line(data: RunData) -> None:
    first = data.launches[0]
    gap = NodeSample(node="worker", at=first.samples[2].at, gap="no reading for 20 s")
    samples = (*first.samples[:3], gap, *first.samples[3:])

    timeline: TimelineView = view_of(replace(data, launches=(replace(first, samples=samples),))).timeline

    head, worker = timeline.panels[0].tracks
    assert [len(segment) for segment in head.segments] == [8]
    assert len(worker.segments) == 2
