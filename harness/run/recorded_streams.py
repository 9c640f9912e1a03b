"""What a trial of a trace sends: conversations in streams, each request with its body, its length and its time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.client.endpoint import thinking_fields
from harness.records.cell import LoadPoint, OutputLength
from harness.records.workload import Prompt, RecordedRequest, StreamPlan
from harness.run.bench import Bench
from harness.run.replaying import ReplayedLoads
from harness.workload.arrivals import Due, due_times
from harness.workload.filling import Filler
from harness.workload.replay import Conversation, Turn
from harness.workload.thinking import effort_of, reserve_tokens
from harness.workload.traces.chat import texts_of

_PREFILL_PER_DECODE = 20  # prompt tokens that take as long as one of the answer, roughly: to balance streams


class RecordedStreams:
    """Makes streams of recorded requests for one engine."""

    def __init__(self, bench: Bench, replayed: ReplayedLoads, *, seed: int) -> None:
        self._bench = bench
        self._replayed = replayed
        self._filler = Filler(replayed.fill, seed=seed) if replayed.fill is not None else None
        self._counts: dict[str, int | None] = {}

    async def streams(self, load: LoadPoint, *, salt: str) -> tuple[StreamPlan, ...]:
        """Return the streams of a cell. What is longer than the model takes is left out.

        Args:
            load: of the cell.
            salt: of this trial alone, so that no other one has filled the prefix cache for it.

        Raises:
            EndpointError: lengths are to be filled, and the engine cannot count tokens.
        """
        conversations = self._replayed.conversations[load.load_id]
        times = [[turn.at_s for turn in conversation.turns] for conversation in conversations]
        due = due_times(times, self._replayed.arrivals)
        prompts = [
            await self._prompts(conversation, of, load, salt=salt)
            for conversation, of in zip(conversations, due, strict=True)
        ]
        if self._replayed.arrivals.arrivals == "closed":
            return _balanced(prompts, load.concurrency)
        return tuple(StreamPlan(prompts=tuple(each)) for each in prompts if each)

    async def _prompts(self, conversation: Conversation, due: Due, load: LoadPoint, *, salt: str) -> list[Prompt]:
        found = []
        for turn, due_s in zip(conversation.turns, due, strict=True):
            own = f"{salt}-{conversation.number}-{turn.content}" if load.cache == "cold" else salt
            prompt = await self._prompt(conversation, turn, load, salt=own)
            if prompt is not None and prompt.recorded is not None:
                found.append(replace(prompt, recorded=replace(prompt.recorded, due_s=due_s)))
        return found

    async def _prompt(self, conversation: Conversation, turn: Turn, load: LoadPoint, *, salt: str) -> Prompt | None:
        assert load.recorded is not None  # it is a cell of a trace
        kept = load.recorded.as_recorded
        body = turn.body
        if body is None:
            assert self._filler is not None  # the trace was refused else
            await self._filler.calibrate(self._bench.count_tokens)
            body = self._filler.body(conversation, turn)
        thinking = None if "thinking" in kept else load.thinking
        exact = OutputLength(tokens=turn.output_tokens)
        output = exact if "output_tokens" in kept else _with_reserve(load.output, body, thinking)
        counted = await self._count(turn, body, thinking)
        tokens = counted or turn.prompt_tokens
        limit = self._bench.endpoint.max_model_len
        if limit is not None and tokens + output.most_tokens > limit:
            return None
        texts, written = texts_of(body), json.dumps(body, ensure_ascii=False)
        recorded = RecordedRequest(
            body=written,
            output=output,
            salt=salt,
            temperature=None if "temperature" in kept else load.temperature,
            top_p=None if "top_p" in kept else load.top_p,
            thinking=thinking,
        )
        return Prompt(
            text="\n".join([written, *texts.parts]),
            tokens=tokens,
            content=turn.content,
            recorded=recorded,
            counted=counted is not None and not texts.images,
        )

    async def _count(self, turn: Turn, body: dict[str, object], thinking: str | None) -> int | None:
        key = f"{turn.content} {thinking}"
        if key not in self._counts:
            fields = thinking_fields(self._bench.endpoint, thinking) if thinking is not None else {}
            self._counts[key] = await self._bench.count_recorded(body | fields)
        return self._counts[key]


def _with_reserve(output: OutputLength, body: Mapping[str, Any], thinking: str | None) -> OutputLength:
    """Where thinking is as recorded, each request has the reserve of its own effort."""
    if thinking is not None or output.reserve_tokens:
        return output
    return replace(output, reserve_tokens=reserve_tokens(effort_of(body)))


def _balanced(conversations: Sequence[Sequence[Prompt]], streams: int) -> tuple[StreamPlan, ...]:
    """Each conversation goes to the stream that has least to do so far; the same in every arm."""
    plans: list[list[Prompt]] = [[] for _ in range(streams)]
    work = [0] * streams
    for prompts in conversations:
        at = work.index(min(work))
        plans[at].extend(prompts)
        work[at] += sum(prompt.tokens + _PREFILL_PER_DECODE * _answer(prompt) for prompt in prompts)
    return tuple(StreamPlan(prompts=tuple(prompts)) for prompts in plans if prompts)


def _answer(prompt: Prompt) -> int:
    return prompt.recorded.output.most_tokens if prompt.recorded is not None else 0
