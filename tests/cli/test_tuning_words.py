"""What a search says of itself."""

from __future__ import annotations

from harness.cli.tuning_words import ended_words, known_words, limit_words, unlaunched_words
from harness.records.plan import Plan
from harness.search.model import Belief
from tests.unit.stats.test_reserve import planned
from tests.unit.stats.tune_build import NAMES

FOUR, FIVE, SIX = (one.configuration_id for one in NAMES.values())
KNOWN = {
    FOUR: Belief(mean=0.0, sd=0.01, launches=1),
    FIVE: Belief(mean=0.05, sd=0.02, launches=0),
    SIX: Belief(mean=0.1, sd=0.03, launches=0),
}


def plan() -> Plan:
    """Of three configurations: four, five and six."""
    return planned()[0]


def test_what_was_known_is_told_with_its_age() -> None:
    assert known_words([], "s") == []
    assert known_words([3600.0], "s") == ["known already: 1 launch of the study s, 1 h old; not made again"]
    assert "2 launches of the study s, between 1 h and 2 h old" in known_words([7200.0, 3600.0], "s")[0]


def test_why_it_ended_and_what_moved_the_objective_are_told_apart() -> None:
    assert ended_words("enough", cut_because=None, shares={}) == ["the search ended: enough"]
    found = ended_words("enough", cut_because="no time", shares={"k": 0.9, "method": 0.1})
    assert found == [
        "the search was cut short: no time",
        "what moved the objective, as far as so few launches can tell: k 90 %, method 10 %",
    ]


def test_what_was_not_launched_is_told_with_what_it_promises_the_best_first() -> None:
    (line,) = unlaunched_words(plan(), KNOWN, {FOUR})
    assert line == "not launched, and expected six at +10.5 %, give or take 3.0 %; five at +5.1 %, give or take 2.0 %"
    assert unlaunched_words(plan(), KNOWN, {FOUR, FIVE, SIX}) == []
    assert "five" not in unlaunched_words(plan(), KNOWN, {FOUR, FIVE})[0], "launched, though it did not boot"


def test_one_that_would_have_been_a_finalist_is_told_with_the_limit_that_it_breaks() -> None:
    broken = {FOUR: {"ttft_s p95": 0.1}, SIX: {"ttft_s p95": 0.3}}
    (line,) = limit_words(plan(), KNOWN, broken, reference_id=FOUR)
    assert line.startswith("no finalist: ") and line.endswith("but breaks the limit ttft_s p95 by 30.0 %")
