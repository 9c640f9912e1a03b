"""How much a load point asks for: requests per stream, so that a cell has enough drafts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.errors import InputError
from harness.records.cell import LoadPoint
from harness.workload.classes import content_class_named
from harness.workload.growth import CONVERSING_CLASS, LEAST_TURNS, Conversation, conversation

# Planning values, used before anything is measured.
ACCEPTED_RATIO = 0.85  # of a drafted token, given that all before it were accepted; high, so that drafts suffice
NATURAL_RATIO = 0.5  # of the limit, where answers end by themselves
MOST_COLD_TOKENS = 262_144  # prompt tokens that a cold trial computes, once its streams have sent two requests
DEEP_ROUND_TOKENS = 32_768  # from here on, a cold round is too dear for a warm-up
SHALLOW_CONTEXT_TOKENS = 2048  # what a deep cold cell is warmed up with
LEAST_CONTEXT_TOKENS = 96  # below it, head, closing words and instruction leave no room for text
LEAST_REUSED_CONTEXT_TOKENS = 192  # the same beside a prefix that is worth reusing


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamShape:
    """How the requests of a trial lie in its closed-loop streams."""

    streams: int
    turns: int  # requests of each stream, one after the other
    drafts: float  # expected, from the planning values

    @property
    def requests(self) -> int:
        """All measured requests of one trial."""
        return self.streams * self.turns


def streams_for(
    load: LoadPoint, *, drafts: int, k: int, accepted_ratio: float = ACCEPTED_RATIO, where: str | None = None
) -> StreamShape:
    """Return how many requests each stream sends, so that the cell has at least ``drafts`` drafts.

    A cold cell computes each prompt anew, which at depth takes minutes: there it gets as many requests as
    MOST_COLD_TOKENS allow, two at the least. Its drafts may then be too few, which its figures say. A conversation has
    LEAST_TURNS turns at the least.

    Args:
        load: what is asked for.
        drafts: least per cell, over all streams.
        k: the largest of the whole sweep, not of one arm: all arms must replay the same prompts. 0 plans one step
            per token.
        accepted_ratio: the planning value, 0 to 1.
        where: file:line:column of the load in the sweep, for the error.

    Raises:
        InputError: the load cannot be made from a content class, or an argument is out of range.
    """
    require_buildable(load, where=where)
    if load.recorded is not None:
        return _recorded_shape(load, k=k, accepted_ratio=accepted_ratio)
    if drafts < 1 or k < 0 or not 0 <= accepted_ratio <= 1:
        raise InputError(
            f"drafts {drafts}, k {k}, accepted ratio {accepted_ratio}: out of range",
            where=where,
            hint="drafts is at least 1, k at least 0, the ratio from 0 to 1.",
        )
    per_request = drafts_per_request(load, k=k, accepted_ratio=accepted_ratio)
    turns = max(1, math.ceil(drafts / (per_request * load.concurrency)))
    if load.cache == "cold":
        turns = min(turns, _affordable_turns(load))
    if conversation_of(load) is not None:
        turns = max(turns, LEAST_TURNS)
    return StreamShape(streams=load.concurrency, turns=turns, drafts=per_request * load.concurrency * turns)


def conversation_of(load: LoadPoint) -> Conversation | None:
    """Return how the prompts of each stream grow out of one another; None where each stands by itself.

    They grow in a warm cell of class agentic. Reasoning is left out of a conversation, as chat templates leave it out.
    """
    if load.recorded is not None or load.cache != "warm" or load.workload_class != CONVERSING_CLASS:
        return None
    answer = load.output.tokens * (NATURAL_RATIO if load.output.natural else 1)
    return conversation(load.context_tokens, math.ceil(answer))


def promised_tokens(load: LoadPoint, turn: int) -> int:
    """Return how long a stream's prompt number ``turn`` (from 0) is, where prompts are made."""
    growing = conversation_of(load)
    return load.context_tokens if growing is None else growing.prompt_tokens(turn)


def warmup_context_tokens(load: LoadPoint) -> int:
    """Return the prompt length of warm-up requests: the cell's own, or a short one where a cold round takes minutes."""
    deep = load.cache == "cold" and load.context_tokens * load.concurrency >= DEEP_ROUND_TOKENS
    return min(load.context_tokens, SHALLOW_CONTEXT_TOKENS) if deep else load.context_tokens


def drafts_per_request(load: LoadPoint, *, k: int, accepted_ratio: float = ACCEPTED_RATIO) -> float:
    """Return the drafts that one answer is expected to take. Its first token comes from the prefill, not a draft."""
    tokens = load.output.most_tokens * (NATURAL_RATIO if load.output.natural else 1)
    return max(1.0, (tokens - 1) / expected_tokens_per_step(k, accepted_ratio))


def expected_tokens_per_step(k: int, accepted_ratio: float) -> float:
    """Return the mean of tokens out per step: (1 - a^(k+1)) / (1 - a) (Leviathan et al., ICML 2023, equation 1)."""
    return sum(accepted_ratio**position for position in range(k + 1))


def require_buildable(load: LoadPoint, *, where: str | None = None) -> None:
    """Check that prompts for ``load`` can be made from a content class.

    Raises:
        InputError: unknown class, a class or cache mode that only a trace has, or a context too short.
    """
    if load.recorded is not None:
        return
    content_class_named(load.workload_class, where=where)
    if load.cache == "as_recorded":
        raise InputError(
            "cache as_recorded needs a workload trace",
            where=where,
            hint="Name a trace under workload, or one of cold, warm, shared.",
        )
    least = LEAST_CONTEXT_TOKENS if load.cache == "cold" else LEAST_REUSED_CONTEXT_TOKENS
    if load.context_tokens < least:
        raise InputError(
            f"context_tokens {load.context_tokens} is too short for cache {load.cache}",
            where=where,
            hint=f"A unique head, the text and the instruction need at least {least} tokens.",
        )
    if load.concurrency < 1 or load.output.tokens < 1:
        raise InputError("concurrency and output_tokens must be at least 1", where=where)


def _recorded_shape(load: LoadPoint, *, k: int, accepted_ratio: float) -> StreamShape:
    """A trace has the requests that it has."""
    assert load.recorded is not None
    requests, tokens = load.recorded.requests, load.recorded.output_tokens
    drafts = max(1.0, (tokens - requests) / expected_tokens_per_step(k, accepted_ratio))
    return StreamShape(streams=load.concurrency, turns=math.ceil(requests / load.concurrency), drafts=drafts)


def _affordable_turns(load: LoadPoint) -> int:
    least = math.ceil(2 / load.concurrency)
    return max(least, MOST_COLD_TOKENS // (load.context_tokens * load.concurrency))
