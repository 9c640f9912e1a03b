"""The prompts of trials, warm-ups and canaries on one engine: texts come from the workload, counts from the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from harness.client.pictures import PictureError
from harness.errors import EndpointError, InputError
from harness.records.cell import LoadPoint
from harness.records.workload import Prompt, StreamPlan
from harness.run.bench import Bench
from harness.run.recorded_streams import RecordedStreams
from harness.run.replaying import ReplayedLoads
from harness.sweep.load_knobs import AS_RECORDED
from harness.workload.cache import TextStore
from harness.workload.classes import CONTENT_CLASSES, TEXT_CLASSES
from harness.workload.fitting import CountTokens
from harness.workload.pictures import picture_uri
from harness.workload.prompts import TextSource, Workload, build_workload
from harness.workload.spec import (
    LEAST_CONTEXT_TOKENS,
    SHALLOW_CONTEXT_TOKENS,
    StreamShape,
    conversation_of,
    warmup_context_tokens,
)
from harness.workload.thinking import OFF

MOST_WARMUP_ROUNDS = 5
LEAST_ROUNDS = 2
MOST_WARMUP_STREAMS = 8  # of a trace: its own streams come as they please
_WARMUP_CLASS = "prose"  # for classes that no text is made of
_SAMPLE_PICTURE = picture_uri("sample", "sample")  # to learn what one costs
_WARMUP_SEED_OFFSET = 1_000_003  # warm-up texts are other texts than the measured ones


class RoomError(EndpointError):
    """A conversation outgrows what the model takes: no fault of the launch, and no reason to end it."""


StreamsOfRound = Callable[[int], Awaitable[Sequence[StreamPlan]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPrompts:
    """What one trial sends, in this order: fills, warm-up rounds as many as needed, streams."""

    fills: tuple[Prompt, ...]
    warmup_round: StreamsOfRound
    streams: tuple[StreamPlan, ...]


async def _no_round(number: int) -> Sequence[StreamPlan]:
    del number
    return ()


NO_PROMPTS = TrialPrompts(fills=(), warmup_round=_no_round, streams=())


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
        self._bench = bench
        self._cache = cache
        self._sources: dict[tuple[str, bool], TextSource] = {}

    async def for_trial(self, load: LoadPoint, shape: StreamShape, *, name: str) -> TrialPrompts:
        """Return the prompts of one trial; ``name`` makes the heads of a cold one unique within the launch.

        Raises:
            InputError: no prompt of the asked length can be made for this engine.
            RoomError: a conversation would outgrow what the model takes.
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
        made = load.workload_class in TEXT_CLASSES  # a recorded picture need not have the size of a drawn one
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
        """A reused prefix is warmed up on itself, with turns that no measured request repeats.

        Where streams are conversations, those turns are of others that go on from the same first prefix.
        """
        self._require_room(load, shape)
        salt = f"{self._launch_id}-{load.cache}-{load.workload_class}-{load.context_tokens}"
        workload = await self._build(load, turns=shape.turns + LEAST_ROUNDS, salt=salt, alone=LEAST_ROUNDS)
        fills = tuple(fill for fill in workload.fills if fill.text not in self._filled)
        self._filled.update(fill.text for fill in fills)

        async def warmup_round(number: int) -> Sequence[StreamPlan]:
            turn = shape.turns + number
            # Most cells are warm after the first few rounds: further turns are made once they are asked for.
            longer = number >= LEAST_ROUNDS
            most = shape.turns + MOST_WARMUP_ROUNDS
            built = workload
            if longer:
                built = await self._build(load, turns=most, salt=salt, alone=MOST_WARMUP_ROUNDS)
            return [StreamPlan(prompts=(stream.prompts[turn],)) for stream in built.streams]

        measured = tuple(StreamPlan(prompts=stream.prompts[: shape.turns]) for stream in workload.streams)
        return TrialPrompts(fills=fills, warmup_round=warmup_round, streams=measured)

    def _require_room(self, load: LoadPoint, shape: StreamShape) -> None:
        """Refuse a conversation that ends beyond the model's length: a shorter one would differ between arms."""
        grown = conversation_of(load)
        if grown is None or self._room is None:
            return
        longest = grown.longest_tokens(shape.turns)
        if longest + load.output.most_tokens > self._room:
            raise RoomError(
                f"a conversation that begins with {load.context_tokens} tokens ends with a prompt of {longest} and an "
                f"answer of {load.output.most_tokens}, and the model takes {self._room}",
                hint="Lower context_tokens or output_tokens, or raise max_model_len.",
            )

    async def _build(self, load: LoadPoint, *, turns: int, salt: str, seed_offset: int = 0, alone: int = 0) -> Workload:
        pictures = CONTENT_CLASSES[load.workload_class].pictures
        source = await self._source(load.thinking if load.thinking != AS_RECORDED else OFF, pictures=pictures)
        try:
            seed = self._seed + seed_offset
            return await build_workload(source, load, turns=turns, seed=seed, salt=salt, alone=alone)
        except InputError as short:
            if not pictures:
                raise
            # Nobody can know before the launch how many tokens a model makes of a picture.
            raise PictureError(f"{short.what}, with a picture", hint=short.hint) from short

    async def _source(self, thinking: str, *, pictures: bool) -> TextSource:
        """Templates open a prompt differently for each effort, so each has lengths of its own."""
        key = (thinking, pictures)
        if key not in self._sources:
            name = self._bench.tokenizer_id if thinking == OFF else f"{self._bench.tokenizer_id} thinking {thinking}"
            count_tokens: CountTokens = partial(self._bench.count_tokens, thinking=thinking)
            if pictures:
                added = await self._bench.picture_tokens(_SAMPLE_PICTURE, thinking=thinking)
                name = f"{name} pictures {added}"
                count_tokens = partial(_with_picture, count_tokens, added)
            self._sources[key] = TextSource(count_tokens, tokenizer=name, cache=self._cache)
        return self._sources[key]


async def _with_picture(count_tokens: CountTokens, added: int, text: str) -> int:
    return added + await count_tokens(text)
