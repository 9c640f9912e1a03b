"""An engine with everything that measures it: the stamped client, plain questions, counters, news of its death."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from harness.client.endpoint import NO_THINKING, Endpoint, count_tokens, probe
from harness.client.load import LoadResult, run_closed_loop
from harness.client.openai import PreparedRequest, Sent, prepare, read_timeout_s
from harness.client.pictures import picture_tokens
from harness.client.recorded import count_recorded, prepare_recorded
from harness.client.redact import ApiKey
from harness.engine.endpoint import api_key
from harness.engine.running import Engine
from harness.errors import EndpointError
from harness.metrics.scrape import scrape
from harness.records.cell import LoadPoint, OutputLength
from harness.records.clock import Clock
from harness.records.counters import CounterSnapshot
from harness.records.identity import content_id
from harness.records.workload import Prompt, StreamPlan
from harness.run.driver import Reached

_QUESTION_TIMEOUT_S = 60.0
_DRAFTING_TOKENS = 32
_DRAFTING_PROMPT = Prompt(text="Write down the numbers from one to thirty in words, one after the other.", tokens=0)
_DRAFTING_LOAD = LoadPoint(
    workload_class="prose",
    context_tokens=1,
    concurrency=1,
    output=OutputLength(tokens=_DRAFTING_TOKENS),
)


KeepTexts = Callable[[str, LoadResult], None]  # by trial id
ChainAnswer = Callable[[Sent], str | None]  # keyed hashes of an answer; None where it is not to be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One running engine, ready to be measured."""

    engine: Engine
    endpoint: Endpoint
    reached: Reached
    plain: httpx.AsyncClient  # scrapes and /tokenize
    clock: Clock
    seed: int
    death: asyncio.Event  # set once the engine's process has ended
    keep_texts: KeepTexts | None = None  # None, unless the user asked for it
    chain_answer: ChainAnswer | None = None

    async def counters(self) -> CounterSnapshot | None:
        """One scrape; None where the engine exports no counters. Raises EndpointError."""
        if self.engine.spec.manners.metrics != "vllm":
            return None
        key = self.endpoint.api_key
        return await scrape(self.plain, self.endpoint.base_url, key.reveal() if key else None, self.clock)

    async def count_tokens(self, text: str, *, thinking: str = NO_THINKING) -> int:
        """Tokens of ``text`` as one user message, as the server counts them. Raises EndpointError."""
        return await count_tokens(self.plain, self.endpoint, text, thinking=thinking)

    async def picture_tokens(self, picture: str, *, thinking: str) -> int:
        """What a picture adds to a prompt. Raises PictureError where the server takes none."""
        return await picture_tokens(self.plain, self.endpoint, picture, thinking=thinking)

    async def count_recorded(self, body: dict[str, Any]) -> int | None:
        """Tokens of the prompt of a recorded body; None where the server cannot count it."""
        return await count_recorded(self.plain, self.endpoint, body)

    @property
    def tokenizer_id(self) -> str:
        """Identity of what counts tokens: prompts built for it fit no other."""
        spec = self.engine.spec
        return content_id([spec.recipe, spec.style == "simulated", self.endpoint.model, self.endpoint.chat])

    def prepared(self, streams: Sequence[StreamPlan], load: LoadPoint, seed: int) -> list[list[PreparedRequest]]:
        """Return the requests of all streams, serialised. Each has a sampler seed of its own, the same in every arm."""
        return [
            [
                self._prepared(prompt, load, stream=stream, turn=turn, seed=seed + 1000 * stream + turn)
                for turn, prompt in enumerate(plan.prompts)
            ]
            for stream, plan in enumerate(streams)
        ]

    def _prepared(self, prompt: Prompt, load: LoadPoint, *, stream: int, turn: int, seed: int) -> PreparedRequest:
        if prompt.recorded is not None:
            return prepare_recorded(self.endpoint, prompt, stream=stream, turn=turn, seed=seed)
        return prepare(self.endpoint, prompt, load, stream=stream, turn=turn, seed=seed)

    async def replay(self, streams: Sequence[Sequence[PreparedRequest]], load: LoadPoint) -> LoadResult:
        """Run a closed loop, which ends at once if the engine dies. Raises EndpointError if nobody accepts."""
        spec = self.engine.spec
        timeout_s = read_timeout_s(
            load,
            prefill_tokens_per_s=spec.prefill_tokens_per_s,
            decode_tokens_per_s=spec.slowest_decode_tokens_per_s,
        )
        try:
            return await run_closed_loop(
                self.reached.measuring,
                streams,
                read_timeout_s=timeout_s,
                prewarm=self.reached.prewarm,
                abort=self.death,
                real_time=self.reached.real_time,
            )
        except httpx.TransportError as error:
            raise EndpointError(f"the engine accepts no connection: {error}", where=self.endpoint.base_url) from error

    async def draft(self) -> None:
        """Send one short request, so that the engine drafts."""
        await self.replay(self.prepared([StreamPlan(prompts=(_DRAFTING_PROMPT,))], _DRAFTING_LOAD, 0), _DRAFTING_LOAD)


@asynccontextmanager
async def bench_for(
    reached: Reached,
    clock: Clock,
    *,
    seed: int,
    keep_texts: KeepTexts | None = None,
    chain_answer: ChainAnswer | None = None,
) -> AsyncIterator[Bench]:
    """Probe the engine and hold its clients open.

    Raises:
        EndpointError: it does not answer as an OpenAI-compatible engine.
    """
    engine = reached.engine
    variable = engine.spec.api_key_variable
    value = api_key(engine.spec)
    key = ApiKey(value, variable=variable) if value and variable else None
    async with (
        httpx.AsyncClient(transport=reached.measuring, trust_env=False) as measured,
        httpx.AsyncClient(transport=reached.asking, timeout=_QUESTION_TIMEOUT_S, trust_env=False) as plain,
    ):
        endpoint = await probe(measured, engine.base_url, key, model=engine.model, chat=engine.spec.chat)
        manners = engine.spec.manners
        endpoint = replace(
            endpoint,
            max_model_len=engine.max_model_len if endpoint.max_model_len is None else endpoint.max_model_len,
            thinking_field=manners.thinking_field,
            first_event_tokens=manners.first_event_tokens,
        )
        death = asyncio.Event()
        watcher = asyncio.create_task(_watch(engine, death))
        try:
            yield Bench(
                engine=engine,
                endpoint=endpoint,
                reached=reached,
                plain=plain,
                clock=clock,
                seed=seed,
                death=death,
                keep_texts=keep_texts,
                chain_answer=chain_answer,
            )
        finally:
            watcher.cancel()
            await asyncio.wait([watcher])  # unlike awaiting it, this lets a Ctrl-C through


async def _watch(engine: Engine, death: asyncio.Event) -> None:
    await engine.died()
    death.set()
