"""From an effect to a word."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records.verdict import Effect, NoiseFloor
from harness.stats.verdict import controlled_verdicts, verdict_of

FLOOR = NoiseFloor(sigma_ratio=0.02, degrees=5.0, source="stored")
MIRRORED = {"better": "worse", "worse": "better"}


def effect(percent: float, half: float, *, half90: float | None = None, p: float = 0.001) -> Effect:
    """An effect in percent, with half the width of its interval."""
    middle, wide, narrow = percent / 100, half / 100, (half if half90 is None else half90) / 100
    return Effect(
        log_ratio=middle,
        se=wide / 2,
        degrees=10.0,
        low=middle - wide,
        high=middle + wide,
        low90=middle - narrow,
        high90=middle + narrow,
        p=p,
        launches=(2, 2),
        prompts=8,
        noise=FLOOR,
    )


@pytest.mark.parametrize(
    ("percent", "half", "verdict"),
    [
        (8, 4, "better"),
        (-8, 4, "worse"),
        (8, 9, "cannot tell"),
        (0, 2, "no difference"),
        (0.5, 4, "cannot tell"),
        (2.5, 2, "cannot tell"),  # surely above 0, and less than the margin
        (1.5, 1, "no difference"),  # surely above 0, and surely too small to matter
        (-2.8, 0.1, "no difference"),
    ],
)
def test_verdicts_with_a_margin_of_3_percent(percent: float, half: float, verdict: str) -> None:
    assert verdict_of(effect(percent, half), 0.03) == verdict


def test_equivalence_is_judged_by_its_own_interval() -> None:
    assert verdict_of(effect(0, 4, half90=2.9), 0.03) == "no difference"
    assert verdict_of(effect(0, 2, half90=4), 0.03) == "cannot tell"


def test_without_a_margin_an_interval_off_zero_is_enough() -> None:
    assert verdict_of(effect(0.5, 0.4), 0.0) == "better"


@given(st.floats(-30, 30), st.floats(0, 30), st.floats(0, 0.2))
def test_a_mirrored_effect_has_the_mirrored_verdict(percent: float, half: float, margin: float) -> None:
    one, two = verdict_of(effect(percent, half), margin), verdict_of(effect(-percent, half), margin)
    assert two == MIRRORED.get(one, one)


@given(st.floats(-30, 30), st.floats(0, 30), st.floats(0, 0.2))
def test_no_word_is_said_against_its_interval(percent: float, half: float, margin: float) -> None:
    found = effect(percent, half)
    said = verdict_of(found, margin)
    if said == "better":
        assert found.low > 0 and found.log_ratio >= math.log1p(margin)
    if said == "no difference":
        assert max(abs(found.low90), abs(found.high90)) <= math.log1p(margin)


def test_many_cells_share_their_false_discoveries() -> None:
    lucky = effect(8, 4, p=0.04)
    (alone,) = controlled_verdicts([lucky], 0.03)
    assert alone == ("better", 0.04)
    among = controlled_verdicts([lucky, *[effect(0.5, 4, p=0.8)] * 9], 0.03)
    assert among[0] == ("cannot tell", pytest.approx(0.4))
    strong = controlled_verdicts([replace(lucky, p=0.001), *[effect(0.5, 4, p=0.8)] * 9], 0.03)
    assert strong[0] == ("better", pytest.approx(0.01))


def test_equality_needs_no_control_and_a_cell_without_effect_has_no_q() -> None:
    found = controlled_verdicts([effect(0, 1, p=0.9), None], 0.03)
    assert found == [("no difference", pytest.approx(0.9)), ("cannot tell", None)]
    assert controlled_verdicts([None], 0.03) == [("cannot tell", None)]
