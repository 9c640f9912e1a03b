"""Which launches are cut short, and which cells wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.records.observation import CellObservation, SearchCell
from harness.search.depth import cheap_cells
from harness.search.race import LEAST_CELLS, is_behind

COUNT = 12


def paces(ratio: float, count: int = COUNT, *, jitter: float = 0.01) -> dict[str, CellObservation]:
    return {
        f"l{at}": CellObservation(ttft_s=1.0, tpot_s=0.02 * ratio * (1 + jitter * (-1) ** at), tokens_per_step=2.0)
        for at in range(count)
    }


def test_one_that_is_ten_percent_behind_is_cut() -> None:
    assert is_behind(paces(1.0), paces(1.1))


def test_not_before_there_are_cells_enough() -> None:
    assert not is_behind(paces(1.0), paces(1.5, LEAST_CELLS - 1))
    assert is_behind(paces(1.0), paces(1.5, LEAST_CELLS))


@given(st.floats(0.5, 1.05))
def test_what_launches_differ_by_anyway_cuts_nothing(ratio: float) -> None:
    assert not is_behind(paces(1.0), paces(ratio))


def cell(at: int, weight: float) -> SearchCell:
    return SearchCell(load_id=f"l{at}", weight=weight, context_tokens=256, concurrency=1, output_tokens=100.0)


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(1, 1000)), min_size=1, max_size=20))
def test_enough_of_the_workload_is_always_measured_and_in_its_order(rows: list[tuple[float, float]]) -> None:
    total = sum(weight for weight, _ in rows)
    every = [cell(at, weight / total) for at, (weight, _) in enumerate(rows)]
    seconds = {f"l{at}": took for at, (_, took) in enumerate(rows)}
    kept = cheap_cells(every, seconds)
    assert list(kept) == [one.load_id for one in every if one.load_id in kept]
    assert sum(one.weight for one in every if one.load_id in kept) >= 0.69
    assert len(kept) >= min(6, len(every))
    left = [seconds[one.load_id] for one in every if one.load_id not in kept]
    assert not left or min(left) >= max(seconds[name] for name in kept)


def test_one_dear_cell_waits() -> None:
    every = [cell(at, 0.1) for at in range(10)]
    seconds = {f"l{at}": 10.0 for at in range(9)} | {"l9": 900.0}
    assert "l9" not in cheap_cells(every, seconds)
