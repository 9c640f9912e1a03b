"""A server that drafts another number of tokens than the nights before is doubtful, whatever its figures say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.records.cell import NUM_SPECULATIVE_TOKENS
from harness.records.nightly import Night
from harness.stats.baseline import baseline_of
from harness.stats.nights import judge_night, wants_second_launch
from tests.fakes.night_builder import a_night

ACCEPTED_AT = "2026-11-15T08:00:00+00:00"


def drafting(number: int, k: int | None) -> Night:
    facts = {"kernel": "6.14"} | ({} if k is None else {NUM_SPECULATIVE_TOKENS: str(k)})
    return a_night(number, facts=facts)


NIGHTS = tuple(drafting(number, 4) for number in range(8))
BASELINE = baseline_of(NIGHTS, name="served", author="a", reason="r", accepted_at=ACCEPTED_AT)


@pytest.mark.parametrize("baseline", [None, BASELINE])
def test_another_depth_is_doubtful_and_named(baseline: object) -> None:
    held = BASELINE if baseline else None
    morning = judge_night(drafting(8, 1), NIGHTS, held)
    assert morning.verdict == "doubtful"
    assert "num speculative tokens: 4 → 1" in morning.sentence
    assert wants_second_launch(drafting(8, 1), NIGHTS, held) is not None


@pytest.mark.parametrize("k", [4, None])
def test_the_same_depth_and_one_that_nobody_knows_are_not(k: int | None) -> None:
    assert judge_night(drafting(8, k), NIGHTS, BASELINE).verdict == "fine"
    assert judge_night(drafting(8, 4), tuple(drafting(n, None) for n in range(8)), None).verdict != "doubtful"


def test_it_stays_doubtful_until_somebody_accepts_it() -> None:
    changed = [drafting(number, 1) for number in range(8, 20)]
    morning = judge_night(drafting(20, 1), (*NIGHTS, *changed), BASELINE)
    assert morning.verdict == "doubtful"
    accepted = baseline_of(changed, name="served", author="a", reason="one is enough", accepted_at=ACCEPTED_AT)
    assert judge_night(drafting(20, 1), (*NIGHTS, *changed), accepted).verdict == "fine"


def test_another_series_says_nothing_of_this_one() -> None:
    other = tuple(replace(night, key="o" * 12) for night in NIGHTS)
    assert judge_night(drafting(8, 1), other, None).verdict != "doubtful"
