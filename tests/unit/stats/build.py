"""Scripted requests and trials with answers that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.records.cell import Cell, Configuration, LoadPoint, OutputLength
from harness.records.counters import CounterDelta
from harness.records.request import RequestRecord, TokenBatch
from harness.records.trial import ClientFacts, TrialRecord, WarmupFacts


def request(events: Sequence[tuple[float, int | None]], **changes: Any) -> RequestRecord:
    """A finished request: events as (arrival, tokens). Sent at 0 unless said."""
    counts = [tokens for _, tokens in events]
    base = RequestRecord(
        prompt_id="p",
        stream=0,
        turn=0,
        scheduled_s=0.0,
        sent_s=0.0,
        closed_s=events[-1][0] if events else None,
        batches=tuple(TokenBatch(at_s=at_s, tokens=tokens) for at_s, tokens in events),
        outcome="length",
        finish_reason="length",
        http_status=200,
        error=None,
        prompt_tokens=256,
        cached_tokens=0,
        output_tokens=sum(count or 0 for count in counts) if None not in counts else None,
        expected_prompt_tokens=256,
        token_count_source="token_ids",
    )
    return replace(base, **changes)


def steady(*, steps: int, tokens_per_step: int, step_s: float, first_s: float = 0.5, **changes: Any) -> RequestRecord:
    """One token at ``first_s``, then the same number of tokens every step."""
    later = [(first_s + step_s * (i + 1), tokens_per_step) for i in range(steps)]
    return request([(first_s, 1), *later], **changes)


def delta(**changes: Any) -> CounterDelta:
    return replace(CounterDelta(), **changes)


def trial(requests: Sequence[RequestRecord], counters: CounterDelta | None = None, **changes: Any) -> TrialRecord:
    k = changes.pop("k", 4)
    load = changes.pop("load", {})
    base = TrialRecord(
        trial_id=changes.pop("trial_id", "t1"),
        run_id="20261130-132811-test-4f2a9c",
        launch_id="l1",
        round=1,
        repeat=1,
        cell=cell(k, **load),
        workload_id="w",
        started_at="2026-11-30T13:28:11+00:00",
        requests=tuple(requests),
        counters=counters or CounterDelta(),
        client=ClientFacts(loop_lag_max_s=0.0005, cpu_ratio=0.05),
        warmup=WarmupFacts(requests=2, stable=True),
        no_speculation=k == 0,
    )
    return replace(base, **changes)


def cell(k: int | None, **load: Any) -> Cell:
    fields: dict[str, Any] = {
        "workload_class": "prose",
        "context_tokens": 256,
        "concurrency": 1,
        "output": OutputLength(tokens=31),
        **load,
    }
    knobs: dict[str, Any] = {} if k is None else {"num_speculative_tokens": k}
    return Cell(configuration=Configuration(recipe="tiny", knobs=knobs), load=LoadPoint(**fields))
