"""When recorded requests are due."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.workload.arrivals import ArrivalPlan, due_times

TIMES = st.lists(
    st.lists(st.none() | st.floats(min_value=0, max_value=1e5), min_size=1, max_size=5), min_size=1, max_size=6
)


def test_a_closed_loop_has_no_times() -> None:
    assert due_times([[1.0, 2.0], [None]], ArrivalPlan()) == [[None, None], [None]]


def test_recorded_times_begin_at_nought_and_are_scaled() -> None:
    plan = ArrivalPlan(arrivals="recorded", speed=2.0)

    assert due_times([[100.0, 110.0], [104.0]], plan) == [[0.0, 5.0], [2.0]]


def test_pauses_are_cut_where_nobody_sent_anything() -> None:
    plan = ArrivalPlan(arrivals="recorded", idle_s=30.0)

    assert due_times([[0.0, 3600.0], [10.0, 3610.0]], plan) == [[0.0, 40.0], [10.0, 50.0]]


def test_an_entry_without_a_time_follows_the_one_before_it() -> None:
    assert due_times([[5.0, None, 7.0]], ArrivalPlan(arrivals="recorded")) == [[0.0, None, 2.0]]


def test_a_constant_rate_is_of_conversations_and_keeps_the_distance_of_turns() -> None:
    plan = ArrivalPlan(arrivals="constant", rate_per_s=2.0, speed=10.0)

    assert due_times([[50.0, 60.0], [90.0], [None, None]], plan) == [[0.0, 1.0], [0.5], [1.0, None]]


def test_poisson_arrivals_have_the_rate_and_a_spread_and_are_the_same_for_a_seed() -> None:
    def starts(seed: int) -> list[float]:
        plan = ArrivalPlan(arrivals="poisson", rate_per_s=4.0, seed=seed)
        return [due[0] or 0.0 for due in due_times([[None]] * 2000, plan)]

    gaps = [later - earlier for earlier, later in pairwise(starts(1))]
    assert fmean(gaps) == pytest.approx(0.25, rel=0.1)
    assert fmean(gap**2 for gap in gaps) == pytest.approx(2 * 0.25**2, rel=0.2)
    assert starts(1) == starts(1) != starts(2)


@given(times=TIMES, speed=st.floats(min_value=0.1, max_value=10), idle_s=st.none() | st.floats(0, 100))
def test_recorded_times_keep_their_order(times: list[list[float | None]], speed: float, idle_s: float | None) -> None:
    due = due_times(times, ArrivalPlan(arrivals="recorded", speed=speed, idle_s=idle_s))

    flat = [
        (at_s, due_s)
        for recorded, planned in zip(times, due, strict=True)
        for at_s, due_s in zip(recorded, planned, strict=True)
        if at_s is not None and due_s is not None
    ]
    assert [due_s for _, due_s in sorted(flat)] == sorted(due_s for _, due_s in flat)
    assert all(due_s >= 0 for _, due_s in flat)
    if idle_s is not None and flat:
        assert max(due_s for _, due_s in flat) <= idle_s * len(flat) / speed + 1e-6
