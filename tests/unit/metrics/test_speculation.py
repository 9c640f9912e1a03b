"""Differences of two scrapes: made-up ones for the states, recorded ones for the published counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics.exposition import parse
from harness.metrics.scrape import snapshot_of
from harness.metrics.speculation import difference, draft_length
from harness.records.counters import CounterDelta, CounterSnapshot

FIXTURES = Path(__file__).parents[2] / "fixtures" / "metrics"
SPECULATING = CounterSnapshot(
    at_s=1.0,
    drafts=10,
    draft_tokens=40,
    accepted_tokens=20,
    accepted_by_position=(10, 6, 3, 1),
    generation_tokens=33,
    process_start_s=5.0,
)


def _recorded(name: str) -> CounterSnapshot | None:
    return snapshot_of(parse((FIXTURES / f"{name}.txt").read_text()), at_s=0.0)


@pytest.mark.parametrize("phase", ["dspark_k5_c1", "dspark_k7_c64", "dspark_none_c1"])
def test_a_recorded_pair_gives_the_counts_of_its_capture(phase: str) -> None:
    expected = json.loads((FIXTURES / f"{phase}_summary.json").read_text())["delta"]
    delta = difference(_recorded(f"{phase}_before"), _recorded(f"{phase}_after"), settled=True)
    prefix = "spec_decode_num_accepted_tokens_per_pos_total"
    positions = sum(name.startswith(prefix) for name in expected)
    by_position = tuple(expected[f"{prefix}[{i}]"] for i in range(positions)) or None
    assert delta == CounterDelta(
        drafts=expected.get("spec_decode_num_drafts_total"),
        draft_tokens=expected.get("spec_decode_num_draft_tokens_total"),
        accepted_tokens=expected.get("spec_decode_num_accepted_tokens_total"),
        accepted_by_position=by_position,
        prompt_tokens=expected["prompt_tokens_total"],
        generation_tokens=expected["generation_tokens_total"],
        iterations=expected["iteration_tokens_total_count"],
        requests_finished=expected["request_success_total[length]"],
        prefix_cache_queries=delta.prefix_cache_queries,
        prefix_cache_hits=delta.prefix_cache_hits,
        preemptions=0,
        settled=True,
        absent_because=None if by_position else "no speculation",
    )


@pytest.mark.parametrize(
    ("phase", "length", "by_position"),
    [
        ("dspark_k5_c1", 4.0754, (0.8810, 0.7421, 0.5873, 0.4921, 0.3730)),
        ("dspark_k7_c64", 4.4331, (0.8497, 0.7102, 0.5508, 0.4556, 0.3573, 0.2831, 0.2263)),
        ("cpu_draft", 3.2333, (0.8333, 0.5333, 0.5, 0.3667)),
        ("cpu_ngramloop", 5.5238, (1.0, 0.9048, 0.9048, 0.8571, 0.8571)),
    ],
)
def test_recorded_acceptance(phase: str, length: float, by_position: tuple[float, ...]) -> None:
    delta = difference(_recorded(f"{phase}_before"), _recorded(f"{phase}_after"), settled=True)
    assert delta.drafts and delta.accepted_tokens and delta.accepted_by_position
    assert 1 + delta.accepted_tokens / delta.drafts == pytest.approx(length, abs=1e-4)
    shares = tuple(count / delta.drafts for count in delta.accepted_by_position)
    assert shares == pytest.approx(by_position, abs=1e-4)
    assert sum(delta.accepted_by_position) == delta.accepted_tokens


def test_k_is_proved_by_positions_and_by_the_length_of_drafts() -> None:
    after = _recorded("dspark_k7_c64_after")
    assert after is not None
    assert (draft_length(after).positions, draft_length(after).tokens_per_draft) == (7, 7.0)


def test_an_ngram_may_draft_fewer_than_k() -> None:
    after = _recorded("cpu_ngramloop_after")
    assert after is not None
    assert draft_length(after).positions == 5
    assert draft_length(after).tokens_per_draft == pytest.approx(95 / 21)


def test_an_engine_that_drafted_nothing_shows_k_by_its_positions_alone() -> None:
    after = _recorded("cpu_ngram_after")
    assert after is not None
    assert after.drafts == 0
    assert (draft_length(after).positions, draft_length(after).tokens_per_draft) == (5, None)


def test_no_metrics() -> None:
    delta = difference(None, SPECULATING, settled=False)
    assert delta.drafts is None and not delta.settled
    assert delta.absent_because is not None and "/metrics" in delta.absent_because


def test_missing_draft_counters_mean_no_speculation_unless_it_was_asked_for() -> None:
    plain = CounterSnapshot(at_s=1.0, generation_tokens=3)
    assert difference(plain, plain, settled=True).absent_because == "no speculation"
    asked = difference(plain, plain, settled=True, num_speculative_tokens=4)
    assert asked.absent_because is not None and "k = 4" in asked.absent_because


@pytest.mark.parametrize(
    "after",
    [
        replace(SPECULATING, drafts=9),
        replace(SPECULATING, drafts=None),
        replace(SPECULATING, accepted_by_position=(11, 5, 3, 1)),
        replace(SPECULATING, accepted_by_position=(10, 6, 3)),
        replace(SPECULATING, drafts=99, process_start_s=6.0),
    ],
)
def test_a_restart_leaves_no_counts(after: CounterSnapshot) -> None:
    delta = difference(SPECULATING, after, settled=True)
    assert delta.restarted and not delta.settled
    assert (delta.drafts, delta.generation_tokens, delta.accepted_by_position) == (None, None, None)


def test_counters_that_appear_with_the_first_draft_started_at_zero() -> None:
    before = CounterSnapshot(at_s=0.0, generation_tokens=0)
    delta = difference(before, SPECULATING, settled=True)
    assert (delta.drafts, delta.accepted_by_position, delta.restarted) == (10, (10, 6, 3, 1), False)


_COUNTS = st.lists(st.integers(0, 1000), min_size=4, max_size=4)


@given(_COUNTS, _COUNTS)
def test_what_was_added_is_what_is_found(start: list[int], added: list[int]) -> None:
    def snapshot(counts: list[int]) -> CounterSnapshot:
        return CounterSnapshot(
            at_s=0.0, drafts=counts[0], draft_tokens=counts[1], accepted_by_position=(counts[2], counts[3])
        )

    delta = difference(snapshot(start), snapshot([a + b for a, b in zip(start, added, strict=True)]), settled=True)
    assert [delta.drafts, delta.draft_tokens, *(delta.accepted_by_position or ())] == added
    assert not delta.restarted
