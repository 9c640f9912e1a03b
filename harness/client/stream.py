"""The bytes of one streamed completion, read as facts: when tokens came, how many, and what the server said of them.

Pure, and run after the measured window. Chunks are those of /v1/chat/completions and /v1/completions as vLLM streams
them; what another server leaves out stays None.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from harness.client.digest import repeated_tail_ratio, sha256_of_ids, sha256_of_text
from harness.client.sse import ServerEvent, decode_events
from harness.records.exchange import Exchange
from harness.records.request import RequestSpeculation, TokenBatch, TokenCountSource

_Value = TypeVar("_Value")
_DONE = "[DONE]"
_REASONING_KEYS = ("reasoning", "reasoning_content")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """What one stream delivered. Times of ``batches`` are relative to the epoch that was asked for."""

    batches: tuple[TokenBatch, ...]  # events that carried at least one token
    token_count_source: TokenCountSource
    events: int  # with data, whatever they carried
    coalesced_reads: int  # reads that completed more than one batch
    finish_reason: str | None
    error: str | None  # of an error event, in the server's words
    done: bool  # the [DONE] event came; no proof of success
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    first_answer_s: float | None  # of the first event with a part of the answer: text or a call of a tool
    answer_tokens: int | None  # from there on; events are whole, so reasoning in the same event counts too
    speculation: RequestSpeculation | None
    text_sha256: str | None  # reasoning and answer
    token_ids_sha256: str | None
    repeated_tail_ratio: float | None  # over token ids, else over words
    malformed_events: int


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One event, taken apart."""

    at_s: float
    choices: int = 0
    answer: str = ""
    reasoning: str = ""
    calls_tool: bool = False
    token_ids: list[int] | None = None
    completion_tokens: int | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    error: str | None = None
    speculation: RequestSpeculation | None = None
    malformed: bool = False
    done: bool = False


def read_stream(exchange: Exchange, *, epoch_s: float = 0.0) -> StreamFacts:
    """Return the facts of a streamed reply, however it ended.

    Args:
        exchange: its body is parsed here.
        epoch_s: what the times of the batches count from, on the clock of the exchange.
    """
    chunks = [_read_chunk(event) for event in decode_events(exchange.body_reads())]
    source = _count_source(chunks)
    batches = _batches(chunks, source, epoch_s)
    first_answer_s = _first_answer_s(chunks, batches, epoch_s)
    token_ids = [token for chunk in chunks for token in chunk.token_ids or ()]
    reasoning = "".join(chunk.reasoning for chunk in chunks)
    answer = "".join(chunk.answer for chunk in chunks)
    usage = _last([chunk.usage or None for chunk in chunks]) or {}
    return StreamFacts(
        batches=batches,
        token_count_source=source,
        events=len(chunks),
        coalesced_reads=_shared_stamps(batches),
        finish_reason=_last([chunk.finish_reason for chunk in chunks]),
        error=_last([chunk.error for chunk in chunks]),
        done=any(chunk.done for chunk in chunks),
        prompt_tokens=_count(usage, "prompt_tokens"),
        cached_tokens=_count(_mapping(usage, "prompt_tokens_details"), "cached_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        reasoning_tokens=_count(_mapping(usage, "completion_tokens_details"), "reasoning_tokens"),
        first_answer_s=first_answer_s,
        answer_tokens=_answer_tokens(batches, first_answer_s),
        speculation=_last([chunk.speculation for chunk in chunks]),
        text_sha256=sha256_of_text(reasoning, answer) if batches else None,
        token_ids_sha256=sha256_of_ids(token_ids) if token_ids else None,
        repeated_tail_ratio=repeated_tail_ratio(token_ids or f"{reasoning} {answer}".split()),
        malformed_events=sum(chunk.malformed for chunk in chunks),
    )


def delivered_text(exchange: Exchange) -> tuple[str, str]:
    """Return reasoning and answer of a streamed reply. Private: of use only where the user asked to keep texts."""
    chunks = [_read_chunk(event) for event in decode_events(exchange.body_reads())]
    return "".join(chunk.reasoning for chunk in chunks), "".join(chunk.answer for chunk in chunks)


def delivered_token_ids(exchange: Exchange) -> tuple[int, ...]:
    """Return the ids of all tokens of a streamed reply, () where the server gives none. As private as its text."""
    chunks = [_read_chunk(event) for event in decode_events(exchange.body_reads())]
    return tuple(token for chunk in chunks for token in chunk.token_ids or ())


def error_message(body: bytes) -> str | None:
    """Return the server's own words in the JSON body of a refused request; None if there are none."""
    try:
        tree = json.loads(body)
    except ValueError:
        return body.decode("utf-8", errors="replace").strip() or None
    return _error_text(tree) or (str(tree["detail"]) if isinstance(tree, dict) and tree.get("detail") else None)


def _read_chunk(event: ServerEvent) -> _Chunk:
    if event.data.strip() == _DONE:
        return _Chunk(event.at_s, done=True)
    try:
        tree = json.loads(event.data)
    except ValueError:
        return _Chunk(event.at_s, malformed=True)
    if not isinstance(tree, dict):
        return _Chunk(event.at_s, malformed=True)
    choices = [each for each in _sequence(tree, "choices") if isinstance(each, dict)]
    deltas = [_mapping(choice, "delta") or choice for choice in choices]
    usage = _mapping(tree, "usage")
    return _Chunk(
        event.at_s,
        choices=len(choices),
        answer="".join(_text(delta, "content") or _text(delta, "text") for delta in deltas),
        reasoning="".join(_reasoning(delta) for delta in deltas),
        calls_tool=any(delta.get("tool_calls") for delta in deltas),
        token_ids=_token_ids(choices),
        completion_tokens=_count(usage, "completion_tokens"),
        usage=usage,
        finish_reason=_last([_text(choice, "finish_reason") or None for choice in choices]),
        error=_error_text(tree),
        speculation=_speculation(_mapping(_mapping(tree, "metrics"), "speculative_decoding")),
    )


def _count_source(chunks: Sequence[_Chunk]) -> TokenCountSource:
    if any(chunk.token_ids for chunk in chunks):
        return "token_ids"
    # A usage object beside choices is a running count; the one at the end stands alone.
    if any(chunk.choices and chunk.completion_tokens for chunk in chunks):
        return "usage_growth"
    return "none"


def _batches(chunks: Sequence[_Chunk], source: TokenCountSource, epoch_s: float) -> tuple[TokenBatch, ...]:
    batches, counted = [], 0
    for chunk in chunks:
        tokens: int | None
        if source == "token_ids":
            tokens = len(chunk.token_ids or ())
        elif source == "usage_growth":
            total = chunk.completion_tokens if chunk.choices and chunk.completion_tokens is not None else counted
            tokens, counted = max(total - counted, 0), max(total, counted)
        else:
            # Without counts, text is the only sign that tokens came; how many stays unknown.
            tokens = None if chunk.answer or chunk.reasoning or chunk.calls_tool else 0
        if tokens != 0:
            batches.append(TokenBatch(at_s=chunk.at_s - epoch_s, tokens=tokens))
    return tuple(batches)


def _first_answer_s(chunks: Sequence[_Chunk], batches: Sequence[TokenBatch], epoch_s: float) -> float | None:
    """Without any reasoning, all is answer: the first event may hold half a character, and so no text."""
    if not any(chunk.reasoning for chunk in chunks):
        return batches[0].at_s if batches else None
    return next((chunk.at_s - epoch_s for chunk in chunks if chunk.answer or chunk.calls_tool), None)


def _answer_tokens(batches: Sequence[TokenBatch], first_answer_s: float | None) -> int | None:
    if first_answer_s is None:
        return 0
    counts = [batch.tokens for batch in batches if batch.at_s >= first_answer_s]
    return None if None in counts else sum(count or 0 for count in counts)


def _shared_stamps(batches: Sequence[TokenBatch]) -> int:
    shared = {later.at_s for earlier, later in pairwise(batches) if later.at_s == earlier.at_s}
    return len(shared)


def _token_ids(choices: Iterable[dict[str, Any]]) -> list[int] | None:
    lists = [choice["token_ids"] for choice in choices if isinstance(choice.get("token_ids"), list)]
    return [token for ids in lists for token in ids if isinstance(token, int)] if lists else None


def _reasoning(delta: dict[str, Any]) -> str:
    return next((text for key in _REASONING_KEYS if (text := _text(delta, key))), "")


def _speculation(tree: dict[str, Any]) -> RequestSpeculation | None:
    drafts = _count(tree, "num_spec_steps")
    drafted = _count(tree, "num_draft_tokens")
    accepted = _count(tree, "num_accepted_draft_tokens")
    if drafts is None or drafted is None or accepted is None:
        return None
    return RequestSpeculation(drafts=drafts, draft_tokens=drafted, accepted_tokens=accepted)


def _error_text(tree: object) -> str | None:
    error = tree.get("error") if isinstance(tree, dict) else None
    if isinstance(error, dict):
        return _text(error, "message") or json.dumps(error)
    return str(error) if error else None


def _mapping(tree: dict[str, Any], key: str) -> dict[str, Any]:
    value = tree.get(key)
    return value if isinstance(value, dict) else {}


def _sequence(tree: dict[str, Any], key: str) -> list[Any]:
    value = tree.get(key)
    return value if isinstance(value, list) else []


def _text(tree: dict[str, Any], key: str) -> str:
    value = tree.get(key)
    return value if isinstance(value, str) else ""


def _count(tree: dict[str, Any], key: str) -> int | None:
    value = tree.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _last(values: Sequence[_Value | None]) -> _Value | None:
    return next((value for value in reversed(values) if value is not None), None)
