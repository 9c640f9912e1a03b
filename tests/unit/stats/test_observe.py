"""A launch as a search sees it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records.launch import BootFacts
from harness.records.verdict import AskedLimit
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from harness.stats.observe import cell_of, observation_of, search_cells
from harness.stats.paired import Measured
from tests.unit.stats.arms_build import BASE, CANDIDATE, SHORT, WIDE, launch, measured


def seen(*outcomes: str, limits: tuple[AskedLimit, ...] = ()):  # type: ignore[no-untyped-def]
    """A launch of BASE in some boots; each measured one cell."""
    launches = tuple(launch(f"l{at}", BASE, outcome=outcome, reason="why") for at, outcome in enumerate(outcomes))
    loads = (SHORT, WIDE)
    trials = tuple(
        measured(BASE, loads[at], 1.0, trial_id=f"t{at}", launch_id=f"l{at}")
        for at, outcome in enumerate(outcomes)
        if outcome != "failed_to_boot"
    )
    cells = summarise_run(trials, launches, Limits())
    found = {
        (trial.launch_id, cell.cell.load.load_id): Measured(
            trial=trials[int(trial.launch_id[1:])], metrics=trial.metrics
        )
        for cell in cells
        for trial in cell.valid_trials
    }
    return observation_of(launches, cells, limits=limits, measured=found)


def test_a_launch_tells_pace_and_survival() -> None:
    found = seen("measured")
    cell = found.cells[SHORT.load_id]
    assert found.booted and found.reason is None
    assert cell.ttft_s == pytest.approx(0.5)
    assert cell.step_s == pytest.approx(cell.tpot_s * cell.tokens_per_step)


@given(st.integers(1, 50), st.integers(0, 200), st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_figures_are_of_steps_where_some_of_them_had_no_draft(drafts: int, undrafted: int, shares: list[float]) -> None:
    by_position = tuple(sorted(shares, reverse=True))
    delivered = 1 + sum(by_position) + undrafted / drafts  # tokens per draft: a step brings one, and what was accepted
    metrics = _metrics(measured(BASE, SHORT, 1.0))
    values = metrics.values | {"delivered_per_step": delivered, "acceptance_length": 1 + sum(by_position)}
    cell = cell_of(replace(metrics, values=values, by_position=by_position), len(by_position))
    assert cell is not None
    assert cell.drafting_ratio == pytest.approx(drafts / (drafts + undrafted))
    assert cell.tokens_per_step == pytest.approx(1 + sum(cell.survival))
    assert cell.survival == pytest.approx(tuple(share * cell.drafting_ratio for share in by_position))


def test_where_nothing_was_drafted_every_step_was_a_plain_one() -> None:
    metrics = _metrics(measured(BASE, SHORT, 1.0))
    values = metrics.values | {"delivered_per_step": None, "acceptance_length": None}
    missing = replace(
        metrics, values=values, by_position=None, null_reasons={"delivered_per_step": "nothing was drafted"}
    )
    cell = cell_of(missing, 3)
    assert cell is not None
    assert (cell.survival, cell.drafting_ratio, cell.tokens_per_step) == ((0.0, 0.0, 0.0), 0.0, 1.0)


@pytest.mark.parametrize(("boot", "sizes"), [(None, ()), (BootFacts(), ()), (BootFacts(capture_sizes=(1, 8)), (1, 8))])
def test_what_its_boot_log_says_of_graphs_is_kept(boot: BootFacts | None, sizes: tuple[int, ...]) -> None:
    last = replace(launch("l0", BASE), boot=boot)
    assert observation_of([last], []).capture_sizes == sizes


def test_one_that_did_not_boot_says_why() -> None:
    found = seen("failed_to_boot")
    assert (found.booted, found.cells, found.reason) == (False, {}, "why")


def test_what_an_interrupted_boot_measured_counts_with_the_next_one() -> None:
    assert set(seen("interrupted", "measured").cells) == {SHORT.load_id, WIDE.load_id}


def test_a_slow_boot_was_given_back() -> None:
    assert set(seen("slow_canary", "measured").cells) == {WIDE.load_id}


def test_one_that_died_after_a_cell_came_up() -> None:
    assert seen("died").booted


@pytest.mark.parametrize(
    ("limit", "excess"),
    [
        (AskedLimit(metric="ttft_s", statistic="median", at_most=0.4), 0.25),
        (AskedLimit(metric="ttft_s", statistic="median", at_most=1.0), -0.5),
        (AskedLimit(metric="ttft_s", statistic="median", at_least=1.0), 0.5),
    ],
)
def test_a_limit_says_by_how_much_it_is_broken(limit: AskedLimit, excess: float) -> None:
    assert seen("measured", limits=(limit,)).slo_excess == {limit.name: pytest.approx(excess, abs=0.01)}


@pytest.mark.parametrize("values", [{}, {"ttft_s": 1.0}, {"ttft_s": 1.0, "decode_tokens_per_s": float("nan")}])
def test_a_trial_without_a_rate_tells_nothing(values: dict[str, float | None]) -> None:
    trial = measured(BASE, SHORT, 1.0)
    metrics = _metrics(trial)
    assert cell_of(replace(metrics, values=values)) is None


def _metrics(trial):  # type: ignore[no-untyped-def]
    from harness.stats.summary import trial_metrics

    return trial_metrics(trial)


def test_cells_weigh_as_the_mix_says_or_all_the_same() -> None:
    assert [cell.weight for cell in search_cells([SHORT, WIDE], {})] == [0.5, 0.5]
    assert [cell.weight for cell in search_cells([SHORT, WIDE], {WIDE.load_id: 1.0})] == [0.0, 1.0]


def test_another_configuration_is_not_looked_at() -> None:
    launches = (launch("l0", CANDIDATE),)
    cells = summarise_run((measured(BASE, SHORT, 1.0, launch_id="l0"),), launches, Limits())
    assert observation_of(launches, cells).cells == {}
