"""What `ab` adds to a plan: arms, launches, and one factor between them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import InputError
from harness.recipe.find import find_recipe
from harness.recipe.load import load_recipe
from harness.records.plan import PlannedComparison
from harness.records.verdict import AskedLimit
from harness.run.arms import ComparisonWish, planned_comparison, rounds_of
from harness.sweep.arms import ArmWords, with_arms
from harness.sweep.cells import expand
from tests.unit.sweep.sweeps import sweep

RECIPE = load_recipe(find_recipe("vllm-cpu-tiny")).recipe
KNOBS = "knobs: {class: prose, context_tokens: 256, concurrency: 1, output_tokens: 16}\n"
BASE, CANDIDATE = ("num_speculative_tokens=0",), ("num_speculative_tokens=4",)


def asked(text: str = "", *, base: tuple[str, ...] = BASE, candidate: tuple[str, ...] = CANDIDATE, **wish: Any) -> Any:
    same = wish.get("same", False)
    words = ArmWords(base=base, candidate=() if same else candidate, same=same)
    loaded = with_arms(sweep(KNOBS + text), words)
    groups = expand(loaded, RECIPE, arms_only=True).groups
    return planned_comparison(loaded, RECIPE, groups, ComparisonWish(**wish))


def test_a_sweep_compares_nothing() -> None:
    assert planned_comparison(sweep(KNOBS), RECIPE, (), None) is None


def test_arms_factor_and_defaults() -> None:
    found = asked()
    assert isinstance(found, PlannedComparison)
    assert found.factors == ("num_speculative_tokens",)
    assert (found.max_launches, found.sequential, found.objective) == (6, True, "seconds")
    assert not found.same and rounds_of(found) == 6


@pytest.mark.parametrize(
    ("text", "wish", "launches"),
    [
        ("repeat: {launches: 2}\n", {}, 6),
        ("repeat: {launches: 8}\n", {}, 8),
        ("repeat: {launches: 2, max_launches: 4}\n", {}, 4),
        ("repeat: {launches: 2, max_launches: 5}\n", {}, 6),  # whole blocks of A B B A
        ("repeat: {launches: 2, max_launches: 4}\n", {"max_launches": 12}, 12),
        ("", {"max_launches": 1}, 2),
        ("", {"max_launches": 3}, 4),
        ("", {"same": True}, 3),
        ("repeat: {launches: 5}\n", {"same": True}, 5),
        ("", {"same": True, "max_launches": 1}, 1),
    ],
)
def test_how_often_an_arm_is_launched_at_most(text: str, wish: dict[str, Any], launches: int) -> None:
    assert asked(text, **wish).max_launches == launches


def test_an_a_a_is_one_configuration_launched_as_often_as_two_arms() -> None:
    found = asked(same=True)
    assert found.same and found.factors == () and not found.sequential
    assert rounds_of(found) == 6


def test_fixed_means_one_look() -> None:
    assert not asked(sequential=False).sequential


def test_limits_and_checks_of_the_sweep_are_asked() -> None:
    found = asked(
        "limits: {ttft_s.p95: {at_most: 30}, worst_stream_tokens_per_s: {at_least: 8}}\nchecks: [garble]\n"
        "objective: decode_tokens_per_s\n"
    )
    assert found.limits == (
        AskedLimit(metric="ttft_s", statistic="p95", at_most=30.0),
        AskedLimit(metric="worst_stream_tokens_per_s", statistic="median", at_least=8.0),
    )
    assert (found.checks, found.objective) == (("garble",), "decode_tokens_per_s")


def test_more_than_one_factor_is_refused_and_named() -> None:
    two = ("num_speculative_tokens=4", "max_num_seqs=2")
    with pytest.raises(InputError) as caught:
        asked(candidate=two)
    assert "2 factors" in str(caught.value) and "max_num_seqs" in str(caught.value)
    assert "--allow-factors" in str(caught.value)
    assert set(asked(candidate=two, allow_factors=True).factors) == {"num_speculative_tokens", "max_num_seqs"}


def test_a_server_that_runs_already_has_no_launches_to_compare() -> None:
    attach = load_recipe(find_recipe("attach")).recipe
    loaded = with_arms(
        sweep(KNOBS + "configurations: {today: {}}\n", head="sweep: a\nrecipe: attach\n"), ArmWords(same=True)
    )
    with pytest.raises(InputError, match="one launch, so there are no launches to compare"):
        planned_comparison(loaded, attach, (), ComparisonWish(same=True))


def test_two_names_for_one_server_are_refused() -> None:
    with pytest.raises(InputError, match="both arms would be the same server"):
        asked(candidate=BASE)
