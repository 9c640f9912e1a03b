"""Predicted seconds, for plans and time limits only: no figure of a report comes from here. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.records.cell import LoadPoint
from harness.workload.spec import StreamShape

WARMUP_ROUNDS = 2
WARMUP_OUTPUT_TOKENS = 24
OVERHEAD_S = 1.5  # of a trial: prompts, scrapes, settling


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCost:
    """What a recipe declares of its engine's speed, at its slowest useful."""

    launch_s: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float  # one stream alone


def predict_trial_s(load: LoadPoint, cost: EngineCost, shape: StreamShape) -> float:
    """Return the seconds that a cell will take: warm-up, prefill and decode of all its requests.

    Prefill is shared by the streams; decoding is taken to slow down with the square root of their number, which
    lies between a latency-bound engine (not at all) and a saturated one (in proportion).
    """
    prefills = shape.turns if load.cache == "cold" else 1
    warmup_prefills = WARMUP_ROUNDS if load.cache == "cold" else 0
    prefill_s = load.concurrency * load.context_tokens * (prefills + warmup_prefills) / cost.prefill_tokens_per_s
    stream_rate = cost.decode_tokens_per_s / math.sqrt(load.concurrency)
    decode_s = (shape.turns * load.output.tokens + WARMUP_ROUNDS * WARMUP_OUTPUT_TOKENS) / stream_rate
    return OVERHEAD_S + prefill_s + decode_s
