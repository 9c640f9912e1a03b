"""A search as text: each form of its headline, what comes next, and the table of its launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.records.tune import KNOWN_BEFORE, LIMIT_BROKEN, NOTHING_TO_CONFIRM, SEARCH_ENDED
from harness.report.facts import run_facts
from harness.report.models import Headline, ReportView
from harness.report.view import report_view
from harness.stats.confirm import confirmed
from harness.stats.noise import NoiseBook
from tests.unit.stats.tune_build import searched

EQUAL = [1.0, 1.01, 0.99]
FASTER = [0.8, 0.81, 0.79]
UNSURE = [0.9, 1.12, 0.92]


def page(search: Mapping[str, float], confirming: Mapping[str, Sequence[float]], *notes: str) -> ReportView:
    stored = searched(search, confirming, f"{SEARCH_ENDED}: enough", *notes)
    tuned = confirmed(stored, NoiseBook())
    return report_view(run_facts(stored.run, stored.cells, tuned=tuned))


def headline(search: Mapping[str, float], confirming: Mapping[str, Sequence[float]], *notes: str) -> Headline:
    return page(search, confirming, *notes).headline


def test_run_the_pick() -> None:
    found = headline({"A": 1.0, "B": 0.8}, {"A": EQUAL, "B": FASTER})
    assert found.result.startswith("Run five: +")
    assert found.result.endswith("over four, confirmed by 3 launches of each of its own.")
    assert found.next_step is None


def test_keep_the_incumbent_where_the_best_is_no_better() -> None:
    found = headline({"A": 1.0, "B": 0.9}, {"A": EQUAL * 3, "B": EQUAL * 3})
    assert found.result.startswith("Keep four: the best that was found, five, is no difference at ")
    assert found.next_step is None


def test_keep_it_for_now_where_the_launches_cannot_tell_and_say_what_would() -> None:
    found = headline({"A": 1.0, "B": 0.9}, {"A": UNSURE[::-1], "B": UNSURE})
    assert found.result.startswith("Keep four for now: five is at ")
    assert found.next_step is not None
    assert found.next_step.command == (
        "harness ab small.yaml --base num_speculative_tokens=4 --candidate num_speculative_tokens=5"
    )


def test_nothing_promised_more() -> None:
    found = headline({"A": 1.0, "B": 1.2}, {}, NOTHING_TO_CONFIRM)
    assert found.result == "Keep four: after 2 launches nothing promises to be better."
    assert found.next_step is None


def test_all_was_known_before() -> None:
    found = headline({}, {}, f"{KNOWN_BEFORE}: 5 launches of the study s, 3 h old", NOTHING_TO_CONFIRM)
    assert found.result.startswith("Keep four: after 0 launches, and by what was known already, nothing promises")
    assert "Known already: 5 launches of the study s, 3 h old." in found.qualifications


def test_a_search_that_is_not_complete_is_carried_on_with() -> None:
    found = headline({"A": 1.0, "B": 0.8}, {})
    assert found.result == "The search is not complete: after 2 launches nothing was confirmed yet."
    assert found.next_step is not None and "--resume" in found.next_step.command


def test_a_confirmation_that_was_cut_short_is_carried_on_with() -> None:
    found = headline({"A": 1.0, "B": 0.8}, {"A": [1.0, 1.0], "B": [0.8]})
    assert found.next_step is not None and "--resume" in found.next_step.command


def test_other_finalists_and_limits_stand_below() -> None:
    told = f"{LIMIT_BROKEN}: k=9 promises +30.0 %, but breaks the limit ttft_s.p95 by 12.0 %"
    found = headline({"A": 1.0, "B": 0.8, "C": 0.7}, {"A": EQUAL, "B": FASTER, "C": [0.7, 0.71, 0.69]}, told)
    assert found.result.startswith("Run six")
    lines = "\n".join(found.qualifications)
    assert "Also confirmed: five" in lines and "better" in lines
    assert "No finalist: k=9 promises +30.0 %" in lines


def test_what_measures_the_noise_is_a_command_of_its_own() -> None:
    found = headline({"A": 1.0, "B": 0.8}, {"A": EQUAL, "B": FASTER})
    (line,) = [line for line in found.qualifications if "A/A" in line]
    assert "harness ab small.yaml --same measures it." in line


def test_each_launch_is_in_the_table_with_what_it_showed() -> None:
    view = page({"A": 1.0, "B": 0.8}, {"A": EQUAL, "B": FASTER})
    assert view.tuned is not None
    assert [row.values[1] for row in view.tuned.steps.rows] == ["reference", "search", *["confirm"] * 6]
    assert view.tuned.finalists is not None
    (row,) = view.tuned.finalists.rows
    assert row.emphasis and row.values[1] == "better"


def test_what_is_to_be_run_can_be_pasted() -> None:
    assert page({"A": 1.0, "B": 0.8}, {"A": EQUAL, "B": FASTER}).best is not None


def test_tables_point_at_what_is_to_be_run_not_at_what_was_fastest_once() -> None:
    kept = page({"A": 1.0, "B": 0.5}, {"A": UNSURE[::-1], "B": UNSURE})
    assert kept.headline.result.startswith("Keep four for now")
    assert marked(kept) == ["four (k=4)"] * 2 and kept.configurations.rows[0].values[0] == "five (k=5)"
    assert marked(page({"A": 1.0, "B": 0.8}, {"A": EQUAL, "B": FASTER})) == ["five (k=5)"] * 2
    assert marked(page({"A": 1.0, "B": 0.8}, {})) == [], "nothing is to be run before it was confirmed"


def marked(view: ReportView) -> list[str]:
    """What the tables over the whole workload point out; theirs is the badge, too."""
    tables = (view.configurations, view.overview)
    assert {table.badge for table in tables} == {"to run"}
    return [row.values[0] for table in tables for row in table.rows if row.emphasis]
