"""Bounds of a sweep against what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from harness.records.cell import LoadPoint
from harness.records.verdict import AskedLimit
from harness.stats.limits import broken_limits, statistic_of
from harness.stats.paired import Measured
from harness.stats.summary import trial_metrics
from tests.unit.stats.arms_build import BASE, SHORT, WIDE, measured


def row(factor: float) -> Measured:
    record = measured(BASE, SHORT, factor)
    return Measured(trial=record, metrics=trial_metrics(record))


def asked(metric: str, statistic: str = "median", **bound: Any) -> AskedLimit:
    return AskedLimit(metric=metric, statistic=statistic, **bound)


@pytest.mark.parametrize(
    ("metric", "statistic", "value"),
    [
        ("ttft_s", "median", 0.5),
        ("ttft_s", "max", 0.5),
        ("request_s", "min", 0.7),
        ("request_s", "max", 0.5 + 0.2 * 1.35),
        ("request_s", "mean", 0.5 + 0.2 * 1.175),
        ("decode_tokens_per_s", "max", 150.0),
        ("tpot_s", "min", 1 / 150),
    ],
)
def test_statistics_over_requests_or_trials(metric: str, statistic: str, value: float) -> None:
    assert statistic_of(asked(metric, statistic), [row(1.0)]) == pytest.approx(value)


def test_a_percentile_is_over_the_requests_of_all_launches() -> None:
    rows = [row(1.0), row(2.0)]
    assert statistic_of(asked("ttft_s", "p95"), rows) == pytest.approx(1.0)
    assert statistic_of(asked("ttft_s", "p50"), rows) == pytest.approx(0.75)


def test_nothing_measured_breaks_nothing() -> None:
    assert statistic_of(asked("ttft_s"), []) is None
    assert broken_limits([asked("ttft_s", at_most=0.0)], [SHORT], lambda _: [], lambda _: []) == ()


def test_each_arm_and_load_is_named() -> None:
    def rows(factor: float) -> Any:
        def of(load: LoadPoint) -> Sequence[Measured]:
            return [row(factor)] if load == SHORT else []

        return of

    limits = [asked("ttft_s", "p95", at_most=0.9), asked("decode_tokens_per_s", at_least=100.0)]
    found = broken_limits(limits, [SHORT, WIDE], rows(1.0), rows(2.0))
    assert [(one.limit, one.bound, one.arm, one.load) for one in found] == [
        ("ttft_s.p95", "at most 0.90", "candidate", SHORT),
        ("decode_tokens_per_s.median", "at least 100", "candidate", SHORT),
    ]
    assert found[0].value == pytest.approx(1.0)


@pytest.mark.parametrize(("limit", "kept"), [(math.nextafter(0.5, 1), True), (0.5, True), (0.499, False)])
def test_a_bound_that_is_met_is_kept(limit: float, kept: bool) -> None:
    found = broken_limits([asked("ttft_s", at_most=limit)], [SHORT], lambda _: [row(1.0)], lambda _: [])
    assert (found == ()) is kept
