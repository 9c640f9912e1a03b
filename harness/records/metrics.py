"""The figures of a trial: name, unit and direction. The formulas are in stats.summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "tokens/s", "ratio", "tokens/step", "tokens", "1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """How a figure is labelled and read."""

    name: str
    unit: Unit
    label: str
    higher_is_better: bool | None  # None: it explains, it does not judge


def _metric(name: str, unit: Unit, label: str, *, better: Literal["higher", "lower"] | None = None) -> Metric:
    return Metric(name=name, unit=unit, label=label, higher_is_better=None if better is None else better == "higher")


_ALL = (
    _metric("ttft_s", "s", "time to first token", better="lower"),
    _metric("time_to_answer_s", "s", "time to first answer token", better="lower"),
    _metric("decode_tokens_per_s", "tokens/s", "decode, per stream", better="higher"),
    _metric("tpot_s", "s", "time per output token", better="lower"),
    _metric("aggregate_tokens_per_s", "tokens/s", "all streams, from the first send", better="higher"),
    _metric("decode_aggregate_tokens_per_s", "tokens/s", "all streams, from the first token", better="higher"),
    _metric("worst_stream_tokens_per_s", "tokens/s", "slowest stream", better="higher"),
    _metric("prefill_tokens_per_s", "tokens/s", "prefill", better="higher"),
    _metric("inter_chunk_p50_s", "s", "gap between events, median", better="lower"),
    _metric("inter_chunk_p95_s", "s", "gap between events, p95", better="lower"),
    _metric("inter_chunk_max_s", "s", "gap between events, longest", better="lower"),
    _metric("acceptance_ratio", "ratio", "drafted tokens accepted"),
    _metric("acceptance_length", "tokens/step", "tokens per step, from counters"),
    _metric("delivered_per_step", "tokens/step", "tokens per step, delivered"),
    _metric("step_s", "s", "step, streams x time / drafts", better="lower"),
    _metric("iteration_s", "s", "step, busy time / iterations", better="lower"),
    _metric("drafts", "1", "drafts"),
    _metric("output_tokens", "tokens", "output tokens"),
    _metric("prompt_tokens", "tokens", "prompt tokens"),
    _metric("cached_tokens", "tokens", "prompt tokens from the cache"),
    _metric("preemptions", "1", "preemptions", better="lower"),
    _metric("request_s", "s", "whole request", better="lower"),
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
BY_POSITION = "acceptance_by_position"  # a tuple, beside the scalars above
