"""Tables, doubts, failures and provenance of a report, without pixels."""

from __future__ import annotations

from dataclasses import replace

from harness.report.models import ReportView, TableView
from harness.report.view import report_view
from tests.fakes.run_builder import RunShape, fake_facts


def _column(table: TableView, label: str) -> list[str]:
    index = [column.label for column in table.columns].index(label)
    return [row.values[index] for row in table.rows]


def test_cells_stand_by_load_and_then_by_k(view: ReportView) -> None:
    groups = list(dict.fromkeys(row.group for row in view.cells.rows))

    assert groups == [
        "256 tokens · 1 stream",
        "256 tokens · 4 streams",
        "1K tokens · 1 stream",
        "1K tokens · 4 streams",
    ]
    assert _column(view.cells, "configuration") == ["no speculation", "k=1", "k=2", "k=4", "k=6", "k=10"] * 4


def test_exactly_one_cell_of_each_load_is_the_fastest(view: ReportView) -> None:
    fastest = [row.group for row in view.cells.rows if row.emphasis]

    assert sorted(fastest) == sorted({row.group for row in view.cells.rows})


def test_a_missing_figure_is_a_dash_and_has_its_reason(view: ReportView) -> None:
    plain = [row for row in view.cells.rows if row.values[0] == "no speculation"]
    index = [column.label for column in view.cells.columns].index("tokens/step")

    assert {row.values[index] for row in plain} == {"–"}
    assert ("no speculation", "4 cells") in {(null.reason, null.cells) for null in view.null_reasons}


def test_marks_lead_to_the_doubts_of_that_cell(view: ReportView) -> None:
    by_number = {group.number: group for group in view.doubts}

    assert [group.number for group in view.doubts] == list(range(1, len(view.doubts) + 1))
    assert {group.kind for group in view.doubts} == {"jit_in_window", "canary_moved", "cold_cache_hits"}
    for row in view.cells.rows:
        kinds = {by_number[number].kind for number in row.doubts}
        assert ("canary_moved" in kinds) == (row.values[0] == "k=6")
        assert row.void == ("jit_in_window" in kinds)
    assert all(group.remedy and group.cases for group in view.doubts)
    assert view.doubts[0].void


def test_a_configuration_that_lacks_a_cell_is_not_ranked(view: ReportView) -> None:
    last = view.configurations.rows[-1]

    assert last.values[0] == "k=10"
    assert last.values[1] == "–"
    assert "2 (2 missing)" in last.values
    assert [row.values[0] for row in view.configurations.rows if row.emphasis] == ["k=4"]


def test_a_failed_launch_shows_reason_and_log(view: ReportView) -> None:
    (failure,) = view.failures

    assert failure.configuration == "k=14"
    assert failure.outcome == "failed to boot"
    assert "exit code 1" in failure.reason
    assert "12 trained positions" in failure.log_tail[-1]
    assert _column(view.launches, "outcome")[-1] == "failed to boot"


def test_what_was_not_launched_has_its_reason(view: ReportView) -> None:
    (refusal,) = view.refusals
    (same,) = view.collapsed

    assert refusal.configuration == "k=32"
    assert refusal.where == "sweeps/laptop.yaml:9:36"
    assert same.configuration == "draft_sample_method=greedy, num_speculative_tokens=0 is the server of no speculation"


def test_the_rig_line_names_no_host_and_no_path(view: ReportView) -> None:
    assert view.rig_line == "AMD EPYC 9554, 2 cores · 16.0 GiB · engine 0.32.0 · tiny-target · recipe vllm-cpu-tiny"


def test_other_knobs_are_named_and_drawn_apart() -> None:
    shape = RunShape(
        tokens=(0, 2),
        contexts=(256,),
        concurrencies=(1,),
        repeats=1,
        extra_knobs=({"draft_sample_method": "greedy"}, {"draft_sample_method": "probabilistic"}),
        with_failure=False,
    )

    view = report_view(fake_facts(shape))

    assert "k=2, draft_sample_method=greedy" in _column(view.cells, "configuration")
    (panel,) = view.figures[0].panels
    assert [(line.colour, line.dash) for line in panel.lines] == [(0, 0), (0, 1)]
    assert {line.label for line in panel.lines} == {
        "1 stream, draft_sample_method=greedy",
        "1 stream, draft_sample_method=probabilistic",
    }


def test_figures_hold_every_trial_and_the_median(view: ReportView) -> None:
    speed, acceptance, step = view.figures

    assert [panel.title for panel in speed.panels] == ["256 tokens", "1K tokens"]
    (first, *_) = speed.panels[0].lines[0].points
    assert first.k == 0
    assert len(first.values) == 2
    assert min(first.values) <= first.median <= max(first.values)
    assert [len(line.points) for line in acceptance.panels[0].lines] == [1, 2, 4, 6, 10]
    assert [panel.title for panel in step.panels] == ["What a step brings", "What a step costs"]
    assert {point.median for line in step.panels[0].lines for point in line.points if point.k == 0} == {1.0}


def test_without_speculation_the_figures_say_why_they_are_missing() -> None:
    view = report_view(fake_facts(RunShape(tokens=(0,), contexts=(256,), repeats=1, with_failure=False)))

    assert view.figures[1].absent_because == "no cell has acceptance by position (no speculation)"


def test_best_env_takes_the_option_that_was_launched(view: ReportView) -> None:
    assert view.best is not None
    assert view.best.env is not None
    assert view.best.env.splitlines()[-1] == (
        """SPECULATIVE_CONFIG='{"method": "draft_model", "num_speculative_tokens": 4}'"""
    )


def test_best_env_takes_a_recipes_own_names() -> None:
    facts = fake_facts(RunShape(tokens=(0, 4), contexts=(256,), repeats=1, with_failure=False))

    view = report_view(facts, variables=lambda best: {"MTP_NUM_TOKENS": str(best.num_speculative_tokens), "B": "a b"})

    assert view.best is not None
    assert view.best.env is not None
    assert view.best.env.splitlines()[-2:] == ["MTP_NUM_TOKENS=4", "B='a b'"]


def test_a_simulated_run_marks_every_table_and_figure() -> None:
    view = report_view(fake_facts(replace(RunShape(), contexts=(256,), repeats=1, simulated=True)))

    assert all(table.simulated for table in (view.cells, view.configurations, view.launches, view.overview))
    assert all(figure.simulated for figure in view.figures)
    assert view.rig_line.startswith("SIMULATED")
