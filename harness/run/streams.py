"""The prompts of trials, warm-ups and canaries on one engine: texts come from the workload, counts from the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from harness.records.cell import LoadPoint
from harness.records.workload import Prompt, StreamPlan
from harness.run.bench import Bench
from harness.run.recorded_streams import RecordedStreams
from harness.run.replaying import ReplayedLoads
from harness.workload.cache import TextStore
from harness.workload.classes import CONTENT_CLASSES
from harness.workload.prompts import TextSource, Workload, build_workload
from harness.workload.spec import (
    LEAST_CONTEXT_TOKENS,
    SHALLOW_CONTEXT_TOKENS,
    StreamShape,
    warmup_context_tokens,
)

MOST_WARMUP_ROUNDS = 5
MOST_WARMUP_STREAMS = 8  # of a trace: its own streams come as they please
_WARMUP_CLASS = "prose"  # for classes that no text is made of
_WARMUP_SEED_OFFSET = 1_000_003  # warm-up texts are other texts than the measured ones

StreamsOfRound = Callable[[int], Awaitable[Sequence[StreamPlan]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPrompts:
    """What one trial sends, in this order: fills, warm-up rounds as many as needed, streams."""

    fills: tuple[Prompt, ...]
    warmup_round: StreamsOfRound
    streams: tuple[StreamPlan, ...]


class Prompts:
    """Makes prompts that fit one engine. ``seed`` is the sweep's: every arm gets the same texts.

    Heads are unique to ``launch_id``, and in a cold cell to the trial. A prefix that is reused is filled once in a
    launch, by the first cell that needs it.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        cache: TextStore | None,
        seed: int,
        launch_id: str,
        replayed: ReplayedLoads | None = None,
    ) -> None:
        self._recorded_streams = RecordedStreams(bench, replayed, seed=seed) if replayed is not None else None
        self._room = bench.endpoint.max_model_len
        self._seed = seed
        self._launch_id = launch_id
        self._filled: set[str] = set()
        self._texts = TextSource(bench.count_tokens, tokenizer=bench.tokenizer_id, cache=cache)

    async def for_trial(self, load: LoadPoint, shape: StreamShape, *, name: str) -> TrialPrompts:
        """Return the prompts of one trial; ``name`` makes the heads of a cold one unique within the launch.

        Raises:
            InputError: no prompt of the asked length can be made for this engine.
            EndpointError: the engine cannot count tokens.
        """
        if load.recorded is not None:
            return await self._recorded(load, salt=f"{self._launch_id}-{name}")
        if load.cache == "cold":
            return await self._cold(load, shape, salt=f"{self._launch_id}-{name}")
        return await self._reused(load, shape)

    async def _recorded(self, load: LoadPoint, *, salt: str) -> TrialPrompts:
        """A trace is warmed up with short prompts of its class, so that it finds its own cache as cold as it was."""
        assert self._recorded_streams is not None  # the plan has cells of a trace only where there is one
        streams = await self._recorded_streams.streams(load, salt=salt)
        made = load.workload_class in CONTENT_CLASSES
        context = min(load.context_tokens, SHALLOW_CONTEXT_TOKENS)
        short = replace(
            load,
            recorded=None,
            cache="cold",
            workload_class=load.workload_class if made else _WARMUP_CLASS,
            context_tokens=context if self._room is None else min(context, max(self._room // 2, LEAST_CONTEXT_TOKENS)),
            concurrency=min(load.concurrency, MOST_WARMUP_STREAMS),
        )

        async def warmup_round(number: int) -> Sequence[StreamPlan]:
            offset = _WARMUP_SEED_OFFSET * (number + 1)
            warmup = await self._build(short, turns=1, salt=f"{salt}-warm-up-{number}", seed_offset=offset)
            return warmup.streams

        return TrialPrompts(fills=(), warmup_round=warmup_round, streams=streams)

    async def _cold(self, load: LoadPoint, shape: StreamShape, *, salt: str) -> TrialPrompts:
        workload = await self._build(load, turns=shape.turns, salt=salt)
        short = replace(load, context_tokens=warmup_context_tokens(load))

        async def warmup_round(number: int) -> Sequence[StreamPlan]:
            offset = _WARMUP_SEED_OFFSET * (number + 1)
            warmup = await self._build(short, turns=1, salt=f"{salt}-warm-up-{number}", seed_offset=offset)
            return warmup.streams

        return TrialPrompts(fills=(), warmup_round=warmup_round, streams=workload.streams)

    async def _reused(self, load: LoadPoint, shape: StreamShape) -> TrialPrompts:
        """A reused prefix is warmed up on itself, with turns that no measured request repeats."""
        salt = f"{self._launch_id}-{load.cache}-{load.workload_class}-{load.context_tokens}"
        workload = await self._build(load, turns=shape.turns + MOST_WARMUP_ROUNDS, salt=salt)
        fills = tuple(fill for fill in workload.fills if fill.text not in self._filled)
        self._filled.update(fill.text for fill in fills)

        async def warmup_round(number: int) -> Sequence[StreamPlan]:
            return [StreamPlan(prompts=(stream.prompts[shape.turns + number],)) for stream in workload.streams]

        measured = tuple(StreamPlan(prompts=stream.prompts[: shape.turns]) for stream in workload.streams)
        return TrialPrompts(fills=fills, warmup_round=warmup_round, streams=measured)

    async def _build(self, load: LoadPoint, *, turns: int, salt: str, seed_offset: int = 0) -> Workload:
        return await build_workload(self._texts, load, turns=turns, seed=self._seed + seed_offset, salt=salt)
