"""What speaks against a replayed trace, each at its own cause and not without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.records.cell import RecordedLoad
from harness.records.counters import CounterDelta
from harness.records.request import RequestRecord
from harness.stats.case import Limits
from harness.stats.checks import doubts
from harness.stats.summary import trial_metrics
from tests.unit.stats.build import delta, steady, trial

RECORDED = RecordedLoad(
    workload_id="w",
    arrivals="closed",
    as_recorded=("output_tokens",),
    conversations=2,
    requests=2,
    prompt_tokens=512,
    output_tokens=200,
    reused_ratio=0.5,
)


def request(**changes: Any) -> RequestRecord:
    return steady(steps=30, tokens_per_step=3, step_s=0.05, **changes)


def kinds(
    *requests: RequestRecord, recorded: dict[str, Any] | None = None, counters: CounterDelta | None = None
) -> set[str]:
    load = {"recorded": replace(RECORDED, **(recorded or {})), "cache": "as_recorded", "concurrency": 2}
    of = trial(requests or (request(), request()), counters, load=load)
    return {one.kind for one in doubts(of, trial_metrics(of), None, Limits())}


REPLAYED = {"synthetic_text", "replay_incomplete", "sent_late", "recorded_reuse_differs"}


def test_a_replay_as_it_was_is_not_doubted() -> None:
    hits = delta(prefix_cache_hits=250, prefix_cache_queries=512)

    assert not kinds(counters=hits) & REPLAYED


def test_made_up_text_is_marked() -> None:
    assert "synthetic_text" in kinds(recorded={"synthetic_class": "prose"})


def test_requests_that_were_left_out_are_missed() -> None:
    assert "replay_incomplete" in kinds(request())


@pytest.mark.parametrize(("late_s", "doubted"), [(0.0, False), (0.2, False), (3.0, True)])
def test_requests_that_came_late(late_s: float, doubted: bool) -> None:
    late = request(scheduled_s=0.0, sent_s=late_s)

    assert ("sent_late" in kinds(late, request(), recorded={"arrivals": "recorded"})) is doubted
    assert "sent_late" not in kinds(late, request())  # a closed loop has no other time than its own


@pytest.mark.parametrize(("hits", "doubted"), [(0, True), (110, False), (250, False), (320, False), (500, True)])
def test_what_was_in_the_cache(hits: int, doubted: bool) -> None:
    counters = delta(prefix_cache_hits=hits, prefix_cache_queries=512)
    by_answers = [request(cached_tokens=hits // 2), request(cached_tokens=hits // 2)]

    assert ("recorded_reuse_differs" in kinds(counters=counters)) is doubted
    assert ("recorded_reuse_differs" in kinds(*by_answers)) is doubted
