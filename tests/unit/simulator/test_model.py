"""The step model: what runs, what it costs, what comes out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.simulator.model import (
    Chunk,
    ConfidenceScheduler,
    PromptState,
    Scheduling,
    Speculation,
    StepLaw,
    StepLoad,
    acceptance,
    graph_tokens,
    outcome_of,
    plan_chunks,
    require_speculation,
    step_law,
    step_s,
)
from harness.simulator.truth import StepCost, Truth, load_truth

TRUTH = load_truth("0731-anemll")
COST = StepCost(
    base_s=0.04,
    experts_s=0.0,
    experts_half_tokens=1.0,
    compute_s_per_token=0.002,
    attention_s_per_token2=0.0,
    chunk_s_per_token2=0.0,
    context_s_per_token=0.0,
    draft_s=0.003,
    draft_s_per_position=0.001,
)


def prompt(tokens: int, *, done: int = 0, cached: int = 0) -> PromptState:
    return PromptState(tokens, cached, done)


def decode(k: int, streams: int, *, context_tokens: int = 0) -> StepLoad:
    return StepLoad(k, streams, context_tokens, streams * (k + 1))


class TestPlan:
    def test_a_long_prompt_runs_in_chunks_until_its_rest(self) -> None:
        scheduling = Scheduling()
        assert plan_chunks(scheduling, decoding=0, k=5, prompts=[prompt(2065)]) == (Chunk(1024, 0),)
        assert plan_chunks(scheduling, decoding=0, k=5, prompts=[prompt(2065, done=2048)]) == (Chunk(17, 2048),)

    def test_one_long_prompt_at_a_time_and_short_ones_pass_it(self) -> None:
        prompts = [prompt(4096), prompt(4096), prompt(300), prompt(300)]
        plan = plan_chunks(Scheduling(), decoding=0, k=5, prompts=prompts)
        assert plan == (Chunk(1024, 0), None, Chunk(300, 0), Chunk(300, 0))

    def test_two_long_prompts_share_a_step_if_two_may_be_in_flight(self) -> None:
        plan = plan_chunks(Scheduling(max_inflight_prefills=2), decoding=0, k=5, prompts=[prompt(4096)] * 3)
        assert plan == (Chunk(1024, 0), Chunk(1024, 0), None)

    def test_without_the_gate_prompts_fill_the_step_in_order(self) -> None:
        scheduling = Scheduling(long_prefill_tokens=0)
        plan = plan_chunks(scheduling, decoding=1, k=5, prompts=[prompt(8000), prompt(8000), prompt(8000)])
        assert plan == (Chunk(8000, 0), Chunk(186, 0), None)

    def test_decoding_streams_take_slots_and_tokens_first(self) -> None:
        scheduling = Scheduling(max_num_seqs=2, max_batched_tokens=100)
        assert plan_chunks(scheduling, decoding=2, k=5, prompts=[prompt(50)]) == (None,)
        assert plan_chunks(scheduling, decoding=1, k=5, prompts=[prompt(500)]) == (Chunk(94, 0),)

    def test_cached_tokens_are_not_computed_but_the_last_one_is(self) -> None:
        plan = plan_chunks(Scheduling(), decoding=0, k=5, prompts=[prompt(4096, cached=4000), prompt(64, cached=64)])
        assert plan == (Chunk(96, 4000), Chunk(1, 64))

    @given(
        prompts=st.lists(
            st.builds(prompt, st.integers(1, 40000), done=st.just(0), cached=st.integers(0, 1)), max_size=12
        ),
        decoding=st.integers(0, 8),
        k=st.integers(0, 9),
        threshold=st.sampled_from([0, 256, 1024]),
        inflight=st.integers(1, 3),
    )
    def test_no_limit_is_passed(
        self, prompts: list[PromptState], decoding: int, k: int, threshold: int, inflight: int
    ) -> None:
        scheduling = Scheduling(max_num_seqs=8, long_prefill_tokens=threshold, max_inflight_prefills=inflight)
        plan = plan_chunks(scheduling, decoding=decoding, k=k, prompts=prompts)
        given_out = [(each, chunk) for each, chunk in zip(prompts, plan, strict=True) if chunk is not None]
        assert sum(chunk.tokens for _, chunk in given_out) + decoding * (k + 1) <= scheduling.max_batched_tokens
        assert len(given_out) + decoding <= scheduling.max_num_seqs
        assert all(
            0 < chunk.tokens <= each.prompt_tokens - each.cached_tokens or each.cached_tokens
            for each, chunk in given_out
        )
        long = [each for each, _ in given_out if 0 < threshold < each.prompt_tokens - each.cached_tokens]
        assert len(long) <= inflight


class TestStep:
    def test_it_is_linear_in_k_and_steeper_with_more_streams(self) -> None:
        def slope(streams: int) -> float:
            low, high = (step_s(COST, decode(k, streams)) for k in (3, 7))
            return (high - low) / 4

        assert step_s(COST, decode(3, 1)) == pytest.approx(0.04 + 0.002 * 4 + 0.003 + 0.001 * 3)
        assert slope(1) == pytest.approx(0.001 + 0.002)
        assert slope(6) == pytest.approx(0.001 + 0.002 * 6)

    def test_no_speculation_has_no_drafter(self) -> None:
        assert step_s(COST, decode(0, 1)) == pytest.approx(0.042)

    def test_an_idle_engine_costs_nothing(self) -> None:
        assert step_s(COST, decode(5, 0)) == 0.0

    def test_a_mixed_step_costs_about_its_chunk(self) -> None:
        alone = step_s(TRUTH.cost, StepLoad(5, 0, 0, 0, (Chunk(1024, 0),)))
        mixed = step_s(TRUTH.cost, StepLoad(5, 1, 300, 6, (Chunk(1024, 0),)))
        assert step_s(TRUTH.cost, decode(5, 1)) < 0.07
        assert alone < mixed < alone * 1.03

    def test_the_same_chunk_costs_more_deeper_in_a_prompt(self) -> None:
        first, deep = (step_s(TRUTH.cost, StepLoad(5, 0, 0, 0, (Chunk(1024, at),))) for at in (0, 120_000))
        assert deep == pytest.approx(first + 120_000 * 1024 * TRUTH.cost.attention_s_per_token2)

    def test_computing_hides_behind_reading_the_weights_up_to_a_width(self) -> None:
        cost = replace(COST, overlapped_tokens=30.0)
        assert step_s(cost, decode(3, 1)) == step_s(cost, decode(3, 6))
        assert step_s(cost, decode(3, 10)) == pytest.approx(step_s(cost, decode(3, 1)) + 0.002 * 10)

    def test_trimming_drafts_saves_tokens_and_costs_the_copy(self) -> None:
        cost = replace(COST, confidence_sync_s=0.0005)
        trimmed = StepLoad(5, 4, 0, 12)
        assert step_s(cost, trimmed) == pytest.approx(step_s(COST, decode(5, 4)) - 0.002 * 12 + 0.0005)

    @given(k=st.integers(0, 9), streams=st.integers(1, 16), more=st.integers(1, 8))
    def test_more_work_never_costs_less(self, k: int, streams: int, more: int) -> None:
        now = step_s(TRUTH.cost, decode(k, streams, context_tokens=1000))
        assert step_s(TRUTH.cost, decode(k, streams + more, context_tokens=1000)) >= now
        assert step_s(TRUTH.cost, decode(k, streams, context_tokens=1000 + more)) > now


class TestGraphs:
    @pytest.mark.parametrize(
        ("tokens", "k", "limit", "width"),
        [
            (42, 6, 48, 42),
            (42, 6, 42, None),  # the limit is cut to 40
            (36, 5, 36, None),  # cut to 32
            (36, 5, 40, 36),
            (12, 3, 24, 16),  # 3 streams cost as much as 4
            (20, 3, 24, 24),
            (6, 5, 36, 6),
            (1, 0, 0, None),
            (36, 5, None, 36),
            (7, 0, None, 8),
        ],
    )
    def test_width_of_the_graph(self, tokens: int, k: int, limit: int | None, width: int | None) -> None:
        assert graph_tokens(tokens, k=k, capture_limit_tokens=limit) == width

    def test_a_missing_graph_costs_its_ratio(self) -> None:
        cost = replace(COST, eager_ratio=1.14)
        with_graph, without = (step_s(cost, decode(6, 6), capture_limit_tokens=limit) for limit in (48, 42))
        assert without == pytest.approx(1.14 * with_graph)

    def test_published_streams_cost_alike_where_their_graph_is_the_same(self) -> None:
        """At k = 3 the pair gave 3 and 4 streams about the same rate each, and 5 and 6."""
        steps = [step_s(TRUTH.cost, decode(3, streams), capture_limit_tokens=24) for streams in (2, 3, 4, 5, 6)]
        assert steps[1] == steps[2] and steps[3] == steps[4]
        assert steps[0] < steps[1] < steps[3]


def law_of(
    truth: Truth = TRUTH,
    *,
    k: int = 5,
    method: str = "probabilistic",
    temperature: float = 0.6,
    context_tokens: int = 0,
) -> StepLaw:
    speculation = Speculation(k=k, draft_sample_method=method)
    return step_law(truth, speculation, workload_class="code", temperature=temperature, context_tokens=context_tokens)


class TestAcceptance:
    def test_the_curve_falls_with_position_faster_past_the_block_and_is_the_same_at_every_k(self) -> None:
        curves = [acceptance(TRUTH, Speculation(k=k), workload_class="code", temperature=0.6) for k in (3, 7)]
        assert curves[1][:3] == pytest.approx(curves[0])
        falls = [earlier - later for earlier, later in pairwise(curves[1])]
        assert all(fall > 0 for fall in falls)
        assert min(falls[4:]) > 3 * max(falls[:4])

    def test_no_speculation_brings_one_token(self) -> None:
        law = law_of(k=0)
        assert law.mean_tokens == 1.0
        assert outcome_of(law, 0.99) == (0, 0)
        assert acceptance(TRUTH, Speculation(k=0), workload_class="code", temperature=0.6) == ()

    def test_classes_differ_as_published(self) -> None:
        ratios = {
            name: (step_law(TRUTH, Speculation(k=5), workload_class=name, temperature=0.6).mean_tokens - 1) / 5
            for name in ("code", "prose")
        }
        assert ratios == pytest.approx({"code": 0.733, "prose": 0.257}, abs=0.005)

    def test_a_greedy_drafter_is_accepted_less_while_the_target_samples(self) -> None:
        assert law_of(method="greedy").mean_tokens < law_of().mean_tokens
        assert law_of(method="greedy", temperature=0.0) == law_of(temperature=0.0)

    def test_heat_context_and_depth_shift_the_curve_where_a_truth_says_so(self) -> None:
        drafts = replace(
            TRUTH.drafts,
            log_odds_per_temperature=-1.0,
            beyond_block_log_odds=-0.5,
            log_odds_per_context_doubling=-0.1,
        )
        shifted = replace(TRUTH, drafts=drafts)
        assert law_of(shifted) == law_of()
        assert law_of(shifted, temperature=1.0).mean_tokens < law_of().mean_tokens
        assert law_of(shifted, context_tokens=32768).mean_tokens < law_of().mean_tokens
        assert acceptance(shifted, Speculation(k=6), workload_class="code", temperature=0.6)[0] < 0.9

    def test_a_threshold_trims_drafts_and_raises_the_ratio(self) -> None:
        truth = load_truth("preview-stage-c")

        def law(threshold: float, scheduler: ConfidenceScheduler = "threshold") -> StepLaw:
            asked = Speculation(k=5, confidence_threshold=threshold, confidence_scheduler=scheduler)
            return step_law(truth, asked, workload_class="agent", temperature=0.6)

        free, cut = law(0.0), law(0.5)
        assert cut.mean_drafted < free.mean_drafted == pytest.approx(5)
        assert cut.mean_tokens < free.mean_tokens
        assert (cut.mean_tokens - 1) / cut.mean_drafted > (free.mean_tokens - 1) / free.mean_drafted
        assert law(0.5, "off") == free

    def test_an_unknown_class_names_the_known_ones(self) -> None:
        with pytest.raises(InputError, match='knows no workload class "codes"') as caught:
            step_law(TRUTH, Speculation(k=5), workload_class="codes", temperature=0.6)
        assert 'Did you mean "code"?' in str(caught.value)

    @given(
        k=st.integers(0, 10),
        threshold=st.floats(0, 1),
        log_odds=st.floats(-4, 4),
        sd=st.floats(0, 2),
        uniform=st.floats(0, 1, exclude_max=True),
    )
    def test_a_law_is_one(self, k: int, threshold: float, log_odds: float, sd: float, uniform: float) -> None:
        truth = replace(TRUTH, drafts=replace(TRUTH.drafts, log_odds={"x": log_odds}, difficulty_sd=sd))
        asked = Speculation(k=k, confidence_threshold=threshold, confidence_scheduler="threshold")
        law = step_law(truth, asked, workload_class="x", temperature=0.6)
        assert law.cumulated[-1] == pytest.approx(1)
        assert all(low <= high for low, high in pairwise(law.cumulated))
        outcome = outcome_of(law, uniform)
        assert 0 <= outcome.accepted <= outcome.drafted <= k

    def test_drawn_outcomes_follow_the_law(self) -> None:
        law = law_of()
        draws = [outcome_of(law, (index + 0.5) / 20_000).accepted for index in range(20_000)]
        assert 1 + sum(draws) / len(draws) == pytest.approx(law.mean_tokens, abs=1e-3)


@pytest.mark.parametrize(
    ("speculation", "what"),
    [(Speculation(k=-1), "negative"), (Speculation(k=5, confidence_threshold=1.5), "between 0 and 1")],
)
def test_what_cannot_be_is_refused(speculation: Speculation, what: str) -> None:
    with pytest.raises(InputError, match=what):
        require_speculation(speculation)
