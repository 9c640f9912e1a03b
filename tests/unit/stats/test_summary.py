"""Formulas against requests whose answers can be worked out by hand."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records.counters import NO_COUNTERS
from harness.records.metrics import BY_POSITION, METRICS
from harness.records.request import RequestRecord
from harness.stats.summary import busy_s, quantile, trial_metrics
from tests.unit.stats.build import delta, request, steady, trial

FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_three_tokens_an_event() -> None:
    # 1 token at 0.5 s, then 10 steps of 3 tokens every 20 ms: 30 tokens in 0.2 s.
    counters = delta(
        drafts=10, draft_tokens=40, accepted_tokens=20, accepted_by_position=(10, 8, 2, 0), iterations=11, preemptions=0
    )
    metrics = trial_metrics(trial([steady(steps=10, tokens_per_step=3, step_s=0.02)], counters))
    assert metrics.values == pytest.approx(
        {
            "ttft_s": 0.5,
            "time_to_answer_s": None,
            "decode_tokens_per_s": 150.0,
            "tpot_s": 1 / 150,
            "aggregate_tokens_per_s": 31 / 0.7,
            "decode_aggregate_tokens_per_s": 150.0,
            "worst_stream_tokens_per_s": 150.0,
            "prefill_tokens_per_s": 512.0,
            "inter_chunk_p50_s": 0.02,
            "inter_chunk_p95_s": 0.02,
            "inter_chunk_max_s": 0.02,
            "acceptance_ratio": 0.5,
            "acceptance_length": 3.0,
            "delivered_per_step": 3.0,
            "step_s": 0.02,
            "iteration_s": 0.2 / 11,
            "drafts": 10.0,
            "output_tokens": 31.0,
            "prompt_tokens": 256.0,
            "cached_tokens": 0.0,
            "preemptions": 0.0,
            "request_s": 0.7,
        }
    )
    assert metrics.by_position == (1.0, 0.8, 0.2, 0.0)
    assert set(metrics.null_reasons) == {"time_to_answer_s"}
    assert "the first token is the answer's" in metrics.null_reasons["time_to_answer_s"]


def test_the_first_answer_counts_from_the_send() -> None:
    events = [(0.5, 4), (0.7, 20), (0.9, 3)]
    reasoned = request(events, sent_s=0.1, first_answer_s=0.9, answer_tokens=3)
    late = request(events, sent_s=0.3, first_answer_s=0.7, answer_tokens=23)
    cut = request(events, first_answer_s=None, answer_tokens=0)
    direct = request(events, first_answer_s=0.5, answer_tokens=27)

    assert trial_metrics(trial([reasoned])).values["time_to_answer_s"] == pytest.approx(0.8)
    assert trial_metrics(trial([reasoned, cut, late])).values["time_to_answer_s"] == pytest.approx(0.6)
    assert trial_metrics(trial([direct])).values["time_to_answer_s"] is None
    nothing = trial_metrics(trial([cut]))
    assert nothing.values["time_to_answer_s"] is None
    assert nothing.null_reasons["time_to_answer_s"] == "no request has a token of an answer"


def test_a_first_event_with_several_tokens_is_taken_off_whole() -> None:
    metrics = trial_metrics(trial([request([(0.5, 4), (0.7, 20)])]))
    assert metrics.values["decode_tokens_per_s"] == pytest.approx(100.0)


def test_merged_events_change_gaps_and_not_rates() -> None:
    split = trial([request([(0.5, 1), (0.52, 3), (0.54, 3), (0.56, 3), (0.58, 3)])])
    merged = trial([request([(0.5, 1), (0.54, 6), (0.58, 6)])])
    apart, together = trial_metrics(split).values, trial_metrics(merged).values
    assert apart["decode_tokens_per_s"] == pytest.approx(together["decode_tokens_per_s"])
    assert together["inter_chunk_p50_s"] == pytest.approx(2 * (apart["inter_chunk_p50_s"] or 0))


def test_streams_are_judged_by_median_with_the_worst_beside() -> None:
    streams = [
        steady(steps=10, tokens_per_step=3, step_s=step_s, stream=i) for i, step_s in enumerate((0.02, 0.03, 0.06))
    ]
    values = trial_metrics(trial(streams, delta(drafts=30, accepted_tokens=60, draft_tokens=120))).values
    assert values["decode_tokens_per_s"] == pytest.approx(100.0)
    assert values["worst_stream_tokens_per_s"] == pytest.approx(50.0)
    assert values["aggregate_tokens_per_s"] == pytest.approx(93 / 1.1)
    assert values["decode_aggregate_tokens_per_s"] == pytest.approx(90 / 0.6)
    assert values["step_s"] == pytest.approx((0.2 + 0.3 + 0.6) / 30)


def test_turns_of_a_stream_count_into_its_one_rate() -> None:
    fast = request([(0.5, 1), (0.6, 10)], stream=0, turn=0)
    slow = request([(1.5, 1), (1.8, 10)], stream=0, turn=1, sent_s=1.0)
    values = trial_metrics(trial([fast, slow])).values
    assert values["worst_stream_tokens_per_s"] == pytest.approx(20 / 0.4)
    # Only the first event before the window is taken off: the one of the second turn was decoded inside it.
    assert values["decode_aggregate_tokens_per_s"] == pytest.approx(21 / 1.3)


def test_overshoot_is_seen_in_the_counters_and_not_in_what_was_delivered() -> None:
    # The last draft accepted 2 tokens past max_tokens.
    counters = delta(drafts=10, draft_tokens=40, accepted_tokens=22)
    values = trial_metrics(trial([steady(steps=10, tokens_per_step=3, step_s=0.02)], counters)).values
    assert values["acceptance_length"] == pytest.approx(3.2)
    assert values["delivered_per_step"] == pytest.approx(3.0)


def test_without_speculation_a_step_is_a_token() -> None:
    counters = delta(absent_because="no speculation", iterations=11)
    metrics = trial_metrics(trial([steady(steps=10, tokens_per_step=1, step_s=0.01)], counters, k=0))
    assert metrics.values["step_s"] == pytest.approx(0.01)
    assert metrics.values["acceptance_length"] is None
    names = ("acceptance_ratio", "acceptance_length", "delivered_per_step", "drafts", BY_POSITION)
    assert {metrics.null_reasons[name] for name in names} == {"no speculation"}


def test_an_engine_of_unknown_k_without_counters_has_no_speculation() -> None:
    counters = delta(absent_because="no speculation")
    metrics = trial_metrics(trial([steady(steps=10, tokens_per_step=1, step_s=0.01)], counters, k=None))
    assert metrics.values["step_s"] == pytest.approx(0.01)


def test_nothing_drafted_is_no_acceptance_of_zero() -> None:
    counters = delta(drafts=0, draft_tokens=0, accepted_tokens=0, accepted_by_position=(0, 0))
    metrics = trial_metrics(trial([steady(steps=10, tokens_per_step=1, step_s=0.01)], counters, k=2))
    for name in ("acceptance_ratio", "acceptance_length", "delivered_per_step", "step_s"):
        assert metrics.values[name] is None
        assert metrics.null_reasons[name] == "nothing was drafted"
    assert metrics.values["drafts"] == 0.0
    assert metrics.null_reasons[BY_POSITION] == "nothing was drafted"


def test_without_counts_by_event_whole_request_figures_remain() -> None:
    events: list[tuple[float, int | None]] = [(0.5, None), (0.6, None), (0.7, None)]
    blind = request(events, output_tokens=31, token_count_source="none")
    metrics = trial_metrics(trial([blind], delta(drafts=10, accepted_tokens=20, draft_tokens=40)))
    for name in ("decode_tokens_per_s", "tpot_s", "worst_stream_tokens_per_s", "decode_aggregate_tokens_per_s"):
        assert metrics.values[name] is None
        assert "event" in metrics.null_reasons[name]
    assert metrics.values["ttft_s"] == pytest.approx(0.5)
    assert metrics.values["aggregate_tokens_per_s"] == pytest.approx(31 / 0.7)
    assert metrics.values["delivered_per_step"] == pytest.approx(3.0)
    assert metrics.values["step_s"] == pytest.approx(0.02)


def test_without_any_token_count_there_is_no_rate() -> None:
    events: list[tuple[float, int | None]] = [(0.5, None), (0.6, None)]
    values = trial_metrics(trial([request(events)])).values
    assert values["aggregate_tokens_per_s"] is None
    assert values["output_tokens"] is None
    assert values["ttft_s"] == pytest.approx(0.5)


def test_a_single_event_gives_no_rate() -> None:
    metrics = trial_metrics(trial([request([(0.5, 31)])]))
    assert metrics.values["decode_tokens_per_s"] is None
    assert "two events" in metrics.null_reasons["decode_tokens_per_s"]
    assert metrics.values["inter_chunk_p50_s"] is None


def test_an_aborted_stream_counts_for_the_trial_and_not_for_the_request_figures() -> None:
    good = steady(steps=10, tokens_per_step=3, step_s=0.02)
    cut = replace(request([(0.5, 1), (9.5, 3)], stream=1), outcome="broken_stream", finish_reason=None)
    values = trial_metrics(trial([good, cut])).values
    assert values["decode_tokens_per_s"] == pytest.approx(150.0)
    assert values["aggregate_tokens_per_s"] == pytest.approx(35 / 9.5)


def test_when_nothing_finished_everything_is_null_with_the_failure() -> None:
    metrics = trial_metrics(trial([], NO_COUNTERS, failure="the engine died"))
    assert set(metrics.values) == set(METRICS)
    assert set(metrics.values.values()) == {None}
    assert set(metrics.null_reasons.values()) == {"the engine died"}
    assert set(metrics.null_reasons) == {*METRICS, BY_POSITION}


def test_uncached_prompt_tokens_come_from_the_answer_else_from_an_empty_cache() -> None:
    def prefill(cached: int | None, hits: int | None) -> float | None:
        one = request([(0.5, 1), (0.6, 1)], cached_tokens=cached)
        return trial_metrics(trial([one], delta(prefix_cache_hits=hits))).values["prefill_tokens_per_s"]

    assert prefill(56, None) == pytest.approx(400.0)
    assert prefill(None, 0) == pytest.approx(512.0)
    assert prefill(None, 64) is None
    assert prefill(256, None) is None


@given(
    steps=st.integers(2, 60),
    tokens=st.integers(1, 8),
    step_s=st.floats(0.001, 1.0),
    streams=st.integers(1, 8),
)
def test_identity_of_rate_step_and_tokens(steps: int, tokens: int, step_s: float, streams: int) -> None:
    requests = [steady(steps=steps, tokens_per_step=tokens, step_s=step_s, stream=i) for i in range(streams)]
    drafts = steps * streams
    counters = delta(drafts=drafts, draft_tokens=8 * drafts, accepted_tokens=(tokens - 1) * drafts)
    values = trial_metrics(trial(requests, counters, k=8)).values
    rate, step, length = (values[name] for name in ("decode_tokens_per_s", "step_s", "acceptance_length"))
    assert rate is not None and step is not None and length is not None
    assert rate * step == pytest.approx(length)
    assert values["inter_chunk_p50_s"] == pytest.approx(step)
    assert values["delivered_per_step"] == pytest.approx(length)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)).map(lambda pair: (min(pair), max(pair))), max_size=8))
def test_busy_time_is_a_union(intervals: list[tuple[float, float]]) -> None:
    busy = busy_s(intervals)
    assert busy <= sum(end - start for start, end in intervals) + 1e-9
    assert busy >= max((end - start for start, end in intervals), default=0.0) - 1e-9
    assert busy == pytest.approx(busy_s(intervals + intervals))


def test_quantiles_interpolate() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([1.0], 0.95) == 1.0
    assert quantile([1.0, 3.0], 1.0) == 3.0


def test_a_recorded_stream_gives_the_published_figures() -> None:
    """One 1024-token stream of vLLM 0.26, dspark, k = 5; expected values were worked out when it was captured."""
    summary = json.loads((FIXTURES / "metrics" / "dspark_k5_c1_summary.json").read_text())["delta"]
    prefix = "spec_decode_num_accepted_tokens_per_pos_total"
    counters = delta(
        drafts=round(summary["spec_decode_num_drafts_total"]),
        draft_tokens=round(summary["spec_decode_num_draft_tokens_total"]),
        accepted_tokens=round(summary["spec_decode_num_accepted_tokens_total"]),
        accepted_by_position=tuple(round(summary[f"{prefix}[{i}]"]) for i in range(5)),
        iterations=round(summary["iteration_tokens_total_count"]),
    )
    metrics = trial_metrics(trial([_recorded()], counters, k=5))
    values = metrics.values
    assert values["decode_tokens_per_s"] == pytest.approx(1579.21, abs=0.1)
    assert values["ttft_s"] == pytest.approx(0.01803, abs=1e-5)
    assert values["acceptance_length"] == pytest.approx(4.0754, abs=1e-4)
    assert values["delivered_per_step"] == pytest.approx(4.0595, abs=1e-4)
    assert metrics.by_position == pytest.approx((0.8810, 0.7421, 0.5873, 0.4921, 0.3730), abs=1e-4)
    assert values["step_s"] == pytest.approx(0.002571, abs=1e-6)
    assert values["iteration_s"] == pytest.approx(0.00256, abs=1e-6)
    # The capture took the lower of the two middle gaps; ours is between them.
    assert values["inter_chunk_p50_s"] == pytest.approx(0.002541, abs=5e-6)
    assert values["inter_chunk_max_s"] == pytest.approx(0.004597, abs=1e-6)


def _recorded() -> RequestRecord:
    raw = (FIXTURES / "stats" / "dspark_k5_c1_stream.http").read_bytes()
    lines = (FIXTURES / "stats" / "dspark_k5_c1_reads.csv").read_text().splitlines()
    sent_ns = int(re.search(r"t_send_ns=(\d+)", lines[0])[1])  # type: ignore[index]  # the capture always has it
    reads = [(int(row["offset"]) + int(row["bytes"]), int(row["t_ns"])) for row in csv.DictReader(lines[1:])]
    events: list[tuple[float, int | None]] = []
    for match in re.finditer(rb"data: (\{.*\})", raw):
        arrived_ns = next(at_ns for end, at_ns in reads if end >= match.end())
        choices = json.loads(match[1])["choices"]
        if choices and choices[0].get("token_ids"):
            events.append(((arrived_ns - sent_ns) / 1e9, len(choices[0]["token_ids"])))
    return request(events)
