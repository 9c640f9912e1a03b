"""Each doubt: a trial that raises it and nothing else, its figures, and the clean trial that raises none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.records.cell import OutputLength
from harness.records.doubt import Doubt
from harness.records.launch import CanaryReading, LaunchOutcome, LaunchRecord, LiveIdentity
from harness.records.trial import ClientFacts, TrialRecord, WarmupFacts
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from harness.stats.checks import cell_doubts, doubts
from harness.stats.summary import trial_metrics
from tests.unit.stats.build import cell, delta, request, steady, trial

STEADY = steady(steps=10, tokens_per_step=3, step_s=0.02)
COUNTERS = delta(
    drafts=10,
    draft_tokens=40,
    accepted_tokens=20,
    accepted_by_position=(10, 6, 3, 1),
    prompt_tokens=256,
    generation_tokens=31,
    prefix_cache_queries=256,
    prefix_cache_hits=0,
    iterations=11,
    requests_finished=1,
)
CLEAN = trial([STEADY], COUNTERS)


def _launch(outcome: LaunchOutcome = "measured", **changes: Any) -> LaunchRecord:
    base = LaunchRecord(
        launch_id="l1",
        run_id="r",
        round=1,
        attempt=1,
        configuration=cell(4).configuration,
        started_at="2026-11-30T13:28:11+00:00",
        outcome=outcome,
        ready_s=25.0,
        total_s=90.0,
    )
    return replace(base, **changes)


def _doubts(measured: TrialRecord, launch: LaunchRecord | None = None, **more: Any) -> tuple[Doubt, ...]:
    return doubts(measured, trial_metrics(measured), launch, Limits(), **more)


def _only(measured: TrialRecord, launch: LaunchRecord | None = None, **more: Any) -> Doubt:
    found = _doubts(measured, launch, **more)
    assert [one.kind for one in found] == [found[0].kind]
    assert found[0].evidence and found[0].remedy
    return found[0]


def _with(**changes: Any) -> TrialRecord:
    return trial([replace(STEADY, **changes)], COUNTERS)


def test_a_clean_trial_raises_none() -> None:
    canary = CanaryReading(step_s=0.02, ttft_s=0.1)
    live = LiveIdentity(model="m", max_model_len=4096, engine_version="1", num_speculative_tokens=4, proof="counters")
    launch = _launch(canary_before=canary, canary_after=canary, live=live)
    assert _doubts(CLEAN, launch, no_speculation_tokens_per_s=50.0) == ()


def test_a_clean_trial_without_speculation_raises_none() -> None:
    plain = steady(steps=30, tokens_per_step=1, step_s=0.02)
    counters = delta(prompt_tokens=256, generation_tokens=31, requests_finished=1, absent_because="no speculation")
    assert _doubts(trial([plain], counters, k=0)) == ()


def test_a_server_without_counters_raises_none_for_that() -> None:
    assert _doubts(trial([STEADY], delta(settled=False, absent_because="no /metrics"), k=None)) == ()


# -- void --------------------------------------------------------------------------------------------------------------


def test_nothing_measured() -> None:
    one = _only(trial([], delta(settled=False), failure="the engine died"))
    assert (one.kind, one.evidence, one.void) == ("nothing_measured", "the engine died", True)


def test_refused_requests_are_told_by_their_outcomes() -> None:
    refused = replace(request([], stream=1), outcome="refused", http_status=400)
    one = _only(trial([refused, refused], delta()))
    assert (one.kind, one.evidence) == ("nothing_measured", "2 refused")


def test_a_restart_voids() -> None:
    one = _only(trial([STEADY], delta(restarted=True, settled=False, absent_because="restart")))
    assert (one.kind, one.void) == ("engine_restarted", True)


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        (_launch("wrong_configuration", reason="k = 5 is live"), "k = 5 is live"),
        (
            _launch(
                live=LiveIdentity(
                    model="m", max_model_len=None, engine_version=None, num_speculative_tokens=2, proof="counters"
                )
            ),
            "k = 2 is live, 4 was asked for",
        ),
    ],
)
def test_a_launch_that_is_something_else_voids(launch: LaunchRecord, says: str) -> None:
    one = _only(CLEAN, launch)
    assert (one.kind, one.evidence, one.void) == ("wrong_configuration", says, True)


@pytest.mark.parametrize(
    ("k", "counters", "says"),
    [
        (3, COUNTERS, "drafts 4 tokens, 3 were asked for"),
        (3, replace(COUNTERS, accepted_by_position=None), "40 tokens in 10 drafts are more than 3 each"),
        (0, COUNTERS, "10 drafts were made without speculation"),
    ],
)
def test_counters_that_show_another_k_void(k: int, counters: Any, says: str) -> None:
    found = _doubts(trial([STEADY], counters, k=k))
    assert found[0].kind == "wrong_configuration" and found[0].void
    assert says in found[0].evidence


def test_drafts_trimmed_below_k_are_fine() -> None:
    assert _doubts(trial([STEADY], replace(COUNTERS, draft_tokens=25))) == ()


def test_compilation_in_the_window_voids() -> None:
    one = _only(replace(CLEAN, jit_lines=("WARNING kernel compiled",)))
    assert (one.kind, one.void) == ("jit_in_window", True)


def test_a_launch_repeated_for_its_canary_voids() -> None:
    one = _only(CLEAN, _launch("slow_canary", reason="31 % slower than its like"))
    assert (one.kind, one.evidence, one.void) == ("slow_launch", "31 % slower than its like", True)


def test_many_failures_void_and_a_few_do_not() -> None:
    def with_failed(finished: int) -> TrialRecord:
        good = [replace(STEADY, stream=i) for i in range(finished)]
        bad = replace(request([], stream=99), outcome="timeout", finish_reason=None)
        counters = replace(COUNTERS, drafts=10 * finished, draft_tokens=40 * finished, accepted_tokens=20 * finished)
        return trial([*good, bad], counters, load={"concurrency": finished + 1})

    many, few = _only(with_failed(3)), _only(with_failed(30))
    assert (many.kind, many.void, many.evidence) == ("requests_failed", True, "1 of 4 requests failed (1 timeout)")
    assert (few.kind, few.void) == ("some_requests_failed", False)


# -- doubtful ----------------------------------------------------------------------------------------------------------


def test_a_stream_that_ends_without_a_reason() -> None:
    one = _only(_with(finish_reason=None))
    assert (one.kind, one.evidence) == ("no_finish_reason", "1 of 1 streams ended without a finish_reason")


def test_cache_hits_of_a_cold_cell_by_counters() -> None:
    one = _only(trial([STEADY], replace(COUNTERS, prefix_cache_hits=64)))
    assert one.kind == "cold_cache_hits"
    assert one.evidence == "25.0 % of 256 prompt tokens were in the cache, by the engine's counters"


def test_cache_hits_of_a_cold_cell_by_the_answers() -> None:
    blind = replace(COUNTERS, prefix_cache_hits=None, prefix_cache_queries=None)
    one = _only(trial([replace(STEADY, cached_tokens=128)], blind))
    assert one.evidence == "50.0 % of 256 prompt tokens were in the cache, by the cached_tokens of the answers"


def test_cache_hits_within_a_percent_or_in_a_warm_cell_are_fine() -> None:
    assert _doubts(trial([STEADY], replace(COUNTERS, prefix_cache_hits=2))) == ()
    assert _doubts(trial([STEADY], replace(COUNTERS, prefix_cache_hits=250), load={"cache": "warm"})) == ()


@pytest.mark.parametrize("mode", ["warm", "shared"])
def test_a_reused_prefix_that_is_not_in_the_cache(mode: str) -> None:
    one = _only(trial([STEADY], replace(COUNTERS, prefix_cache_hits=100), load={"cache": mode}))
    assert one.kind == "reused_prefix_missed"
    assert one.evidence == "39.1 % of 256 prompt tokens were in the cache, by the engine's counters"


AGENT = {"workload_class": "agentic", "cache": "warm", "context_tokens": 8192, "concurrency": 1}


def _conversation(lengths: Sequence[int], hits: int) -> TrialRecord:
    turns = [
        replace(STEADY, turn=turn, prompt_tokens=tokens, expected_prompt_tokens=tokens)
        for turn, tokens in enumerate(lengths)
    ]
    asked = sum(lengths)
    counters = replace(
        COUNTERS,
        generation_tokens=31 * len(turns),
        requests_finished=len(turns),
        prompt_tokens=asked,
        prefix_cache_queries=asked,
        prefix_cache_hits=hits,
    )
    return trial(turns, counters, load=AGENT)


def _missed(measured: TrialRecord) -> list[str]:
    return [one.evidence for one in _doubts(measured) if one.kind == "reused_prefix_missed"]


def test_a_conversation_has_to_find_each_prompt_and_not_only_its_first_prefix() -> None:
    lengths = [8192 + turn * 768 for turn in range(6)]
    prefix = 8192 - 512
    whole = prefix + sum(lengths[:-1])

    assert not _missed(_conversation(lengths, whole))
    assert not _missed(_conversation(lengths, whole - 6 * 256)), "blocks may have 256 tokens"
    (evidence,) = _missed(_conversation(lengths, 6 * prefix))
    assert evidence.startswith("75.9 % of 60672 prompt tokens were in the cache, by the engine's counters; turns")
    assert evidence.endswith("promise 92.8 %")
    (nothing,) = _missed(_conversation(lengths, 0))
    assert nothing.startswith("0.0 %")


@pytest.mark.parametrize(("lengths", "hits"), [((256, 1408), 192), ((256, 416, 256), 384)])
def test_short_conversations_lose_blocks_that_are_not_full_and_no_more(lengths: tuple[int, ...], hits: int) -> None:
    def at_256(found: int) -> TrialRecord:
        return replace(_conversation(lengths, found), cell=cell(4, **AGENT | {"context_tokens": 256}))

    assert not _missed(at_256(hits)), "with blocks of 128 tokens"
    assert _missed(at_256(0))


def test_warm_agentic_trials_from_before_prompts_grew_promise_their_first_prefix() -> None:
    assert not _missed(_conversation([8192, 8190, 8194], 3 * 7600))
    assert _missed(_conversation([8192, 8190, 8194], 3 * 2000))


@pytest.mark.parametrize(("promised", "got", "off"), [(256, 260, False), (256, 261, True), (8192, 8232, False)])
def test_prompts_off_target(promised: int, got: int, off: bool) -> None:
    counters = replace(COUNTERS, prompt_tokens=got, prefix_cache_queries=got)
    found = _doubts(trial([replace(STEADY, prompt_tokens=got, expected_prompt_tokens=promised)], counters))
    assert [one.kind for one in found] == (["prompt_off_target"] if off else [])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"generation_tokens": 131, "settled": False}, "131 output tokens, 31 of them ours"),
        ({"prompt_tokens": 300}, "300 prompt tokens, 256 of them ours"),
        ({"requests_finished": 3}, "3 requests, 1 of them ours"),
    ],
)
def test_foreign_traffic(change: dict[str, Any], says: str) -> None:
    one = _only(trial([STEADY], replace(COUNTERS, **change)))
    assert (one.kind, one.evidence) == ("foreign_traffic", says)


def test_counters_that_lack_tokens() -> None:
    one = _only(trial([STEADY], replace(COUNTERS, generation_tokens=28, settled=False)))
    assert (one.kind, one.evidence) == ("counters_not_settled", "28 output tokens counted, 31 delivered")


def test_a_canary_that_moved() -> None:
    before, after = CanaryReading(step_s=0.02, ttft_s=0.1), CanaryReading(step_s=0.0212, ttft_s=0.1)
    one = _only(CLEAN, _launch(canary_before=before, canary_after=after))
    assert one.kind == "canary_moved" and "+6.0 %" in one.evidence
    assert not _doubts(CLEAN, _launch(canary_before=before, canary_after=replace(after, step_s=0.0204)))
    assert not _doubts(CLEAN, _launch(canary_before=before, canary_after=None))


def test_a_warm_up_that_was_not_stable() -> None:
    one = _only(replace(CLEAN, warmup=WarmupFacts(requests=8, stable=False, change_ratio=-0.2)))
    assert (one.kind, one.evidence) == (
        "warmup_not_stable",
        "not stable after 8 requests, the last round 20.0 % off",
    )


def test_degenerate_output() -> None:
    one = _only(_with(repeated_tail_ratio=0.9))
    assert one.kind == "output_degenerate" and "90.0 %" in one.evidence


def test_output_shorter_than_asked_for_unless_its_length_is_natural() -> None:
    long = {"output": OutputLength(tokens=64)}
    one = _only(trial([STEADY], COUNTERS, load=long))
    assert (one.kind, one.evidence) == ("output_short", "1 of 1 answers are short, the shortest 31 of 64 tokens")
    assert _doubts(trial([STEADY], COUNTERS, load={"output": OutputLength(tokens=64, natural=True)})) == ()


def test_thinking_that_used_the_budget() -> None:
    cut = replace(STEADY, reasoning_tokens=31)
    assert _only(trial([cut], COUNTERS, load={"thinking": "low"})).kind == "thinking_used_budget"
    assert _doubts(trial([replace(cut, reasoning_tokens=20)], COUNTERS, load={"thinking": "low"})) == ()


@pytest.mark.parametrize("thinking", ["off", "low"])  # off: the template did not listen
def test_an_answer_that_was_cut_in_its_reasoning(thinking: str) -> None:
    cut = replace(STEADY, first_answer_s=None, answer_tokens=0)
    load = {"thinking": thinking, "output": OutputLength(tokens=11, reserve_tokens=20)}
    one = _only(trial([cut], COUNTERS, load=load))
    assert (one.kind, one.void) == ("thinking_used_budget", False)
    assert one.evidence == "1 of 1 answers were cut within their reasoning, at 31 tokens or below"
    assert "thinking_tokens" in one.remedy


def test_an_answer_without_a_token() -> None:
    silent = replace(STEADY, finish_reason="stop", outcome="complete", first_answer_s=None, answer_tokens=0)
    load = {"thinking": "low"}
    one = _only(trial([silent], COUNTERS, load=load))
    assert (one.kind, one.void) == ("no_answer", False)
    assert one.evidence == "1 of 1 answers have no token, 1 of them after reasoning"
    empty = replace(silent, batches=(), output_tokens=0)
    assert "no_answer" in {each.kind for each in _doubts(trial([STEADY, empty], COUNTERS, load=load))}


def test_faster_than_physics_allow() -> None:
    one = _only(CLEAN, no_speculation_tokens_per_s=20.0)
    assert one.kind == "above_ceiling"
    assert "150 tokens/s" in one.evidence and "is 100" in one.evidence


@pytest.mark.parametrize("client", [ClientFacts(loop_lag_max_s=0.05), ClientFacts(cpu_ratio=0.95)])
def test_a_client_that_was_the_bottleneck(client: ClientFacts) -> None:
    assert _only(replace(CLEAN, client=client)).kind == "client_bottleneck"


def test_socket_reads_that_brought_several_events() -> None:
    one = _only(_with(coalesced_reads=4))
    assert (one.kind, one.evidence) == ("events_merged", "4 socket reads brought more than one of 10 events")


def test_events_that_are_fewer_than_steps() -> None:
    merged = request([(0.5, 1), *((0.5 + 0.04 * i, 6) for i in range(1, 6))])
    found = _doubts(trial([merged], COUNTERS))
    # The identity then stands on busy time / iterations, which holds here: 0.2 s / 10, the first one being prefill.
    assert [(one.kind, one.evidence) for one in found] == [("events_merged", "5 events for 10 steps")]


def test_a_pause_inside_an_answer_violates_the_identity() -> None:
    events: list[tuple[float, int | None]] = [(at.at_s, at.tokens) for at in STEADY.batches[:-1]]
    paused = request([*events, (1.5, 3)])
    one = _only(trial([paused], COUNTERS))
    assert one.kind == "identity_violated"
    assert "the counters 3.00" in one.evidence


def test_counters_that_lie_violate_the_identity() -> None:
    # Every count is twice what the client saw; only the client's clock can tell.
    counters = replace(COUNTERS, drafts=20, draft_tokens=80, accepted_tokens=40, accepted_by_position=(20, 12, 6, 2))
    found = {one.kind: one.evidence for one in _doubts(trial([STEADY], counters))}
    assert list(found) == ["events_merged", "identity_violated"]
    assert found["identity_violated"].startswith("rate x busy time / iterations gives 3.00 tokens per step")
    assert "the counters 1.50" in found["identity_violated"]


def test_the_identity_is_for_one_stream_alone() -> None:
    streams = [replace(STEADY, stream=0), replace(STEADY, stream=1)]
    counters = replace(COUNTERS, drafts=15, draft_tokens=60, accepted_tokens=40, accepted_by_position=None)
    counters = replace(counters, prompt_tokens=512, generation_tokens=62, requests_finished=2)
    assert "identity_violated" not in [one.kind for one in _doubts(trial(streams, counters, load={"concurrency": 2}))]


def test_steps_that_drafted_nothing() -> None:
    # 10 drafts, but 20 more steps of one token each.
    tail: list[tuple[float, int | None]] = [(0.7 + 0.02 * i, 1) for i in range(1, 21)]
    events = [*((batch.at_s, batch.tokens) for batch in STEADY.batches), *tail]
    one = _only(trial([request(events)], replace(COUNTERS, generation_tokens=51)))
    assert (one.kind, one.evidence) == (
        "steps_without_draft",
        "at least 20 steps came without a draft, beside 10 drafts",
    )


def test_what_voids_comes_first() -> None:
    found = _doubts(replace(CLEAN, jit_lines=("x",), warmup=WarmupFacts(requests=1, stable=False)))
    assert [one.void for one in found] == [True, False]


@pytest.mark.parametrize(("drafts", "expected"), [(399.0, ["too_few_drafts"]), (400.0, []), (None, [])])
def test_too_few_drafts_in_a_cell(drafts: float | None, expected: Sequence[str]) -> None:
    (summary,) = summarise_run([CLEAN], [], Limits(least_drafts=1))
    found = cell_doubts(trials=summary.trials, drafts_in_all=drafts, limits=Limits())
    assert [one.kind for one in found] == expected
