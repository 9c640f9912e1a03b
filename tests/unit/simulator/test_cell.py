"""The expected cell: chunked prefill that steals steps from decoding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.simulator.cell import CellLoad, expected_cell
from harness.simulator.model import Chunk, Scheduling, Speculation, StepLoad, step_law, step_s
from harness.simulator.truth import load_truth

TRUTH = load_truth("0731-anemll")
K5 = Speculation(k=5)


def load(prompt_tokens: int, streams: int, *, output_tokens: int = 128, cached_tokens: int = 0) -> CellLoad:
    return CellLoad(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        concurrency=streams,
        workload_class="numbered_words",
        cached_tokens=cached_tokens,
    )


def test_one_stream_decodes_at_tokens_per_step_over_step_time() -> None:
    cell = expected_cell(TRUTH, K5, Scheduling(), load(273, 1, output_tokens=4096))
    law = step_law(TRUTH, K5, workload_class="numbered_words", temperature=0.6)
    step = step_s(TRUTH.cost, StepLoad(5, 1, 2300, 6), capture_limit_tokens=36)
    assert cell.decode_tokens_per_s == pytest.approx(law.mean_tokens / step, rel=0.005)


def test_first_token_of_one_stream_waits_for_its_chunks_alone() -> None:
    cell = expected_cell(TRUTH, K5, Scheduling(), load(2065, 1))
    chunks = [Chunk(1024, 0), Chunk(1024, 1024), Chunk(17, 2048)]
    assert cell.ttft_s == pytest.approx(sum(step_s(TRUTH.cost, StepLoad(5, 0, 0, 0, (chunk,))) for chunk in chunks))


def test_a_stream_that_decodes_beside_prefills_falls_to_the_floor() -> None:
    cell = expected_cell(TRUTH, K5, Scheduling(), load(32785, 4))
    rates = [stream.decode_tokens_per_s for stream in cell.streams]
    assert max(rates[:3]) < 9 < 60 < rates[3]


def test_a_second_prefill_in_flight_triples_the_published_cell() -> None:
    """Published for this cell: 8.2 tokens/s with one prefill in flight, 24.6 with two. Neither was fitted."""
    one, two = (
        expected_cell(TRUTH, K5, Scheduling(max_inflight_prefills=limit), load(32785, 4)).decode_tokens_per_s
        for limit in (1, 2)
    )
    assert one == pytest.approx(8.2, rel=0.15)
    assert two == pytest.approx(24.6, rel=0.15)


def test_a_cached_prefix_is_not_computed_again() -> None:
    cold, warm = (
        expected_cell(TRUTH, K5, Scheduling(), load(32768, 1, cached_tokens=cached)).ttft_s for cached in (0, 32000)
    )
    assert warm < 0.05 * cold


def test_a_deep_wide_cell_costs_minutes() -> None:
    """128K x 6: the cell that a plan must warn of."""
    cell = expected_cell(TRUTH, K5, Scheduling(), load(131089, 6))
    assert cell.ttft_s == pytest.approx(282, rel=0.05)
    assert cell.wall_s == pytest.approx(488, rel=0.05)


def test_more_requests_than_slots_wait_for_one() -> None:
    cell = expected_cell(TRUTH, K5, Scheduling(max_num_seqs=2), load(273, 4))
    firsts = sorted(stream.ttft_s for stream in cell.streams)
    assert firsts[2] > firsts[1] + 1.5


def test_one_token_of_output_has_no_decode() -> None:
    cell = expected_cell(TRUTH, K5, Scheduling(), load(273, 3, output_tokens=1))
    assert cell.wall_s == pytest.approx(max(stream.ttft_s for stream in cell.streams), abs=0.005)


@settings(max_examples=15, deadline=None)
@given(
    prompt_tokens=st.integers(1, 6000),
    streams=st.integers(1, 8),
    k=st.integers(0, 9),
    output_tokens=st.integers(2, 100),
)
def test_every_stream_ends_and_none_is_faster_than_alone(
    prompt_tokens: int, streams: int, k: int, output_tokens: int
) -> None:
    asked = Speculation(k=k)
    alone = expected_cell(TRUTH, asked, Scheduling(), load(prompt_tokens, 1, output_tokens=output_tokens))
    cell = expected_cell(TRUTH, asked, Scheduling(), load(prompt_tokens, streams, output_tokens=output_tokens))
    assert len(cell.streams) == streams
    for stream in cell.streams:
        assert stream.ttft_s >= alone.ttft_s * 0.999
        assert stream.decode_tokens_per_s <= alone.decode_tokens_per_s * 1.001


def test_a_faster_engine_is_faster_in_every_cell() -> None:
    faster = replace(TRUTH, cost=replace(TRUTH.cost, base_s=TRUTH.cost.base_s / 2))
    for prompt_tokens, streams in ((273, 1), (2065, 4), (8209, 6)):
        cells = [expected_cell(truth, K5, Scheduling(), load(prompt_tokens, streams)) for truth in (faster, TRUTH)]
        assert cells[0].ttft_s < cells[1].ttft_s
        assert cells[0].decode_tokens_per_s > cells[1].decode_tokens_per_s
