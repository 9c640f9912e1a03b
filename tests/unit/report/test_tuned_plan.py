"""A planned search as text: what it may take, and what of its time is kept."""

from __future__ import annotations

from dataclasses import replace

from harness.report.tuned_plan import search_line, search_lines
from tests.unit.stats.test_reserve import HOUR_S, planned


def test_what_it_may_take_is_told() -> None:
    plan, tune = planned()
    line = search_line(plan, tune)
    assert "3 configurations to choose from, at most 3 launches of the search and 9 that confirm, 12 h" in line
    assert search_lines(plan, tune) == (), "without a limit nothing is kept"


def lines(hours: float) -> str:
    plan, tune = planned()
    (line,) = search_lines(plan, replace(tune, time_s=hours * HOUR_S))
    return line


def test_what_a_budget_leaves_is_told() -> None:
    kept = "Of the budget of 13 h about 9 h 54 min are kept for the 9 launches that confirm: time for "
    assert lines(13.0) == f"{kept}all 3 launches of the search."
    assert lines(12.0).endswith("time for 2 of the 3 launches of the search.")


def test_a_budget_that_is_too_short_for_both_is_told() -> None:
    assert "too short for the first 2 launches and the 9 launches that confirm, which need about 11 h 54 min" in lines(
        10.0
    )
