"""The texts of one workload, without nonces: the same in every arm, launch and trial, so made once and kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from harness.records.identity import content_id
from harness.workload.classes import ContentClass, content_class_named
from harness.workload.corpus import load_corpus
from harness.workload.fitting import Calibration, CountTokens, Fitted, Fitter, Frame, Probe, calibrate, count
from harness.workload.growth import Conversation, turn_tokens
from harness.workload.nonce import nonce_head, without_nonce
from harness.workload.steps import step_passages
from harness.workload.supply import Supply, passages_for

TEXT_VERSION = 7  # of how texts are made: another one makes other texts
_PREFIX_RATIO = 0.01  # how far a reused prefix may be from its size; the whole prompt is exact all the same
_TURN_SHARES = 4  # of a turn: by one of them a prefix may be off, at most
_CALIBRATING_HEADS = 5
_BUILD = "build"  # the salt of the nonces that are there while texts are fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOrder:
    """Which prompts to make. ``streams`` x ``turns`` of them, each of ``context_tokens``, or as a conversation says."""

    workload_class: str
    context_tokens: int
    streams: int
    turns: int = 1
    cache: Literal["cold", "warm", "shared"] = "cold"
    seed: int = 0
    variant: str = ""  # of loads that differ in sampling or output alone: they share prefixes, and no turn
    conversation: Conversation | None = None  # None: each turn goes on from the prefix alone
    alone: int = 0  # of the turns, the last ones: no part of a conversation

    def goes_on(self, turn: int) -> bool:
        """Tell whether a stream's prompt number ``turn`` begins with the whole one before it."""
        return self._converses(turn) and self.conversation is not None and self.conversation.goes_on(turn)

    def prompt_tokens(self, turn: int) -> int:
        """Return how long a stream's prompt number ``turn`` is."""
        if self.conversation is None or not self._converses(turn):
            return self.context_tokens
        return self.conversation.prompt_tokens(turn)

    def _converses(self, turn: int) -> bool:
        return turn < self.turns - self.alone

    @property
    def order_id(self) -> str:
        """Identity: the order, the corpus and the way texts are made."""
        return content_id([asdict(self), load_corpus(self.workload_class).sha256, TEXT_VERSION])


@dataclass(frozen=True, kw_only=True)
class Text:
    """A prompt without its head."""

    text: str
    tokens: int  # with a head, as counted

    @cached_property
    def content(self) -> str:
        """Identity of the text. Cached: every launch asks for that of every text, and long ones take a while."""
        return content_id(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What an order asks for."""

    fills: tuple[Text, ...]  # sent before anything is measured: one a stream if warm, one if shared, none if cold
    streams: tuple[tuple[Text, ...], ...]
    nonce_is_constant: bool  # any head takes the same tokens; else each is to be counted
    pictures: bool = False  # each prompt has one before its text


async def calibrated(
    count_tokens: CountTokens, workload_class: str, closing_tokens: tuple[int, ...] | None = None
) -> Calibration:
    """Measure what texts of a class need to know of the server, in a few counts of short texts.

    ``closing_tokens`` are those of another class, which need not be measured again.
    """
    heads = tuple(nonce_head(_BUILD, index) for index in range(_CALIBRATING_HEADS))
    return await calibrate(count_tokens, _frame(content_class_named(workload_class), heads[0]), heads, closing_tokens)


class Prefix(NamedTuple):
    """A prefix that was fitted, and what the fitter had learned by then."""

    fitted: Fitted
    tokens_per_weight: float


async def write_texts(
    count_tokens: CountTokens,
    order: PromptOrder,
    calibration: Calibration,
    prefixes: dict[tuple[str, int, int, int], Prefix] | None = None,
) -> Texts:
    """Make the texts of an order.

    Args:
        count_tokens: of the server.
        order: which texts.
        calibration: of the class.
        prefixes: those made for other orders of the same server, by class, context, seed and number: orders for other
            numbers of streams begin with the same ones. New ones are added.

    Raises:
        InputError: the context is smaller than the frame of a prompt.
        EndpointError: the server's counts do not let any text come near enough.
    """
    writer = _Writer(count_tokens, calibration, order, {} if prefixes is None else prefixes)
    if order.cache == "cold":
        return await writer.cold()
    return await writer.reused(prefixes=1 if order.cache == "shared" else order.streams)


class _Writer:
    def __init__(
        self,
        count_tokens: CountTokens,
        calibration: Calibration,
        order: PromptOrder,
        prefixes: dict[tuple[str, int, int, int], Prefix],
    ) -> None:
        self._fitter = Fitter(count_tokens, calibration)
        self._count_tokens = count_tokens
        self._prefixes = prefixes
        self._calibration = calibration
        self._order = order
        self._class = content_class_named(order.workload_class)
        self._corpus = load_corpus(order.workload_class)
        self._around_turn_tokens: int | None = None

    async def cold(self) -> Texts:
        streams: list[list[Text]] = [[] for _ in range(self._order.streams)]
        for index in range(self._order.streams * self._order.turns):
            # Turn by turn: the first prompts are the same at any concurrency.
            supply = self._supply("prompt", index)
            fitted = await self._fit(self._frame(nonce_head(_BUILD, index)), supply, self._calibration.empty)
            streams[index % self._order.streams].append(_text(fitted))
        return self._texts((), streams)

    async def reused(self, *, prefixes: int) -> Texts:
        filled = [await self._prefix(index) for index in range(prefixes)]
        streams: list[list[Fitted]] = [[] for _ in range(self._order.streams)]
        for index in range(self._order.streams * self._order.turns):
            turn, stream = divmod(index, self._order.streams)
            if self._order.goes_on(turn):
                streams[stream].append(await self._next_turn(streams[stream][-1], turn, index))
                continue
            prefix = filled[stream % prefixes]
            # The prefix's own text is the turn's frame without a turn, and was counted as such.
            frame = self._frame(f"{nonce_head(_BUILD, stream % prefixes)}{prefix.body}\n\n")
            counted = Probe(0, prefix.probe.closing_words, prefix.probe.tokens)
            # Prefixes are the same at any number of streams, so that a launch fills each once; turns differ, so that no
            # cell finds those of another in the cache.
            supply = self._supply(self._turn_label(), index)
            streams[stream].append(await self._fit(frame, supply, counted))
        return self._texts(tuple(map(_text, filled)), [list(map(_text, stream)) for stream in streams])

    async def _next_turn(self, former: Fitted, turn: int, index: int) -> Fitted:
        """Return a prompt that begins with all of ``former``: a made answer, results and an instruction follow it."""
        grown = self._order.conversation
        assert grown is not None  # else no turn goes on
        passages = passages_for(
            self._corpus,
            seed=self._order.seed,
            label=f"next {self._turn_label()}",
            index=index,
            context_tokens=grown.growth_tokens,
        )
        answer_weight = grown.answer_tokens / self._fitter.tokens_per_weight
        by_character = self._calibration.by_character
        step = step_passages(passages, answer_weight=answer_weight, by_character=by_character)
        start = Probe(0, 1, former.probe.tokens + await self._around_turn())
        frame = self._frame(f"{former.text}\n\n")
        supply = Supply(step, by_character=by_character)
        supply.words_up_to(1.0)  # where closing words alone fill the turn, nothing else would take its first piece
        return await self._fitter.fit(frame, supply, target=self._order.prompt_tokens(turn), start=start)

    async def _around_turn(self) -> int:
        """Return what a turn without text adds to a prompt: closing and instruction, counted behind an empty one."""
        if self._around_turn_tokens is None:
            empty = self._frame(nonce_head(_BUILD, 0)).text("", 1)
            twice = await count(self._count_tokens, self._frame(f"{empty}\n\n").text("", 1))
            self._around_turn_tokens = twice - self._calibration.empty.tokens
        return self._around_turn_tokens

    def _turn_label(self) -> str:
        label = f"turn of {self._order.streams} {self._order.variant}".rstrip()
        grown = self._order.conversation
        return label if grown is None else f"{label} answered in {grown.answer_tokens}"

    async def _prefix(self, index: int) -> Fitted:
        order = self._order
        key = (order.workload_class, order.context_tokens, order.seed, index)
        if key not in self._prefixes:
            self._prefixes[key] = Prefix(await self._fitted_prefix(index), self._fitter.tokens_per_weight)
        known = self._prefixes[key]
        self._fitter.tokens_per_weight = known.tokens_per_weight  # texts do not depend on which orders came before
        return known.fitted

    async def _fitted_prefix(self, index: int) -> Fitted:
        turn = turn_tokens(self._order.context_tokens)
        target = self._order.context_tokens - turn
        # At depth one per cent is more than a turn, which would leave no room for it.
        within = min(int(target * _PREFIX_RATIO), turn // _TURN_SHARES)
        frame = self._frame(nonce_head(_BUILD, index))
        supply = self._supply("prefix", index)
        start = self._calibration.empty
        return await self._fitter.fit(frame, supply, target=target, start=start, within=within)

    async def _fit(self, frame: Frame, supply: Supply, start: Probe) -> Fitted:
        return await self._fitter.fit(frame, supply, target=self._order.context_tokens, start=start)

    def _supply(self, label: str, index: int) -> Supply:
        order = self._order
        passages = passages_for(
            self._corpus, seed=order.seed, label=label, index=index, context_tokens=order.context_tokens
        )
        return Supply(passages, by_character=self._calibration.by_character)

    def _frame(self, before: str) -> Frame:
        return _frame(self._class, before)

    def _texts(self, fills: tuple[Text, ...], streams: list[list[Text]]) -> Texts:
        constant = self._calibration.nonce_is_constant
        return Texts(
            fills=fills,
            streams=tuple(map(tuple, streams)),
            pictures=self._class.pictures,
            nonce_is_constant=constant,
        )


def _text(fitted: Fitted) -> Text:
    return Text(text=without_nonce(fitted.text), tokens=fitted.probe.tokens)


def _frame(content_class: ContentClass, before: str) -> Frame:
    return Frame(before=before, closing_lead=content_class.closing_lead, instruction=content_class.instruction)
