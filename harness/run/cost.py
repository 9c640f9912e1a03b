"""Predicted seconds, for plans and time limits only: no figure of a report comes from here. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.records.cell import LoadPoint
from harness.workload.spec import StreamShape
from harness.workload.texts import turn_tokens

WARMUP_ROUNDS = 2
WARMUP_OUTPUT_TOKENS = 24
OVERHEAD_S = 1.5  # of a trial: prompts, scrapes, settling


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCost:
    """What a recipe declares of its engine's speed, at its slowest useful."""

    launch_s: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float  # one stream alone


def predict_trial_s(load: LoadPoint, cost: EngineCost, shape: StreamShape, *, fills: int = 0) -> float:
    """Return the seconds that a cell will take: warm-up, prefill and decode of all its requests.

    Prefill is shared by the streams; decoding is taken to slow down with the square root of their number, which
    lies between a latency-bound engine (not at all) and a saturated one (in proportion).

    Args:
        load: of the cell.
        cost: of the engine.
        shape: how many requests.
        fills: prefixes that this cell puts into the cache before it measures (``Fills``).
    """
    new_tokens = load.context_tokens if load.cache == "cold" else turn_tokens(load.context_tokens)
    prefill_tokens = new_tokens * load.concurrency * (shape.turns + WARMUP_ROUNDS) + load.context_tokens * fills
    stream_rate = cost.decode_tokens_per_s / math.sqrt(load.concurrency)
    decode_s = (shape.turns * load.output.tokens + WARMUP_ROUNDS * WARMUP_OUTPUT_TOKENS) / stream_rate
    return OVERHEAD_S + prefill_tokens / cost.prefill_tokens_per_s + decode_s


class Fills:
    """Counts prefixes through a launch: each is put into the cache once, by the first cell that needs it."""

    def __init__(self) -> None:
        self._filled: dict[tuple[str, str, int], int] = {}

    def needed(self, load: LoadPoint) -> int:
        """Return how many prefixes a cell has to fill, and remember them."""
        if load.cache == "cold":
            return 0
        key = (load.cache, load.workload_class, load.context_tokens)
        wanted = load.concurrency if load.cache == "warm" else 1
        missing = max(0, wanted - self._filled.get(key, 0))
        self._filled[key] = self._filled.get(key, 0) + missing
        return missing
