"""What a confirmation says: launches of its own, and the best of those that are better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.stats.confirm import Confirmed, confirmed
from harness.stats.noise import NoiseBook
from tests.unit.stats.arms_build import CANDIDATE
from tests.unit.stats.tune_build import THIRD, searched


def found(search: Mapping[str, float], confirming: Mapping[str, Sequence[float]]) -> Confirmed:
    result = confirmed(searched(search, confirming), NoiseBook())
    assert result is not None
    return result


def test_before_anything_was_confirmed_there_is_nothing() -> None:
    assert confirmed(searched({"A": 1.0, "B": 0.8}, {}), NoiseBook()) is None
    assert confirmed(searched({"A": 1.0}, {"A": [1.0]}), NoiseBook()) is None, "no finalist was launched yet"


def test_a_lucky_launch_of_the_search_counts_for_nothing() -> None:
    result = found({"A": 1.0, "B": 0.7}, {"A": [1.0, 1.01, 0.99], "B": [1.0, 0.99, 1.01]})
    assert result.pick is None
    (one,) = result.comparisons
    assert one.effect is not None
    assert abs(one.effect.log_ratio) < 0.01
    assert one.effect.launches == (3, 3)


def test_the_best_of_those_that_are_better_is_the_pick() -> None:
    result = found(
        {"A": 1.0, "B": 0.8, "C": 0.7},
        {"A": [1.0, 1.01, 0.99], "B": [0.8, 0.81, 0.79], "C": [0.7, 0.71, 0.69]},
    )
    assert [one.candidate.configuration for one in result.comparisons] == [THIRD, CANDIDATE]
    assert result.pick is not None and result.pick.candidate.configuration == THIRD
    assert all(one.verdict == "better" for one in result.comparisons)


def test_several_finalists_share_the_false_alarms() -> None:
    confirming = {"A": [1.0, 1.02, 0.98], "B": [0.9, 0.91, 0.89]}
    alone = found({"A": 1.0, "B": 0.9}, confirming).comparisons[0]
    beside = found({"A": 1.0, "B": 0.9, "C": 1.0}, {**confirming, "C": [1.0, 1.01, 0.99]}).comparisons[0]
    assert alone.effect is not None and beside.effect is not None
    assert beside.effect.low < alone.effect.low, "a wider interval"


def test_without_the_incumbent_there_is_no_verdict() -> None:
    assert confirmed(searched({"B": 0.8}, {"B": [0.8, 0.8]}), NoiseBook()) is None
