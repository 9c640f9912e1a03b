"""The map of a sweep: who is best over the cells, by how much, and what could not have been seen."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records.summary import CellSummary
from harness.records.trial import TrialRecord
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from harness.stats.overview import best_by_workload, launch_sigma_ratio, smallest_visible_difference
from tests.unit.stats.build import cell, steady, trial


def _trial(k: int, tokens_per_s: float, *, context: int = 256, launch: str = "", **changes: Any) -> TrialRecord:
    one = steady(steps=30, tokens_per_step=1, step_s=1 / tokens_per_s, expected_prompt_tokens=None)
    return trial(
        [one],
        k=k,
        trial_id=f"{k}-{context}-{launch}-{tokens_per_s}",
        launch_id=f"{k}{launch}",
        load={"context_tokens": context},
        **changes,
    )


def _cells(*trials: TrialRecord) -> tuple[CellSummary, ...]:
    return summarise_run(trials, [], Limits())


GRID = (
    _trial(0, 100, context=256),
    _trial(0, 50, context=1024),
    _trial(2, 200, context=256),
    _trial(2, 100, context=1024),
    _trial(4, 400, context=256),
    _trial(4, 45, context=1024),
)


def test_ratios_are_geometric_means_to_no_speculation() -> None:
    overview = best_by_workload(_cells(*GRID))
    assert overview is not None and overview.best is not None
    assert overview.reference.num_speculative_tokens == 0
    assert [s.configuration.num_speculative_tokens for s in overview.standings] == [2, 4, 0]
    assert [s.ratio for s in overview.standings] == pytest.approx([2.0, math.sqrt(4 * 0.9), 1.0])
    assert overview.best.by_load[GRID[0].cell.load.load_id] == pytest.approx(2.0)
    assert overview.best.spread is None and overview.best.launches == 1
    assert [s.is_reference for s in overview.standings] == [False, False, True]


def test_the_incumbent_is_the_reference_where_it_was_measured() -> None:
    overview = best_by_workload(_cells(*GRID), incumbent_id=cell(2).configuration.configuration_id)
    assert overview is not None and overview.reference.num_speculative_tokens == 2
    assert overview.standings[0].ratio == pytest.approx(1.0)


def test_for_times_lower_is_better() -> None:
    overview = best_by_workload(_cells(*GRID), metric="tpot_s")
    assert overview is not None and overview.best is not None
    assert overview.best.configuration.num_speculative_tokens == 2
    assert overview.best.ratio == pytest.approx(2.0)


def test_weights_move_the_choice() -> None:
    overview = best_by_workload(_cells(*GRID), weights={GRID[1].cell.load.load_id: 0.0})
    assert overview is not None and overview.best is not None
    assert overview.best.configuration.num_speculative_tokens == 4
    assert overview.best.ratio == pytest.approx(4.0)


def test_a_configuration_that_lacks_a_cell_is_not_the_best() -> None:
    overview = best_by_workload(_cells(*GRID[:4], _trial(10, 900, context=256)))
    assert overview is not None and overview.best is not None
    first = overview.standings[0]
    assert (first.configuration.num_speculative_tokens, first.cells, first.cells_missing) == (10, 1, 1)
    assert overview.best.configuration.num_speculative_tokens == 2


def test_launches_give_the_spread() -> None:
    overview = best_by_workload(_cells(_trial(0, 100), _trial(2, 190, launch="a"), _trial(2, 210, launch="b")))
    assert overview is not None and overview.best is not None
    assert overview.best.spread == pytest.approx((1.9, 2.1))
    assert overview.best.launches == 2


def test_nothing_measured_is_no_map() -> None:
    assert best_by_workload(()) is None
    assert best_by_workload(_cells(_trial(2, 100, jit_lines=("x",)))) is None


def test_what_only_explains_makes_nothing_best() -> None:
    with pytest.raises(ValueError, match="explains"):
        best_by_workload(_cells(*GRID), metric="acceptance_length")


def test_one_launch_each_cannot_see_less_than_about_an_eighth() -> None:
    # 2.80 standard errors of a difference of two launches that vary by 3 %.
    assert smallest_visible_difference(1) == pytest.approx(0.126, abs=0.001)
    assert smallest_visible_difference(1, power=0.5) == pytest.approx(0.0867, abs=0.001)


@given(st.integers(1, 50), st.floats(0.001, 0.2))
def test_four_times_the_launches_see_half_as_much(launches: int, sigma: float) -> None:
    few = math.log1p(smallest_visible_difference(launches, sigma_ratio=sigma))
    many = math.log1p(smallest_visible_difference(4 * launches, sigma_ratio=sigma))
    assert few == pytest.approx(2 * many)


def test_variation_between_launches_is_pooled_over_cells() -> None:
    cells = _cells(
        _trial(2, 100, launch="a"),
        _trial(2, 104, launch="b"),
        _trial(4, 200, launch="a"),
        _trial(4, 208, launch="b"),
    )
    assert launch_sigma_ratio(cells) == pytest.approx(math.log(1.04) / math.sqrt(2))
    assert launch_sigma_ratio(_cells(_trial(2, 100))) is None
