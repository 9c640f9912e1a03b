"""What is believed of configurations, from launches whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.records.observation import Observation
from harness.search.boots import boot_chances
from harness.search.choice import best_launched, is_worth_it, next_choice
from harness.search.model import beliefs, value_of
from harness.search.space import Space
from tests.unit.search.spaces import candidate, cells, observed, space

SPACE = space((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))


def true_gain(k: int) -> float:
    one, reference = (value_of(SPACE.cells, observed(SPACE.candidate(f"k{depth}")).cells) for depth in (k, 5))
    assert one is not None and reference is not None
    return one - reference


def test_before_anything_was_launched_all_are_equal() -> None:
    assert {belief.mean for belief in beliefs(SPACE, []).values()} == {0.0}


@given(st.sets(st.integers(0, 10), max_size=5))
@settings(max_examples=20, deadline=None)
def test_the_reference_is_what_gains_are_over(others: set[int]) -> None:
    launched = [observed(SPACE.candidate(f"k{k}")) for k in sorted(others | {5})]
    known = beliefs(SPACE, launched)
    assert known["k5"].mean == pytest.approx(0.0)
    assert {name for name, belief in known.items() if belief.launches} == {one.configuration_id for one in launched}
    assert all(belief.sd > 0 and math.isfinite(belief.mean) for belief in known.values())


def test_two_depths_tell_those_between_them() -> None:
    known = beliefs(SPACE, [observed(SPACE.candidate(name)) for name in ("k5", "k0", "k10")])
    for k in (6, 7, 8, 9):
        assert known[f"k{k}"].mean == pytest.approx(true_gain(k), abs=0.03)


DRAFTERS = Space(
    candidates=(candidate(0), *(candidate(k, method=name) for name in ("mtp", "ngram") for k in range(1, 11))),
    cells=cells(2),
    reference_id="k10-method=mtp",
)


def launched(name: str, ratio: float) -> Observation:
    one = DRAFTERS.candidate(name)
    return observed(one, drafting_ratio=ratio if name.endswith("ngram") else 1.0)


@pytest.mark.parametrize("ratio", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("first", [candidate(k, method=m).configuration_id for k in (1, 10) for m in ("mtp", "ngram")])
def test_a_drafter_that_seldom_drafts_misleads_nobody_about_the_other(first: str, ratio: float) -> None:
    space, known = replace(DRAFTERS, reference_id=first), [first, "k0"]
    while (choice := next_choice(space, [launched(name, ratio) for name in known])) and is_worth_it(choice, 0.03):
        known.append(choice.configuration_id)
    pick = best_launched(space, [launched(name, ratio) for name in known])[0]
    names = [one.configuration_id for one in space.candidates]
    values = {name: value_of(space.cells, launched(name, ratio).cells) or -math.inf for name in names}
    assert values[pick] > max(values.values()) - 0.03
    assert len(known) <= 7


@pytest.mark.parametrize(
    ("knob", "is_drafter"), [("method", True), ("draft_model", True), ("support_model", True), ("sampling", False)]
)
def test_of_another_drafter_much_is_possible_until_it_was_launched_once(knob: str, is_drafter: bool) -> None:
    candidates = (candidate(0), *(candidate(k, **{knob: name}) for name in ("one", "other") for k in (3, 5)))
    two = Space(candidates=candidates, cells=cells(2), reference_id=f"k5-{knob}=one")
    seen = [observed(two.candidate(name)) for name in (f"k5-{knob}=one", "k0")]
    before = beliefs(two, seen)[f"k3-{knob}=other"]
    after = beliefs(two, [*seen, observed(two.candidate(f"k5-{knob}=other"))])[f"k3-{knob}=other"]
    assert (before.sd > 0.2) is is_drafter
    assert after.sd < 0.1


@pytest.mark.parametrize("ratio", [0.0, 0.05, 0.5, 1.0])
def test_steps_without_a_draft_are_counted_as_such_at_every_depth(ratio: float) -> None:
    seen = [launched(name, ratio) for name in ("k10-method=mtp", "k0", "k3-method=mtp", "k4-method=ngram")]
    known = beliefs(DRAFTERS, seen)
    for k in (2, 4, 8):
        one, reference = (
            value_of(DRAFTERS.cells, launched(name, ratio).cells) for name in (f"k{k}-method=ngram", "k10-method=mtp")
        )
        assert one is not None and reference is not None
        assert known[f"k{k}-method=ngram"].mean == pytest.approx(one - reference, abs=0.05)


def share_believed(gain: float) -> float:
    """Of what one launch of four shows beyond what curves and step times explain."""
    depths = (5, 0, 3, 7)
    plain, odd = (
        beliefs(SPACE, [observed(SPACE.candidate(f"k{k}"), gain=one if k == 3 else 1.0) for k in depths])
        for one in (1.0, gain)
    )
    return (odd["k3"].mean - plain["k3"].mean) / math.log(gain)


def test_the_further_a_launch_is_beyond_luck_the_more_of_it_is_believed() -> None:
    shares = [share_believed(gain) for gain in (1.03, 1.2, 1.4, 2.0)]
    assert shares[0] < 0.3, "launches differ by as much"
    assert shares == sorted(shares)
    assert shares[-1] > 0.6


def test_what_was_launched_is_surer_than_what_was_not() -> None:
    known = beliefs(SPACE, [observed(SPACE.candidate(name)) for name in ("k5", "k0", "k10")])
    assert known["k10"].sd < known["k9"].sd < beliefs(SPACE, [])["k9"].sd


def test_nothing_is_chosen_twice_nor_what_somebody_launches() -> None:
    launched = [observed(SPACE.candidate(f"k{k}")) for k in range(9)]
    choice = next_choice(SPACE, launched, taken={"k9"})
    assert choice is not None and choice.configuration_id == "k10"
    assert next_choice(SPACE, launched, taken={"k9", "k10"}) is None


def test_the_best_launched_are_ranked() -> None:
    launched = [observed(SPACE.candidate(f"k{k}")) for k in (0, 3, 5)]
    assert best_launched(SPACE, launched, count=2) == ["k5", "k3"]


def test_what_failed_is_not_expected_to_boot_and_its_neighbours_less() -> None:
    launched = [observed(SPACE.candidate("k5")), observed(SPACE.candidate("k9"), booted=False)]
    chances = boot_chances(SPACE, launched)
    assert chances["k9"] < chances["k10"] < chances["k2"] <= 1.0
    assert chances["k5"] == pytest.approx(1.0)
    assert chances["k10"] < 0.6, "where one depth fails the next one often does"


@given(st.floats(0.5, 2.0))
def test_a_value_is_the_logarithm_of_a_gain_of_all_times(gain: float) -> None:
    slow = observed(SPACE.candidate("k5")).cells
    fast = {
        name: type(one)(
            ttft_s=one.ttft_s / gain,
            tpot_s=one.tpot_s / gain,
            tokens_per_step=one.tokens_per_step,
            survival=one.survival,
        )
        for name, one in slow.items()
    }
    for objective in ("seconds", "decode_tokens_per_s", "ttft_s"):
        before, after = (value_of(SPACE.cells, one, objective) for one in (slow, fast))
        assert before is not None and after is not None
        assert after - before == pytest.approx(math.log(gain), abs=1e-9)


def test_a_cell_that_counts_and_is_missing_leaves_no_value() -> None:
    seen = observed(SPACE.candidate("k5"), count=1).cells
    assert value_of(cells(2), seen) is None
    assert value_of(cells(1), seen) is not None
