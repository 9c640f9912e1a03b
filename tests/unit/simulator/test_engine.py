"""The engine loop: what it hands out, what it counts, what a scenario makes of it, and that it repeats."""

from __future__ import annotations

import itertools
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.simulator.cell import CellLoad, expected_cell
from harness.simulator.engine import JIT_LINE
from harness.simulator.faults import ForeignTraffic, JitStall, SlowState
from harness.simulator.model import Scheduling, Speculation, StepLoad, step_s
from harness.simulator.noise import Noise
from tests.unit.simulator.engines import engine_of, order_of, run, scenario, tokens_of

TRUTH = scenario().truth


@given(
    k=st.integers(0, 8),
    streams=st.lists(
        st.tuples(st.floats(0, 3), st.integers(1, 3000), st.integers(1, 80), st.floats(0, 1)), min_size=1, max_size=8
    ),
    seats=st.integers(1, 6),
)
def test_every_request_gets_what_it_asked_for_and_counters_agree(
    k: int, streams: list[tuple[float, int, int, float]], seats: int
) -> None:
    engine = engine_of(k=k, scheduling=Scheduling(max_num_seqs=seats))
    orders = [
        (sent_s, order_of(f"p{index}", prompt_tokens=prompt, max_tokens=tokens, temperature=temperature))
        for index, (sent_s, prompt, tokens, temperature) in enumerate(streams)
    ]
    batches = run(engine, orders)
    counters = engine.counters
    for (sent_s, order), got in zip(orders, batches, strict=True):
        assert sum(tokens_of(got)) == order.max_tokens
        assert [batch.finish_reason for batch in got] == [None] * (len(got) - 1) + ["length"]
        assert [batch.at_s for batch in got] == sorted({batch.at_s for batch in got})
        assert got[0].at_s > sent_s and got[0].tokens == 1
    served = sum(order.max_tokens for _, order in orders)
    assert counters.generation_tokens == served
    assert counters.prompt_tokens == sum(len(order.prompt) // 4 for _, order in orders)
    assert counters.finished["length"] == len(orders)
    assert counters.draft_tokens == k * counters.drafts
    assert sum(counters.accepted_by_position) == counters.accepted_tokens
    assert counters.accepted_by_position == sorted(counters.accepted_by_position, reverse=True)
    if k:
        made = len(orders) + counters.drafts + counters.accepted_tokens
        assert 0 <= made - served <= k * len(orders)  # accepted past the end: counted, and not sent
    assert counters.iteration_tokens.total == counters.generation_tokens + counters.prompt_tokens
    assert (counters.running, counters.waiting, counters.kv_tokens) == (0, 0, 0)


@pytest.mark.parametrize(("streams", "prompt_tokens"), [(1, 256), (2, 2048), (4, 256), (6, 256), (6, 8192), (4, 32768)])
def test_without_drafts_it_is_the_calibrated_model_to_the_last_digit(streams: int, prompt_tokens: int) -> None:
    load = CellLoad(
        prompt_tokens=prompt_tokens,
        output_tokens=128,
        concurrency=streams,
        workload_class="code",
        temperature=0.0,
    )
    expected = expected_cell(TRUTH, Speculation(k=0), Scheduling(), load)
    orders = [
        (0.002 * index, order_of(f"{index}", prompt_tokens=prompt_tokens, max_tokens=128)) for index in range(streams)
    ]
    batches = run(engine_of(k=0), orders)
    ttft_s = [got[0].at_s - sent_s for (sent_s, _), got in zip(orders, batches, strict=True)]
    assert ttft_s == pytest.approx([stream.ttft_s for stream in expected.streams], rel=1e-6)
    decode_s = [got[-1].at_s - got[0].at_s for got in batches]
    assert decode_s == pytest.approx([stream.decode_s for stream in expected.streams], rel=1e-6)


def test_with_drafts_rates_are_those_of_the_calibrated_model() -> None:
    load = CellLoad(prompt_tokens=256, output_tokens=512, concurrency=1, workload_class="code", temperature=0.0)
    expected = expected_cell(TRUTH, Speculation(k=5), Scheduling(), load)
    rates = []
    for number in range(20):
        (got,) = run(engine_of(), [(0.0, order_of(f"{number}", max_tokens=512))])
        rates.append(511 / (got[-1].at_s - got[0].at_s))
    assert mean(rates) == pytest.approx(expected.decode_tokens_per_s, rel=0.05)


def test_a_lone_stream_steps_at_the_cost_of_the_model() -> None:
    engine = engine_of(k=0)
    (got,) = run(engine, [(0.0, order_of(max_tokens=8))])
    gaps = [later.at_s - earlier.at_s for earlier, later in itertools.pairwise(got)]
    assert gaps == pytest.approx([step_s(TRUTH.cost, StepLoad(0, 1, 256 + made, 1)) for made in range(1, 8)])


def test_equal_runs_are_equal_and_other_seeds_and_launches_are_not() -> None:
    noisy = Noise(launch_sd=0.02, step_sd=0.02, acceptance_sd=0.3)

    def one(*, seed: int = 1, launch_key: str = "a") -> list[list[object]]:
        orders = [(0.1 * index, order_of(f"{index}")) for index in range(3)]
        got = run(engine_of(scenario(noise=noisy, seed=seed), launch_key=launch_key), orders)
        return [list(batches) for batches in got]

    assert one() == one()
    assert one(seed=2) != one() != one(launch_key="b")


def test_the_same_text_is_drafted_alike_in_every_launch_and_for_every_k() -> None:
    def accepted(k: int, launch_key: str) -> list[int]:
        engine = engine_of(scenario(noise=Noise(launch_sd=0.1, step_sd=0.1)), k=k, launch_key=launch_key)
        (got,) = run(engine, [(0.0, order_of(max_tokens=128))])
        return tokens_of(got)

    assert accepted(5, "a") == accepted(5, "b")
    deep, shallow = accepted(7, "a"), accepted(3, "a")
    # Both begin at the same place, and a shallow draft is the deep one cut short.
    assert shallow[1] == min(deep[1], 4)


def test_sampling_follows_its_seed() -> None:
    def answer(seed: int) -> str:
        engine = engine_of()
        job = engine.submit(order_of(temperature=1.0, seed=seed), 0.0, lambda batch: None)
        return job.fate.answer.text(0, 8)

    assert answer(1) == answer(1) != answer(2)


def test_requests_beyond_the_seats_wait_for_one() -> None:
    engine = engine_of(scheduling=Scheduling(max_num_seqs=2))
    orders = [(0.0, order_of(f"{index}", max_tokens=32)) for index in range(4)]
    first, second, third, fourth = run(engine, orders)
    seated = min(first[-1].at_s, second[-1].at_s)
    assert third[0].at_s > seated and fourth[0].at_s > seated


def test_a_long_prompt_leaves_steps_to_the_streams_that_decode() -> None:
    orders = [(0.0, order_of("short", max_tokens=256)), (1.0, order_of("long", prompt_tokens=16384, max_tokens=2))]
    short, long = run(engine_of(k=0), orders)
    during = [batch for batch in short if 1.0 < batch.at_s < long[0].at_s]
    assert len(during) >= 14  # a step for each chunk of the long prompt
    gaps = [later.at_s - earlier.at_s for earlier, later in itertools.pairwise(during[2:])]
    alone = short[2].at_s - short[1].at_s
    assert min(gaps) > 2 * alone


def test_a_prefix_that_was_computed_before_is_not_computed_again() -> None:
    engine = engine_of()
    first = order_of("a", prompt_tokens=4096)
    (cold,) = run(engine, [(0.0, first)])
    began_s = cold[-1].at_s + 1
    (warm,) = run(engine, [(began_s, first)])
    assert warm[0].at_s - began_s < (cold[0].at_s - 0.0) / 3
    assert engine.counters.prefix_cache_queries == 2 * 4096
    assert engine.counters.prefix_cache_hits == 4096 - 64  # its last block is computed for its last token


def test_an_answer_is_part_of_the_next_turn_s_prefix() -> None:
    engine = engine_of()
    first = order_of("a", prompt_tokens=640, max_tokens=128)
    answers: list[str] = []
    job = engine.submit(first, 0.0, lambda batch: None)
    engine.advance(0.0)
    while engine.busy:
        engine.advance(engine.due_s() or 0.0)
    answers.append(job.fate.answer.text(0, 128))
    turn = order_of("b")
    prompt = first.prompt + answers[0].encode() + b" and so on " * 30
    follow = engine.submit(
        type(turn)(prompt=prompt, key="b", workload_class="code", max_tokens=1), 100.0, lambda b: None
    )
    engine.advance(100.0)
    assert follow.cached == 768


def test_other_salts_share_nothing() -> None:
    engine = engine_of()
    run(engine, [(0.0, order_of(prompt_tokens=1024)), (50.0, order_of(prompt_tokens=1024, salt=b"x"))])
    assert engine.counters.prefix_cache_hits == 0


def test_without_a_prefix_cache_nothing_is_looked_up() -> None:
    engine = engine_of(prefix_caching=False)
    run(engine, [(0.0, order_of()), (50.0, order_of())])
    assert (engine.counters.prefix_cache_queries, engine.counters.prefix_cache_hits) == (0, 0)


def test_an_abandoned_request_leaves_at_once_and_stays_counted() -> None:
    engine = engine_of()
    got: list[object] = []
    job = engine.submit(order_of(max_tokens=1000), 0.0, got.append)
    engine.advance(0.0)
    for _ in range(5):
        engine.advance(engine.due_s() or 0.0)
    before = len(got)
    engine.abort(job)
    engine.advance(engine.due_s() or 0.0)
    assert len(got) == before == 5
    assert engine.running == 0 and not engine.busy
    assert engine.counters.generation_tokens == job.made > 1
    assert sum(engine.counters.finished.values()) == 0


def test_a_natural_answer_ends_by_itself() -> None:
    order = order_of(max_tokens=4000, ignore_eos=False)
    (got,) = run(engine_of(), [(0.0, order)])
    assert got[-1].finish_reason == "stop"
    assert 250 < sum(tokens_of(got)) < 1000


# Faults.


def test_a_slow_node_makes_every_step_longer() -> None:
    def seconds(**faults: Any) -> float:
        (got,) = run(engine_of(scenario(**faults)), [(0.0, order_of())])
        return got[-1].at_s - got[0].at_s

    assert seconds(slow_state=SlowState(factor=1.5)) == pytest.approx(1.5 * seconds())


def test_counters_lag_behind_what_was_served() -> None:
    engine = engine_of(scenario(counter_lag_s=2.0))
    (got,) = run(engine, [(0.0, order_of())])
    ended_s = got[-1].at_s
    assert engine.counters_seen(ended_s).generation_tokens < 64
    assert engine.counters_seen(ended_s + 1.9).generation_tokens < 64
    assert engine.counters_seen(ended_s + 2.1).generation_tokens == 64


def test_a_stale_worker_runs_another_k() -> None:
    engine = engine_of(scenario(stale_k=3))
    run(engine, [(0.0, order_of())])
    assert engine.counters.draft_tokens == 3 * engine.counters.drafts
    assert len(engine.counters.accepted_by_position) == 3


def test_the_engine_dies_after_so_much_work_and_says_so_to_everybody() -> None:
    engine = engine_of(scenario(engine_dies_after_s=2.0))
    batches = run(engine, [(0.0, order_of("a", max_tokens=1000)), (0.5, order_of("b", max_tokens=1000))])
    assert engine.dead
    assert [got[-1].error for got in batches] == [True, True]
    assert engine.due_s() is None
    engine.advance(100.0)


def test_a_new_shape_stalls_once_and_leaves_a_line_in_the_log() -> None:
    lines: list[str] = []
    made = scenario(jit_stall=JitStall(stall_s=3.0))
    engine = type(engine_of())(made, engine_of().settings, launch_key="a", log=lines.append)
    first, second = run(engine, [(0.0, order_of("a", max_tokens=8)), (60.0, order_of("b", max_tokens=8))])
    assert max(later.at_s - earlier.at_s for earlier, later in itertools.pairwise(first)) > 3.0
    assert second[-1].at_s - 60.0 < 3.0
    assert lines and set(lines) == {JIT_LINE}


def test_foreign_traffic_is_counted_and_takes_time() -> None:
    engine = engine_of(scenario(foreign_traffic=ForeignTraffic(every_s=1.0, prompt_tokens=100, output_tokens=10)))
    (got,) = run(engine, [(0.0, order_of(max_tokens=512))])
    assert engine.counters.generation_tokens > 512
    alone = run(engine_of(), [(0.0, order_of(max_tokens=512))])[0]
    assert got[-1].at_s > alone[-1].at_s


def test_a_looping_answer_repeats_and_accepts_nearly_every_draft() -> None:
    engine = engine_of(scenario(loop_share=1.0))
    job = engine.submit(order_of(max_tokens=64, workload_class="prose"), 0.0, lambda batch: None)
    engine.advance(0.0)
    while engine.busy:
        engine.advance(engine.due_s() or 0.0)
    words = job.fate.answer.text(0, 64).split()
    assert len(set(words)) <= 4
    assert engine.counters.accepted_tokens / engine.counters.draft_tokens > 0.75


def test_cold_prompts_that_hit_the_cache_all_the_same() -> None:
    engine = engine_of(scenario(prefix_hit_ratio=0.5))
    run(engine, [(0.0, order_of(prompt_tokens=1024))])
    assert engine.counters.prefix_cache_hits == 448


def test_a_truncated_capture_costs_the_widest_step_its_graph() -> None:
    def rate(limit: int | None) -> float:
        orders = [(0.0, order_of(f"{index}")) for index in range(6)]
        batches = run(engine_of(scenario(capture_limit_tokens=limit), k=6), orders)
        return mean(63 / (got[-1].at_s - got[0].at_s) for got in batches)

    assert rate(40) < 0.95 * rate(96)
