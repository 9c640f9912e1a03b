"""Doubts about how an engine was set up, and remedies that know what the sweep sets already."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.records.cell import OutputLength, RecordedLoad
from harness.records.doubt import Doubt
from harness.records.launch import BootFacts, LaunchRecord, LiveIdentity
from harness.records.summary import TrialSummary
from harness.records.trial import TrialRecord
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from harness.stats.checks import cell_doubts, doubts
from harness.stats.summary import trial_metrics
from tests.unit.stats.build import cell, delta, request, steady, trial

STEADY = steady(steps=10, tokens_per_step=3, step_s=0.02)
RECORDED = RecordedLoad(
    workload_id="w",
    arrivals="poisson",
    as_recorded=("temperature",),
    conversations=2,
    requests=2,
    prompt_tokens=512,
    output_tokens=62,
    reused_ratio=0.0,
    rate_per_s=3.0,
)


def _launch(**changes: Any) -> LaunchRecord:
    base = LaunchRecord(
        launch_id="l1",
        run_id="r",
        round=1,
        attempt=1,
        configuration=cell(4).configuration,
        started_at="2026-11-30T13:28:11+00:00",
        outcome="measured",
        ready_s=25.0,
        total_s=90.0,
    )
    return replace(base, **changes)


def _live(max_model_len: int) -> LiveIdentity:
    return LiveIdentity(
        model="m", max_model_len=max_model_len, engine_version="1", num_speculative_tokens=4, proof="counters"
    )


def _found(measured: TrialRecord, launch: LaunchRecord | None = None) -> dict[str, Doubt]:
    return {one.kind: one for one in doubts(measured, trial_metrics(measured), launch, Limits())}


def test_a_boot_that_is_slow_again_is_a_doubt() -> None:
    slow = _launch(canary_ratio=1.31, canary_against="2 boots of this configuration", canary_slow=True)
    one = _found(trial([STEADY]), slow)["slow_boot"]
    assert (one.evidence, one.void) == (
        "the canary of this boot is +31.0 % against 2 boots of this configuration",
        False,
    )
    assert "slow_boot" not in _found(trial([STEADY]), replace(slow, canary_slow=False))


def test_a_step_without_a_graph_is_a_doubt() -> None:
    boot = BootFacts(capture_sizes=(8, 16, 24, 32, 40))
    wide = trial([STEADY], load={"concurrency": 6}, k=6)
    one = _found(wide, _launch(boot=boot))["graphs_truncated"]
    assert one.evidence == "a step of 6 streams has 42 tokens, and graphs were captured for up to 40"
    assert "42 tokens or more" in one.remedy


@pytest.mark.parametrize(
    ("sizes", "concurrency", "knobs"),
    [((8, 16, 48), 6, {}), ((), 6, {}), (None, 6, {}), ((40,), 5, {}), ((40,), 64, {"max_num_seqs": 5})],
)
def test_graphs_that_suffice_or_are_unknown_raise_none(
    sizes: tuple[int, ...] | None, concurrency: int, knobs: dict[str, int]
) -> None:
    measured = trial([STEADY], load={"concurrency": concurrency}, k=6)
    configuration = replace(measured.cell.configuration, knobs={**measured.cell.configuration.knobs, **knobs})
    measured = replace(measured, cell=replace(measured.cell, configuration=configuration))
    assert "graphs_truncated" not in _found(measured, _launch(boot=BootFacts(capture_sizes=sizes)))


def test_a_variable_that_the_engine_does_not_know_is_a_doubt_where_it_was_set() -> None:
    boot = BootFacts(unknown_environment=("VLLM_DSPARK_CONFIDENCE_THRESHOLD", "VLLM_OTHER"))
    environment = {"VLLM_DSPARK_CONFIDENCE_THRESHOLD": "0.6"}
    one = _found(trial([STEADY]), _launch(boot=boot, environment=environment))["setting_ignored"]
    assert one.evidence == "the engine says that it does not know VLLM_DSPARK_CONFIDENCE_THRESHOLD"
    assert "setting_ignored" not in _found(trial([STEADY]), _launch(boot=boot))


def test_preemptions_are_a_doubt() -> None:
    one = _found(trial([STEADY], delta(preemptions=3)))["preempted"]
    assert one.evidence == "3 preemptions for want of KV cache"
    assert "fewer streams" not in one.remedy
    assert "fewer streams" in _found(trial([STEADY], delta(preemptions=3), load={"concurrency": 2}))["preempted"].remedy
    assert "preempted" not in _found(trial([STEADY], delta(preemptions=0)))


# -- remedies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "says", "never"),
    [
        ({}, "natural length (output_tokens: {natural: N}), another class or a temperature above 0", "--keep-text"),
        ({"output": OutputLength(tokens=31, natural=True)}, "another class or a temperature above 0", "natural length"),
        ({"temperature": 0.6}, "natural length (output_tokens: {natural: N}) or another class", "temperature"),
        (
            {"temperature": 0.6, "output": OutputLength(tokens=31, natural=True)},
            "another class or a look at the answers (--keep-text)",
            "temperature",
        ),
        ({"workload_class": "repetitive"}, "this class is a control", "natural"),
        ({"recorded": RECORDED, "cache": "as_recorded"}, "a look at the answers", "another class"),
    ],
)
def test_nobody_is_told_to_avoid_repetition_by_what_is_set(load: dict[str, Any], says: str, never: str) -> None:
    looping = replace(STEADY, repeated_tail_ratio=0.9)
    one = _found(trial([looping], load=load))["output_degenerate"]
    assert says in one.remedy
    assert never not in one.remedy


def test_short_answers_are_told_apart_by_the_room_there_is() -> None:
    short = trial([STEADY], load={"output": OutputLength(tokens=64)})
    full = _found(short, _launch(live=_live(300)))["output_short"].remedy
    assert (
        full
        == "context_tokens + output_tokens is 320, and the model takes 300: lower one of them, or raise max_model_len."
    )
    assert "ignore_eos" in _found(short, _launch(live=_live(4096)))["output_short"].remedy
    assert "ignore_eos" in _found(short)["output_short"].remedy


@pytest.mark.parametrize(
    ("load", "longest", "says", "never"),
    [
        ({}, 4096, "longer output_tokens", "repeat.drafts"),
        ({"output": OutputLength(tokens=31, natural=True)}, 4096, "answers end by themselves", "Ask for longer"),
        ({"output": OutputLength(tokens=3840)}, 4096, "the model takes no longer answers", "Ask for longer"),
        ({"context_tokens": 131_072}, None, "cache: warm", "output_tokens"),
        ({"recorded": RECORDED, "cache": "as_recorded"}, None, "workload.sample.sessions", "output_tokens"),
    ],
)
def test_more_drafts_come_from_what_can_still_be_raised(
    load: dict[str, Any], longest: int | None, says: str, never: str
) -> None:
    launches = [_launch(live=_live(longest))] if longest else [_launch()]
    summary = _summary(load)
    (one,) = cell_doubts(
        trials=[summary], drafts_in_all=100, limits=Limits(), launches=launches, load=cell(4, **load).load
    )
    assert says in one.remedy
    assert never not in one.remedy


def _summary(load: dict[str, Any]) -> TrialSummary:
    return summarise_run([trial([STEADY], load=load)], [], Limits())[0].trials[0]


def test_a_missed_prefix_is_told_by_the_size_of_the_cache() -> None:
    missed = trial(
        [STEADY], delta(prefix_cache_queries=256, prefix_cache_hits=0), load={"cache": "warm", "concurrency": 4}
    )
    small = _found(missed, _launch(boot=BootFacts(kv_cache_tokens=1000)))["reused_prefix_missed"].remedy
    assert small == "4 streams need 1148 tokens of KV cache, and there are 1000: ask for fewer."
    assert "fewer streams" in _found(missed)["reused_prefix_missed"].remedy
    alone = trial([STEADY], delta(prefix_cache_queries=256, prefix_cache_hits=0), load={"cache": "warm"})
    assert "prefix caching is on" in _found(alone)["reused_prefix_missed"].remedy


def test_failures_are_told_by_how_they_failed() -> None:
    late = replace(request([], stream=1), outcome="timeout")
    assert "slowest speeds" in _found(trial([STEADY, late]))["requests_failed"].remedy
    broken = replace(late, outcome="broken_stream")
    assert "lower context_tokens if" in _found(trial([STEADY, broken]))["requests_failed"].remedy
    both = trial([STEADY, broken], load={"concurrency": 2})
    assert "lower concurrency or context_tokens" in _found(both)["requests_failed"].remedy


def test_late_requests_name_the_knob_that_is_used() -> None:
    late = replace(STEADY, scheduled_s=-3.0)
    load: dict[str, Any] = {"recorded": RECORDED, "cache": "as_recorded"}
    assert "workload.rate_per_s" in _found(trial([late, late], load=load))["sent_late"].remedy
    load["recorded"] = replace(RECORDED, arrivals="recorded")
    assert "workload.speed" in _found(trial([late, late], load=load))["sent_late"].remedy


def test_a_trace_that_was_not_sent_whole_names_the_models_length() -> None:
    load: dict[str, Any] = {"recorded": RECORDED, "cache": "as_recorded"}
    one = _found(trial([STEADY], load=load), _launch(live=_live(4096)))["replay_incomplete"]
    assert "longer than the model takes (4096 tokens)" in one.remedy


def test_cold_hits_of_a_trace_are_no_matter_of_nonces() -> None:
    hits = delta(prefix_cache_queries=256, prefix_cache_hits=128)
    assert "cache_salt" in _found(trial([STEADY, STEADY], hits, load={"recorded": RECORDED}))["cold_cache_hits"].remedy
    assert "head of a prompt" in _found(trial([STEADY], hits))["cold_cache_hits"].remedy


def test_merged_events_name_a_step_time_only_where_there_is_one() -> None:
    merged = replace(STEADY, coalesced_reads=5)
    assert "Read no step time" in _found(trial([merged], delta(drafts=10)))["events_merged"].remedy
    counted = trial([merged], delta(drafts=10, iterations=11))
    assert "Use iteration_s" in _found(counted)["events_merged"].remedy
