"""Predicted seconds, for plans and time limits only: no figure of a report comes from here. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from harness.records.cell import LoadPoint, RecordedLoad
from harness.simulator.cell import CellLoad, expected_cell
from harness.simulator.engine import EngineSettings
from harness.simulator.truth import Truth, class_like
from harness.workload.growth import turn_tokens
from harness.workload.spec import NATURAL_RATIO, StreamShape, conversation_of, warmup_context_tokens

WARMUP_ROUNDS = 2
WARMUP_OUTPUT_TOKENS = 24
_AT_ONCE = 4  # requests of a trace that come as they please, for a prediction
OVERHEAD_S = 1.0  # of a trial: prompts, scrapes, settling


class Expected(NamedTuple):
    """What requests that are sent together, one a stream, are expected to take."""

    wall_s: float
    ttft_s: float  # the median over streams


PredictRound = Callable[[CellLoad], Expected]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCost:
    """What a recipe declares of its engine's speed, at its slowest useful."""

    launch_s: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float  # one stream alone

    def of_round(self, load: CellLoad) -> Expected:
        """Predict one round: prefill is shared by the streams.

        Decoding is taken to slow down with the square root of their number, which lies between a latency-bound engine
        (not at all) and a saturated one (in proportion).
        """
        prefill_s = (load.prompt_tokens - load.cached_tokens) / self.prefill_tokens_per_s
        decode_s = load.output_tokens * math.sqrt(load.concurrency) / self.decode_tokens_per_s
        return Expected(prefill_s * load.concurrency + decode_s, prefill_s * (load.concurrency + 1) / 2)


class ModelledCost:
    """The same from the step model that stands in for a configuration under --engine simulated."""

    def __init__(self, truth: Truth, settings: EngineSettings) -> None:
        self._truth = truth
        self._settings = settings
        self._known: dict[CellLoad, Expected] = {}

    def of_round(self, load: CellLoad) -> Expected:
        """Predict one round."""
        load = replace(load, workload_class=class_like(self._truth, load.workload_class))
        if load not in self._known:
            cell = expected_cell(self._truth, self._settings.speculation, self._settings.scheduling, load)
            self._known[load] = Expected(cell.wall_s, cell.ttft_s)
        return self._known[load]


def predict_trial(load: LoadPoint, predict: PredictRound, shape: StreamShape, *, fills: int = 0) -> Expected:
    """Return what a cell will take: fills, warm-up, and all its requests.

    Args:
        load: of the cell.
        predict: of the engine.
        shape: how many requests.
        fills: prefixes that this cell puts into the cache before it measures (``Fills``).
    """
    if load.recorded is not None:
        return _predict_recorded(load, load.recorded, predict)
    tokens = load.output.most_tokens * (NATURAL_RATIO if load.output.natural else 1)
    measured = _measured(load, predict, shape, output_tokens=math.ceil(tokens))
    warmup = _round(load, warmup_context_tokens(load), output_tokens=min(WARMUP_OUTPUT_TOKENS, load.output.tokens))
    seconds = OVERHEAD_S + measured.wall_s + predict(warmup).wall_s * WARMUP_ROUNDS
    if fills:
        prefix_tokens = load.context_tokens - turn_tokens(load.context_tokens)
        fill = replace(warmup, prompt_tokens=prefix_tokens, cached_tokens=0, output_tokens=1, concurrency=1)
        seconds += predict(fill).wall_s * fills
    return Expected(seconds, measured.ttft_s)


def _measured(load: LoadPoint, predict: PredictRound, shape: StreamShape, *, output_tokens: int) -> Expected:
    """All turns. Those of a conversation after its first find a whole prompt in the cache: taken as its middle one."""
    round_of_first = _round(load, load.context_tokens, output_tokens=output_tokens)
    first = predict(round_of_first)
    grown = conversation_of(load)
    if grown is None:
        return Expected(first.wall_s * shape.turns, first.ttft_s)
    beginnings = math.ceil(shape.turns / grown.turns)
    following = shape.turns - beginnings
    middle = max(1, min(shape.turns, grown.turns) // 2)
    later = predict(
        replace(
            round_of_first,
            prompt_tokens=grown.prompt_tokens(middle),
            cached_tokens=grown.prompt_tokens(middle - 1),
        )
    )
    ttft_s = median([first.ttft_s] * beginnings + [later.ttft_s] * following)
    return Expected(first.wall_s * beginnings + later.wall_s * following, ttft_s)


def _predict_recorded(load: LoadPoint, recorded: RecordedLoad, predict: PredictRound) -> Expected:
    """A trace takes as long as its span, or as its requests one after the other in each stream."""
    at_once = load.concurrency if recorded.arrivals == "closed" else min(load.concurrency, _AT_ONCE)
    prompt = max(1, recorded.prompt_tokens // recorded.requests)
    typical = CellLoad(
        prompt_tokens=prompt,
        cached_tokens=min(prompt - 1, int(prompt * recorded.reused_ratio)),
        output_tokens=max(1, recorded.output_tokens // recorded.requests),
        concurrency=at_once,
        workload_class=load.workload_class,
        temperature=load.temperature,
    )
    expected = predict(typical)
    warmup = predict(replace(typical, cached_tokens=0, output_tokens=WARMUP_OUTPUT_TOKENS))
    working_s = expected.wall_s * math.ceil(recorded.requests / at_once)
    wall_s = OVERHEAD_S + max(working_s, recorded.span_s + expected.wall_s) + warmup.wall_s * WARMUP_ROUNDS
    return Expected(wall_s, expected.ttft_s)


class Fills:
    """Counts prefixes through a launch: each is put into the cache once, by the first cell that needs it."""

    def __init__(self) -> None:
        self._filled: dict[tuple[str, str, int], int] = {}

    def needed(self, load: LoadPoint) -> int:
        """Return how many prefixes a cell has to fill, and remember them."""
        if load.cache == "cold" or load.recorded is not None:
            return 0
        key = (load.cache, load.workload_class, load.context_tokens)
        wanted = load.concurrency if load.cache == "warm" else 1
        missing = max(0, wanted - self._filled.get(key, 0))
        self._filled[key] = self._filled.get(key, 0) + missing
        return missing


def _round(load: LoadPoint, context_tokens: int, *, output_tokens: int) -> CellLoad:
    new_tokens = context_tokens if load.cache == "cold" else turn_tokens(context_tokens)
    return CellLoad(
        prompt_tokens=context_tokens,
        cached_tokens=context_tokens - new_tokens,
        output_tokens=output_tokens,
        concurrency=load.concurrency,
        workload_class=load.workload_class,
        temperature=load.temperature,
    )
