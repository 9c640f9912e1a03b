"""How wide steps become by what boot logs say, and what that tells of step times."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records.observation import SearchCell
from harness.search.graphs import Graphs
from harness.search.step_time import StepModel, StepSample
from tests.unit.search.spaces import candidate

WIDE_STEPS = (1, 2, 4, *range(32, 257, 32))  # as a log names them
CELLS = [
    SearchCell(load_id=f"c{c}", weight=0.25, context_tokens=256, concurrency=c, output_tokens=100.0)
    for c in (1, 6, 12, 24)
]


def graphs(*depths: int, sizes: Sequence[int] = WIDE_STEPS) -> Graphs:
    return Graphs({candidate(k).configuration_id: tuple(sizes) for k in depths})


@pytest.mark.parametrize(
    ("k", "tokens", "width"),
    [
        (5, 6, 6),  # 1 rounded up to a multiple of k + 1
        (5, 12, 36),  # 32 rounded up
        (0, 3, 4),
        (6, 42, 70),
        (3, 256, 256),
        (3, 300, 300),  # wider than all: no graph
    ],
)
def test_a_step_is_as_wide_as_the_narrowest_graph_that_holds_it(k: int, tokens: int, width: int) -> None:
    assert graphs(k).width(candidate(k), tokens) == width


def test_a_graph_that_rounding_takes_beyond_the_largest_is_dropped() -> None:
    assert graphs(6, sizes=(8, 16, 24, 32, 40)).width(candidate(6), 42) == 42, "as when 42 were cut to 40"


def test_what_was_never_launched_has_graphs_at_the_same_distances() -> None:
    known = graphs(3, sizes=(1, 2, 4, 8, 16, 24))
    assert [known.width(candidate(1), tokens) for tokens in (2, 10, 20)] == [2, 16, 24]
    assert known.width(candidate(1), 50) == 56, "its limit is its own"


@given(st.integers(0, 12), st.integers(1, 32), st.integers(0, 12))
def test_no_graph_is_narrower_than_its_step(k: int, streams: int, launched: int) -> None:
    tokens = streams * (k + 1)
    assert tokens <= graphs(launched).width(candidate(k), tokens)


def test_where_no_log_says_anything_a_step_is_its_tokens() -> None:
    nothing = graphs(5, sizes=())
    assert not nothing.knows(candidate(5))
    assert nothing.width(candidate(5), 12) == 12


def staircase(k: int, cell: SearchCell, known: Graphs) -> float:
    return 0.02 + 0.0002 * known.width(candidate(k), cell.concurrency * (k + 1))


def model(*depths: int, said: bool) -> StepModel:
    known = graphs(*depths)
    samples = [
        StepSample(launch=at, candidate=candidate(k), cell=cell, step_s=staircase(k, cell, known))
        for at, k in enumerate(depths)
        for cell in CELLS
    ]
    return StepModel(samples, reference=candidate(5), graphs=known if said else None)


def test_step_times_that_follow_the_graphs_are_seen_to() -> None:
    assert model(5, 1, 3, 7, said=True).padded
    assert not model(5, 1, 3, 7, said=False).padded


def test_a_depth_that_was_never_launched_costs_what_its_graph_does() -> None:
    told, untold = (model(5, 1, 3, 7, said=said) for said in (True, False))
    cell = CELLS[1]  # 6 streams: 18 tokens at k = 2 run as 33
    truth = staircase(2, cell, graphs(5))
    errors = [abs((one.step_s(candidate(2), cell) or 0.0) / truth - 1) for one in (told, untold)]
    assert errors[0] < 0.02 < errors[1]
