"""Prompts as a trial sends them: texts of an exact length, with a head that no trial before it has sent."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from harness.errors import EndpointError
from harness.records.cell import LoadPoint
from harness.records.identity import content_id
from harness.records.workload import Prompt, StreamPlan
from harness.records.workload import workload_id as workload_id_of
from harness.workload.cache import TextStore
from harness.workload.fitting import Calibration, CountTokens, count, tolerance_tokens
from harness.workload.nonce import nonce_head
from harness.workload.pictures import picture_uri
from harness.workload.spec import conversation_of, require_buildable
from harness.workload.texts import Prefix, PromptOrder, Text, Texts, calibrated, write_texts

_MOST_NONCES = 16  # tried per head, where heads differ in tokens
_NEAR_TOKENS = 1  # off is near enough for a head that all turns of a conversation share: each try counts them all


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What one trial sends: first the fills, once and unmeasured as a decode, then the streams."""

    fills: tuple[Prompt, ...]  # warm: one per stream, in their order; shared: one; cold: none
    streams: tuple[StreamPlan, ...]

    @property
    def workload_id(self) -> str:
        """Identity of the prompts, the same in every arm, launch and trial."""
        return workload_id_of(self.streams)


class TextSource:
    """Where texts come from: a server's tokenizer, and what was made with it before.

    ``count_tokens`` counts a single user message, the server's template included. ``tokenizer`` names model, template
    and tokenizer: texts are kept under it.
    """

    def __init__(self, count_tokens: CountTokens, *, tokenizer: str = "", cache: TextStore | None = None) -> None:
        self.count_tokens = count_tokens
        self._tokenizer = tokenizer
        self._cache = cache
        self._calibrations: dict[str, Calibration] = {}
        self._prefixes: dict[tuple[str, int, int, int], Prefix] = {}

    async def texts(self, order: PromptOrder) -> Texts:
        """Return the texts of an order: kept ones if they still have the promised count, else new ones."""
        key = content_id([self._tokenizer, order.order_id])
        kept = self._cache.load(key) if self._cache else None
        if kept is not None and await self._still_true(kept):
            return kept
        if order.workload_class not in self._calibrations:
            known = next((each.closing_tokens for each in self._calibrations.values()), None)
            self._calibrations[order.workload_class] = await calibrated(self.count_tokens, order.workload_class, known)
        made = await write_texts(self.count_tokens, order, self._calibrations[order.workload_class], self._prefixes)
        if self._cache:
            self._cache.store(key, made)
        return made

    async def _still_true(self, texts: Texts) -> bool:
        # One count finds a changed template or tokenizer under an old name.
        first = texts.streams[0][0]
        miss = abs(await count(self.count_tokens, nonce_head("kept") + first.text) - first.tokens)
        return miss == 0 or (not texts.nonce_is_constant and miss <= tolerance_tokens(first.tokens))


async def build_prompts(source: TextSource, order: PromptOrder, *, salt: str) -> tuple[Prompt, ...]:
    """Return ``streams`` x ``turns`` prompts in the order in which they are first due.

    Raises: as build_workload.
    """
    workload = await _build(source, order, salt=salt)
    turns = range(order.turns)
    return tuple(stream.prompts[turn] for turn in turns for stream in workload.streams)


async def build_workload(
    source: TextSource, load: LoadPoint, *, turns: int, seed: int, salt: str, alone: int = 0
) -> Workload:
    """Return what a trial of ``load`` sends.

    Args:
        source: of the texts.
        load: class, context, concurrency and cache mode.
        turns: requests per stream, from spec.streams_for.
        seed: of the sweep: the same seed gives the same texts in every arm and launch.
        salt: of this trial alone (run, launch, repetition), so that nothing is reused from an earlier one.
        alone: of the turns, the last ones, which are no part of a conversation: each goes on from the first prefix.

    Raises:
        InputError: the load cannot be built from a content class, or its context is too short for this server.
        EndpointError: the server's counts do not let any text come near enough.
    """
    require_buildable(load)
    conversation = conversation_of(load)
    order = PromptOrder(
        workload_class=load.workload_class,
        context_tokens=load.context_tokens,
        streams=load.concurrency,
        turns=turns,
        cache="cold" if load.cache == "as_recorded" else load.cache,
        seed=seed,
        variant=_variant(load),
        conversation=conversation,
        alone=alone if conversation is not None else 0,
    )
    return await _build(source, order, salt=salt)


def _variant(load: LoadPoint) -> str:
    """Of what tells loads apart besides class, context and streams; "" for cold ones, whose heads tell them apart."""
    if load.cache not in ("warm", "shared"):
        return ""
    return content_id([asdict(load.output), load.temperature, load.top_p, load.thinking])


async def _build(source: TextSource, order: PromptOrder, *, salt: str) -> Workload:
    texts = await source.texts(order)
    near = _NEAR_TOKENS if order.conversation is not None else 0
    counted = not texts.nonce_is_constant
    heads = _Heads(source.count_tokens, salt=salt, counted=counted, pictures=texts.pictures, near=near)
    if order.cache == "cold":
        streams = [[(await heads.put([text]))[0] for text in stream] for stream in texts.streams]
        return Workload(fills=(), streams=tuple(StreamPlan(prompts=tuple(stream)) for stream in streams))
    if order.cache == "shared":
        prompts = await heads.put([*texts.fills, *(text for stream in texts.streams for text in stream)])
        return _shared(prompts, texts)
    groups = [await heads.put([fill, *stream]) for fill, stream in zip(texts.fills, texts.streams, strict=True)]
    return Workload(
        fills=tuple(group[0] for group in groups),
        streams=tuple(StreamPlan(prompts=tuple(group[1:])) for group in groups),
    )


def _shared(prompts: list[Prompt], texts: Texts) -> Workload:
    fill, *measured = prompts
    remaining = iter(measured)
    streams = tuple(StreamPlan(prompts=tuple(next(remaining) for _ in stream)) for stream in texts.streams)
    return Workload(fills=(fill,), streams=streams)


class _Heads:
    """Puts a head that was not used before on the texts of one prefix."""

    def __init__(self, count_tokens: CountTokens, *, salt: str, counted: bool, pictures: bool, near: int) -> None:
        self._count_tokens = count_tokens
        self._salt = salt
        self._counted = counted
        self._pictures = pictures
        self._near = near
        self._used: set[str] = set()
        self._groups = 0

    async def put(self, texts: list[Text]) -> list[Prompt]:
        """Return the texts under one head."""
        self._groups += 1
        nearest: list[Prompt] | None = None
        nearest_head = ""
        for attempt in range(_MOST_NONCES):
            head = nonce_head(self._salt, self._groups, attempt)
            if head in self._used:
                continue
            prompts = [_prompt(head, text) for text in texts]
            if self._counted:
                prompts = [replace(prompt, tokens=await count(self._count_tokens, prompt.text)) for prompt in prompts]
            if nearest is None or _miss(prompts, texts) < _miss(nearest, texts):
                nearest, nearest_head = prompts, head
            if _miss(nearest, texts) <= self._near:
                break
        if nearest is None or _miss(nearest, texts) > tolerance_tokens(texts[-1].tokens):
            raise EndpointError("the server counts each head differently: no prompt of the asked length can be made")
        self._used.add(nearest_head)
        if not self._pictures:
            return nearest
        # Prompts that share a prefix share its picture, which comes before all text.
        picture = picture_uri(texts[0].content, nearest_head)
        return [replace(prompt, picture=picture) for prompt in nearest]


def _prompt(head: str, text: Text) -> Prompt:
    return Prompt(text=head + text.text, tokens=text.tokens, content=text.content)


def _miss(prompts: list[Prompt], texts: list[Text]) -> int:
    return max(abs(prompt.tokens - text.tokens) for prompt, text in zip(prompts, texts, strict=True))
