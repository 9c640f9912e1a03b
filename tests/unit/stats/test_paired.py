"""Trials as tables: what one request tells, which prompts count, and where only the whole trial has the figure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.records.cell import OutputLength
from harness.records.counters import CounterDelta
from harness.records.trial import TrialRecord
from harness.stats.paired import (
    SECONDS,
    Measured,
    Pair,
    geometric_mean,
    is_higher_better,
    paired,
    request_seconds,
)
from harness.stats.summary import trial_metrics
from tests.unit.stats.arms_build import BASE, SHORT, load, measured
from tests.unit.stats.build import request, steady


def row(record: TrialRecord, **changes: Any) -> Measured:
    return Measured(trial=record, metrics=trial_metrics(record), **changes)


def pair(metric: str, base: TrialRecord, candidate: TrialRecord, **changes: Any) -> Pair:
    found = paired(metric, base.cell.load, [row(base, **changes)], [row(candidate, **changes)])
    assert isinstance(found, Pair), found
    return found


def at(factor: float, **changes: Any) -> TrialRecord:
    return measured(BASE, SHORT, factor, **changes)


def test_seconds_are_first_token_then_decode_at_the_length_that_was_asked_for() -> None:
    answer = steady(steps=10, tokens_per_step=3, step_s=0.02)  # 0.5 s, then 30 tokens in 0.2 s
    assert request_seconds(answer, 31) == pytest.approx(0.7)
    assert request_seconds(answer, 61) == pytest.approx(0.9)
    assert request_seconds(answer, 1) == pytest.approx(0.5)
    assert request_seconds(replace(answer, sent_s=None), 31) is None
    assert request_seconds(request([]), 31) is None


def test_without_counts_per_event_only_an_answer_of_that_length_tells() -> None:
    silent = request([(0.5, None), (0.7, None)], output_tokens=31)
    assert request_seconds(silent, 31) == pytest.approx(0.7)
    assert request_seconds(silent, 61) is None


def test_a_row_per_launch_and_a_column_per_prompt() -> None:
    found = pair(SECONDS, at(1.0), at(2.0))
    assert found.base.shape == found.candidate.shape == (1, 8)
    assert found.candidate - found.base == pytest.approx(-math.log(2))
    assert geometric_mean(found.base[:, :1], higher_is_better=False) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("metric", "sign"),
    [("ttft_s", -1), ("decode_tokens_per_s", -1), ("step_s", -1), ("worst_stream_tokens_per_s", -1)],
)
def test_slower_is_below_zero_whatever_the_figure(metric: str, sign: int) -> None:
    found = pair(metric, at(1.0), at(2.0))
    assert found.candidate - found.base == pytest.approx(sign * math.log(2))
    assert geometric_mean(found.base, higher_is_better=is_higher_better(metric)) > 0


def test_tokens_per_step_come_from_events_where_events_are_steps() -> None:
    assert pair("delivered_per_step", at(1.0), at(2.0)).base == pytest.approx(math.log(3))
    assert pair("delivered_per_step", at(1.0), at(2.0)).base.shape == (1, 8)
    merged = pair("delivered_per_step", at(1.0), at(2.0), doubt_kinds=frozenset({"events_merged"}))
    assert merged.base.shape == (1, 1), "from counters, for the whole trial"


def test_a_step_without_a_draft_is_one_token() -> None:
    plain = replace(at(1.0), no_speculation=True, counters=CounterDelta())
    merged = pair("delivered_per_step", plain, at(1.0), doubt_kinds=frozenset({"events_merged"}))
    assert merged.base == pytest.approx(0.0) and merged.candidate > 0


def test_only_prompts_that_every_launch_answered_count() -> None:
    lacking = at(1.0, prompts=5)
    failed = at(1.0)
    failed = replace(failed, requests=(replace(failed.requests[0], outcome="timeout"), *failed.requests[1:]))
    assert pair(SECONDS, lacking, at(1.0)).base.shape == (1, 5)
    assert pair(SECONDS, at(1.0), failed).base.shape == (1, 7)
    found = paired(SECONDS, SHORT, [row(at(1.0)), row(lacking)], [row(failed)])
    assert isinstance(found, Pair) and found.base.shape == (2, 4)


def test_nothing_that_is_not_above_zero_becomes_a_logarithm() -> None:
    odd = at(1.0)
    first = steady(steps=10, tokens_per_step=3, step_s=0.02, first_s=0.0, prompt_id="p0")
    odd = replace(odd, requests=(first, *odd.requests[1:]))
    found = pair("ttft_s", odd, at(1.0))
    assert found.base.shape == (1, 7) and np.isfinite(found.base).all()


def test_a_natural_answer_counts_by_its_usual_length_in_both_arms() -> None:
    natural = load(output=OutputLength(tokens=400, natural=True))
    long, short = at(1.0), at(1.0)
    short = replace(
        short,
        requests=tuple(
            steady(steps=5, tokens_per_step=3, step_s=0.02 * (1 + 0.05 * number), prompt_id=f"p{number}")
            for number in range(8)
        ),
    )
    both = [replace(one, cell=replace(one.cell, load=natural)) for one in (long, short)]
    found = pair(SECONDS, both[0], both[1])
    assert found.candidate == pytest.approx(found.base), "the shorter answer is not the faster one"
    seconds = geometric_mean(found.base[:, :1], higher_is_better=False)
    assert seconds == pytest.approx(0.5 + (23.5 - 1) * 0.2 / 30), "31 and 16 tokens: 23.5"


def test_engines_that_share_no_prompt_are_compared_by_trial() -> None:
    other = at(2.0)
    other = replace(other, requests=tuple(replace(one, prompt_id=f"x{one.prompt_id}") for one in other.requests))
    found = pair("decode_tokens_per_s", at(1.0), other)
    assert found.base.shape == (1, 1)
    assert found.candidate - found.base == pytest.approx(-math.log(2))
    assert pair(SECONDS, at(1.0), other).base.shape == (1, 1)


def test_what_is_missing_has_its_reason() -> None:
    assert paired(SECONDS, SHORT, [], [row(at(1.0))]) == "no valid trial of the base"
    assert paired(SECONDS, SHORT, [row(at(1.0))], []) == "no valid trial of the candidate"
    found = paired("acceptance_ratio", SHORT, [row(replace(at(1.0), counters=CounterDelta()))], [row(at(1.0))])
    assert isinstance(found, str) and found
