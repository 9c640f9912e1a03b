"""What a report says of a comparison: the verdict first, each form of sentence, and nothing that breaks a page."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from harness.records.cell import Configuration
from harness.records.journal import RunData
from harness.records.verdict import AskedLimit, Comparison, Effect, NoiseFloor, Part
from harness.report.comparison import decided_words
from harness.report.comparison_words import (
    explained,
    noise_words,
    percent,
    price_words,
    result_words,
    spread_words,
    visible_words,
)
from harness.report.facts import run_facts
from harness.report.html import render_html
from harness.report.markdown import render_markdown
from harness.report.models import ReportView
from harness.report.terminal import print_result
from harness.report.view import report_view
from harness.stats.arms import comparison_of
from harness.stats.floor import measured_noise
from harness.stats.noise import NoiseBook
from tests.unit.stats.arms_build import BASE, CANDIDATE, WIDE, ab_run, comparison, stored, without
from tests.unit.stats.test_noise import FACTORS, measured

EVEN, FASTER = (1.0, 1.01, 0.99, 1.0), (0.8, 0.81, 0.79, 0.8)
FLOOR = NoiseFloor(sigma_ratio=0.02, degrees=5.0, source="stored", measured_at="2026-11-01T03:00:00+00:00")


def view_of(run: RunData, **changes: Any) -> ReportView:
    each = stored(run)
    found = comparison_of(each, NoiseBook())
    assert found is not None
    return report_view(run_facts(run, each.cells, replace(found, **changes), measured_noise(each)))


def effect(ratio: float, half: float = 0.01, **changes: Any) -> Effect:
    middle = math.log(ratio)
    whole = Effect(
        log_ratio=middle,
        se=half / 2,
        degrees=10.0,
        low=middle - half,
        high=middle + half,
        low90=middle - half * 0.8,
        high90=middle + half * 0.8,
        p=0.001,
        launches=(2, 2),
        prompts=8,
        noise=FLOOR,
    )
    return replace(whole, **changes)


def found(ratio: float | None, verdict: str, **changes: Any) -> Comparison:
    """A comparison with a given effect, of arms called base and new."""
    made = comparison_of(stored(ab_run(EVEN[:2], FASTER[:2])), NoiseBook())
    assert made is not None
    named = {side: replace(getattr(made, side), name=name) for side, name in (("base", "old"), ("candidate", "new"))}
    given = {"effect": None if ratio is None else effect(ratio), "verdict": verdict, **named, **changes}
    return replace(made, **given)


def parts(tokens: float | None, step: float | None, **others: float) -> tuple[Part, ...]:
    """Ratios of tokens per step and of step time; above 1 is more, and longer."""
    signed = {"delivered_per_step": tokens, "step_s": None if step is None else 1 / step, **others}
    return tuple(
        Part(metric=name, effect=None if ratio is None else effect(ratio), base=None, candidate=None)
        for name, ratio in signed.items()
    )


@pytest.mark.parametrize(
    ("verdict", "ratio", "changes", "said"),
    [
        ("better", 1.1, {}, "new is better than old: +10.0 % (+8.9 % … +11.1 %), margin 3.0 %, speed over"),
        ("worse", 0.9, {}, "new is worse than old: -10.0 % (-10.9 % … -9.1 %), margin 3.0 %, speed over"),
        ("no difference", 1.0, {}, "No difference within 3.0 % between new and old: +0.0 % (-0.8 % … +0.8 %), speed"),
        ("cannot tell", 1.02, {}, "Cannot tell whether new is better than old: +2.0 % (+1.0 % … +3.0 %), margin 3.0 %"),
        ("cannot tell", 1.1, {"vetoes": ("the check garble failed",)}, "new is not called better than old, although"),
        ("cannot tell", 1.1, {"vetoes": ("the check garble failed",)}, ": the check garble failed."),
        ("cannot tell", 1.0, {"vetoes": ("it lacks a load",)}, "Cannot tell whether new is better than old: +0.0 %"),
        ("cannot tell", 1.0, {"vetoes": ("it lacks a load",)}, "; it lacks a load."),
        ("cannot tell", None, {"null_reason": "it died"}, "Cannot tell whether new is better than old: it died."),
        ("better", 1.1, {"objective": "ttft_s"}, ", ttft_s over the workload."),
    ],
)
def test_the_verdict_with_its_margin(verdict: str, ratio: float, changes: dict[str, Any], said: str) -> None:
    assert said in result_words(found(ratio, verdict, **changes))


@pytest.mark.parametrize(
    ("tokens", "step", "said"),
    [
        (1.0, 1.0, "It delivers as many tokens per step, and a step takes as long."),
        (1.2, 1.0, "It accepts 20 % more tokens per step, and a step takes as long."),
        (0.8, 1.0, "It accepts 20 % fewer tokens per step, and a step takes as long."),
        (1.0, 1.1, "It delivers as many tokens per step, and a step costs 10 % more."),
        (1.2, 0.9, "It accepts 20 % more tokens per step, and a step costs 10 % less."),
        (0.9, 1.1, "It accepts 10 % fewer tokens per step, and a step costs 10 % more."),
        (1.2, 1.1, "It is faster because it accepts 20 % more tokens per step, although a step costs 10 % more."),
        (0.95, 0.8, "It is faster because a step costs 20 % less, although it accepts 5 % fewer tokens per step."),
        (1.09, 1.15, "It is slower although it accepts 9 % more tokens per step: a step costs 15 % more."),
        (0.8, 0.9, "It is slower although a step costs 10 % less: it accepts 20 % fewer tokens per step."),
        (None, 1.1, ""),
        (1.1, None, ""),
    ],
)
def test_why(tokens: float | None, step: float | None, said: str) -> None:
    assert explained(found(1.1, "better", overall=parts(tokens, step))) == said
    assert explained(found(1.1, "better", overall=parts(tokens, step), same=True)) == ""


def test_a_win_that_costs_elsewhere_says_so() -> None:
    dear = parts(1.2, 1.0, ttft_s=0.8, worst_stream_tokens_per_s=0.9, prefill_tokens_per_s=0.99)
    (line,) = price_words(found(1.1, "better", overall=dear))
    assert line == "The win has a price: the first token is 20 % slower, the slowest stream is 10 % slower."
    assert price_words(found(0.9, "worse", overall=dear)) == ()
    assert price_words(found(1.1, "better", overall=parts(1.2, 1.0, ttft_s=1.2))) == ()


def test_where_the_noise_comes_from() -> None:
    assert noise_words(found(1.1, "better")) == (
        "Launches of this rig differ by 2.0 % (the A/A of 2026-11-01 and the launches here)."
    )
    assumed = effect(1.1, noise=replace(FLOOR, source="assumed", measured_at=None))
    assert "assumed to differ by 3.0 %" in noise_words(found(1.1, "better", effect=assumed))
    own = effect(1.1, noise=replace(FLOOR, source="arms", measured_at=None))
    assert noise_words(found(1.1, "better", effect=own)) == "Launches differ by 2.0 % here."
    assert noise_words(found(None, "cannot tell")) == visible_words(found(None, "cannot tell")) == ""


def test_an_a_a_says_the_floor_that_it_found_and_how_well_it_knows_it() -> None:
    each = ab_run(FACTORS)
    aa = comparison_of(stored(each), NoiseBook())
    assert aa is not None
    assert result_words(aa, measured()) == (
        "Launches of four differ by 2.4 % (standard deviation over 6 of them): that is the noise floor of this rig."
    )
    assert (
        spread_words(aa, measured()) == "The true figure lies between 1.5 % and 5.9 % (95 %): more launches narrow it."
    )
    assert result_words(replace(aa, effect=None, null_reason="it died")) == (
        "The noise floor could not be measured: it died."
    )
    view = view_of(each)
    assert view.comparison is not None and view.comparison.noise is not None
    assert view.comparison.noise.caption == "The noise floor of this rig, measured on four"
    assert [row.values[0] for row in view.comparison.noise.rows] == [
        "whole workload",
        "256 tokens · 1 stream",
        "256 tokens · 4 streams",
    ]
    assert view.headline.next_step is None and view.best is None


def test_the_first_line_of_a_report_is_the_verdict() -> None:
    view = view_of(ab_run(EVEN[:2], FASTER[:2]))
    assert view.headline.result.startswith("five is better than four: +24.8 % (")
    lines = [line for line in render_markdown(view).splitlines() if line]
    assert lines[0].startswith("# ") and lines[1].startswith("**five is better than four: +24.8 % (")
    page = render_html(view)
    assert page.index("five is better than four") < page.index("<h2")


def test_times_are_shown_as_times() -> None:
    view = view_of(ab_run(EVEN[:2], FASTER[:2]))
    assert view.comparison is not None
    rows = {row.values[0]: row.values[1] for row in view.comparison.parts.rows}
    assert (rows["decode speed"], rows["step time"]) == ("+24.8 %", "-19.9 %")
    heads = [column.label for column in view.comparison.cell_parts.columns]
    cells = dict(zip(heads, view.comparison.cell_parts.rows[0].values, strict=True))
    assert cells["step time"].startswith("-19.9 % (-") and cells["first token after"].startswith("-19.9 % (-")
    assert [column.label for column in view.comparison.parts.columns] == ["figure", "effect", "interval"]


def test_long_names_do_not_stretch_the_table() -> None:
    long = [replace(one, name=f"{one.name}, with a new image and another checkout") for one in (BASE, CANDIDATE)]
    run = ab_run(EVEN[:2], FASTER[:2])
    renamed = replace(
        run,
        launches=tuple(replace(one, configuration=long[one.configuration == CANDIDATE]) for one in run.launches),
        trials=tuple(
            replace(one, cell=replace(one.cell, configuration=long[one.cell.configuration == CANDIDATE]))
            for one in run.trials
        ),
    )
    view = view_of(renamed)
    assert view.comparison is not None
    heads = [column.label for column in view.comparison.cells.columns]
    assert heads == ["load", "verdict", "effect", "interval", "base", "candidate", "can show"]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_fits_the_terminal(width: int) -> None:
    console = Console(width=width, record=True, force_terminal=False)
    with console.capture() as capture:
        print_result(view_of(ab_run(EVEN[:2], FASTER[:2])), console)
    table = capture.get().split("effect:")[0].splitlines()
    assert max(len(line) for line in table) <= width
    assert any(line.startswith(("256 tokens · 1 stream", "1 stream")) for line in table)


def test_what_is_not_whole_limited_or_doubted_is_on_the_page() -> None:
    asked = comparison(limits=(AskedLimit(metric="ttft_s", statistic="p95", at_most=0.3),))
    view = view_of(without(ab_run(EVEN[:2], FASTER[:2], asked=asked), CANDIDATE, WIDE))
    for page in (render_markdown(view).replace("\\", ""), render_html(view)):
        assert "it has no valid trial of 1 load that four has" in page
        assert "candidate: ttft_s.p95 is 0.41, at most 0.30 was asked" in page
        assert "workload incomplete" in page and "noise assumed" in page


def test_names_cannot_break_the_pages() -> None:
    odd = "<script>alert(1)</script> | `x` *y*"
    names = {BASE.configuration_id: replace(BASE, name=odd), CANDIDATE.configuration_id: CANDIDATE}
    run = ab_run(EVEN[:2], FASTER[:2])

    def of(configuration: Configuration) -> Configuration:
        return names[configuration.configuration_id]

    run = replace(
        run,
        launches=tuple(replace(one, configuration=of(one.configuration)) for one in run.launches),
        trials=tuple(
            replace(one, cell=replace(one.cell, configuration=of(one.cell.configuration))) for one in run.trials
        ),
    )
    view = view_of(run)
    assert "<script>alert" not in render_html(view)
    text = render_markdown(view)
    assert "<script>alert" not in text
    tables = [line for line in text.splitlines() if line.startswith("| ") and "script" in line]
    assert all("\\|" in line for line in tables)


def test_what_to_run_next_after_cannot_tell() -> None:
    level = view_of(ab_run((1.0, 1.02), (0.98, 1.0)))
    step = level.headline.next_step
    assert step is not None and "--resume" in step.command and "--launches" not in step.command
    assert step.because == "Up to 6 launches of each arm are allowed."
    done = view_of(ab_run((1.0, 1.02), (0.98, 1.0), asked=comparison(max_launches=2)))
    step = done.headline.next_step
    assert step is not None and "--resume" not in step.command
    assert "they have to be new ones" in step.because
    assert (step.command.split("--launches ")[1].isdigit() and "min" in step.time) or "h" in step.time


def test_carrying_on_keeps_the_launches_that_were_allowed() -> None:
    run = ab_run((1.0, 1.02), (0.98, 1.0))
    command = ("harness", "ab", "s.yaml", "--launches", "6")
    step = view_of(replace(run, manifest=replace(run.manifest, command=command))).headline.next_step
    assert step is not None
    assert step.command == f"harness ab s.yaml --launches 6 --resume {run.manifest.run_id}"


def test_a_verdict_or_a_veto_has_no_next_step() -> None:
    assert view_of(ab_run(EVEN[:2], FASTER[:2])).headline.next_step is None
    assert view_of(ab_run((1.0, 1.02), (0.98, 1.0)), vetoes=("the check garble failed",)).headline.next_step is None


def test_no_more_launches_are_needed_once_the_verdict_stands() -> None:
    faster = comparison_of(stored(ab_run(EVEN[:2], FASTER[:2])), NoiseBook())
    level = comparison_of(stored(ab_run((1.0, 1.02), (0.98, 1.0))), NoiseBook())
    assert faster is not None and level is not None
    words = decided_words(faster)
    assert words == "the candidate is better after 2 launches of each arm (+24.8 %): no more launches are needed"
    assert decided_words(level) is None
    undone = replace(faster, effect=level.effect)
    assert decided_words(undone) is None, "a launch that came later has changed it"
    assert decided_words(replace(faster, looks=())) is None


def test_percent() -> None:
    assert [percent(math.log(ratio)) for ratio in (1.1, 0.9, 1.0)] == ["+10.0 %", "-10.0 %", "+0.0 %"]


def test_an_arm_without_a_name_is_called_by_what_makes_it_another() -> None:
    knobs = {**CANDIDATE.knobs, "max_num_seqs": 4}
    unnamed = Configuration(recipe=BASE.recipe, knobs=knobs)
    run = ab_run(EVEN[:2], FASTER[:2])
    asked = comparison(candidate_id=unnamed.configuration_id, factors=("max_num_seqs",))
    assert run.plan is not None
    run = replace(
        run,
        plan=replace(run.plan, comparison=asked),
        launches=tuple(
            replace(one, configuration=unnamed) if one.configuration == CANDIDATE else one for one in run.launches
        ),
        trials=tuple(
            replace(one, cell=replace(one.cell, configuration=unnamed)) if one.cell.configuration == CANDIDATE else one
            for one in run.trials
        ),
    )
    assert "k=5, max_num_seqs=4 is better than four" in view_of(run).headline.result


def test_where_prompts_differ_more_than_launches_more_prompts_are_asked_for() -> None:
    run = ab_run((1.0, 1.0), (1.0, 1.0), asked=comparison(max_launches=2), drafts_per_cell=100)
    found = comparison_of(stored(run), NoiseBook())
    assert found is not None and found.effect is not None
    uneven = replace(found.effect, se=0.05, noise=replace(FLOOR, sigma_ratio=0.01), launches=(2, 2))
    step = view_of(run, effect=uneven, verdict="cannot tell").headline.next_step
    assert step is not None
    assert "differs from prompt to prompt more than launches do: about 20 times as many prompts" in step.because
    assert step.command.endswith("--set repeat.drafts=2000") and "--launches" not in step.command


def test_a_bar_without_end_does_not_hide_the_others() -> None:
    view = view_of(ab_run(EVEN[:2], FASTER[:2]))
    assert view.comparison is not None
    rows = view.comparison.effects.rows
    low, high = view.comparison.effects.shown
    assert all(low < row.low and row.high < high for row in rows)
    made = comparison_of(stored(ab_run(EVEN[:2], FASTER[:2])), NoiseBook())
    assert made is not None
    wide = tuple(replace(cell, seconds=replace(cell.seconds, effect=effect(1.2, half=4.0))) for cell in made.cells)
    clipped = view_of(ab_run(EVEN[:2], FASTER[:2]), cells=wide).comparison
    assert clipped is not None
    assert clipped.effects.shown[0] >= -1 and clipped.effects.shown[1] < 1 < clipped.effects.rows[1].high
