"""One prompt in, one RequestRecord out. Bodies are made before the clock starts, and replies read after it stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from harness.client.endpoint import Endpoint, effort_fields, thinking_fields
from harness.client.redact import ApiKey, public_message
from harness.client.stream import StreamFacts, error_message, read_stream
from harness.records.cell import LoadPoint
from harness.records.exchange import DEFERRED, EXCHANGE, GATE, Exchange
from harness.records.request import Outcome, RequestRecord
from harness.records.workload import Prompt

_CONNECT_TIMEOUT_S = 10.0
_WRITE_TIMEOUT_S = 60.0
_FAILED_REASONS = ("abort", "error")  # finish reasons by which an engine says that it gave up


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """One request, ready to be sent."""

    url: str
    headers: dict[str, str] = field(repr=False)  # holds the key
    body: bytes = field(repr=False)
    prompt: Prompt = field(repr=False)
    stream: int
    turn: int
    api_key: ApiKey | None = None
    first_event_tokens: int | None = None  # where the server does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request after it was sent, unread. Times are those of the event loop."""

    prepared: PreparedRequest
    scheduled_s: float | None  # None: at the start of the window
    ended_s: float
    exchange: Exchange | None  # None: it never got as far as the socket
    failure: str | None = None  # why there is no exchange
    timed_out: bool = False  # with ``failure``: the connection was not made in time


def prepare(
    endpoint: Endpoint, prompt: Prompt, load: LoadPoint, *, stream: int, turn: int, seed: int
) -> PreparedRequest:
    """Return the request for ``prompt`` under ``load``, with every sampling field spelled out.

    Args:
        endpoint: as probed; fields that it refuses are left out.
        prompt: sent as one user message, or as it is for /v1/completions.
        load: sampling, thinking and output length.
        stream: of the closed loop.
        turn: position within the stream.
        seed: of the sampler; also of synthetic acceptance, so it must differ between repeats.
    """
    body: dict[str, Any] = {"model": endpoint.model, "stream": True, "temperature": load.temperature}
    content = prompt.text if prompt.picture is None else content_with_picture(prompt.text, prompt.picture)
    body |= {"messages": [{"role": "user", "content": content}]} if endpoint.chat else {"prompt": prompt.text}
    body[endpoint.length_field] = load.output.most_tokens
    optional: dict[str, Any] = {"top_p": load.top_p, "seed": seed}
    if not load.output.natural:
        optional |= {"min_tokens": load.output.most_tokens, "ignore_eos": True}
    if endpoint.token_count_source == "token_ids":
        optional["return_token_ids"] = True
    body |= {name: value for name, value in optional.items() if name in endpoint.accepts}
    if endpoint.chat:
        body |= thinking_fields(endpoint, load.thinking) | effort_fields(endpoint, load.thinking)
    if "stream_options" in endpoint.accepts:
        body["stream_options"] = {"include_usage": True}
        if endpoint.token_count_source == "usage_growth":
            body["stream_options"]["continuous_usage_stats"] = True
    return PreparedRequest(
        url=endpoint.url,
        headers={"content-type": "application/json", "accept-encoding": "identity", **endpoint.headers},
        body=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="surrogatepass"),
        prompt=prompt,
        stream=stream,
        turn=turn,
        api_key=endpoint.api_key,
        first_event_tokens=endpoint.first_event_tokens,
    )


def content_with_picture(text: str, picture: str) -> list[dict[str, Any]]:
    """Return the content of a message with a picture before its text, which is where most templates put it anyway."""
    return [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": text}]


def read_timeout_s(
    load: LoadPoint, *, prefill_tokens_per_s: float, decode_tokens_per_s: float, floor_s: float = 30.0
) -> float:
    """Return how long to wait for the next byte: all prefills of the cell in a row, and an answer queued before ours.

    Args:
        load: of the cell.
        prefill_tokens_per_s: the slowest to allow for.
        decode_tokens_per_s: of one stream, likewise.
        floor_s: added to it.
    """
    prefill_s = load.context_tokens * load.concurrency / prefill_tokens_per_s
    return floor_s + prefill_s + load.output.most_tokens / decode_tokens_per_s


def build_request(prepared: PreparedRequest, *, read_timeout_s: float) -> httpx.Request:
    """Return ``prepared`` as a deferred httpx request."""
    timeout = httpx.Timeout(connect=_CONNECT_TIMEOUT_S, write=_WRITE_TIMEOUT_S, read=read_timeout_s, pool=None)
    extensions = {DEFERRED: True, "timeout": timeout.as_dict()}
    return httpx.Request("POST", prepared.url, content=prepared.body, headers=prepared.headers, extensions=extensions)


async def send(
    transport: httpx.AsyncBaseTransport,
    prepared: PreparedRequest,
    request: httpx.Request,
    *,
    gate: Callable[[], Awaitable[None]] | None = None,
    on_cancelled: Callable[[Sent], None] | None = None,
    due_s: float | None = None,
) -> Sent:
    """Send ``request`` and return what came back, unread. Failures are part of the result.

    Args:
        transport: one that returns exchanges. No client around it: cookies, redirects and hooks would cost more of
            the loop's time than the reply itself, just when other streams end too.
        prepared: what the request was built from.
        request: from build_request.
        gate: awaited right before the write; such a request counts as due at the start of the window.
        on_cancelled: gets what had arrived when this task was cancelled.
        due_s: on the clock of the loop, where it was due at another time than now.
    """
    loop = asyncio.get_running_loop()
    scheduled_s = None if gate is not None else loop.time() if due_s is None else due_s
    request.extensions[GATE] = gate
    failure: httpx.TransportError | None = None

    def outcome(failure: str | None, *, timed_out: bool = False) -> Sent:
        return Sent(
            prepared=prepared,
            scheduled_s=scheduled_s,
            ended_s=loop.time(),
            exchange=request.extensions.get(EXCHANGE),
            failure=failure,
            timed_out=timed_out,
        )

    try:
        response = await transport.handle_async_request(request)
        request.extensions[EXCHANGE] = response.extensions[EXCHANGE]
    except httpx.TransportError as caught:
        failure = caught
    except asyncio.CancelledError:
        if on_cancelled is not None:
            on_cancelled(outcome("the request was cancelled"))
        raise
    if failure is None:
        return outcome(None)
    return outcome(str(failure) or type(failure).__name__, timed_out=isinstance(failure, httpx.TimeoutException))


def record(sent: Sent, *, epoch_s: float) -> RequestRecord:
    """Return what ``sent`` says, with times since ``epoch_s``. Pure; parses the reply, so run it after the window."""
    exchange, prepared = sent.exchange, sent.prepared
    facts = read_stream(exchange, epoch_s=epoch_s) if exchange is not None else None
    outcome, error = _outcome(sent, facts)
    status = exchange.status if exchange is not None else None
    return RequestRecord(
        prompt_id=prepared.prompt.prompt_id,
        stream=prepared.stream,
        turn=prepared.turn,
        scheduled_s=0.0 if sent.scheduled_s is None else sent.scheduled_s - epoch_s,
        sent_s=exchange.sent_s - epoch_s if exchange is not None else None,
        closed_s=(exchange.closed_s if exchange is not None else sent.ended_s) - epoch_s,
        outcome=outcome,
        http_status=status,
        error=public_message(error, prompt=prepared.prompt.text, api_key=prepared.api_key) if error else None,
        expected_prompt_tokens=prepared.prompt.tokens if prepared.prompt.counted else None,
        **_delivered(facts, prepared.first_event_tokens),
    )


def _outcome(sent: Sent, facts: StreamFacts | None) -> tuple[Outcome, str | None]:
    exchange = sent.exchange
    if exchange is None or facts is None:
        return _unsent_outcome(sent)
    if exchange.ended == "cancelled":
        return "cancelled", exchange.detail
    if exchange.ended == "timeout":
        return "timeout", exchange.detail
    if exchange.status is not None and exchange.status >= 400:
        body = b"".join(read.data for read in exchange.body_reads())
        return "refused", error_message(body) or f"HTTP {exchange.status}"
    return _stream_outcome(exchange, facts)


def _unsent_outcome(sent: Sent) -> tuple[Outcome, str | None]:
    if sent.timed_out:
        return "timeout", sent.failure
    return ("cancelled" if sent.failure == "the request was cancelled" else "refused"), sent.failure


def _stream_outcome(exchange: Exchange, facts: StreamFacts) -> tuple[Outcome, str | None]:
    if facts.error is not None:
        return "error_event", facts.error
    if exchange.ended != "complete":
        return "broken_stream", exchange.detail or exchange.ended
    if facts.finish_reason is None:
        what = "the stream ended without finish_reason" if facts.events else "the reply is no event stream"
        return "broken_stream", what
    if facts.finish_reason in _FAILED_REASONS:
        return "broken_stream", f"the engine ended the answer: finish_reason {facts.finish_reason}"
    return ("length" if facts.finish_reason == "length" else "complete"), None


def _delivered(facts: StreamFacts | None, first_event_tokens: int | None) -> dict[str, Any]:
    names: tuple[str, ...] = (
        "finish_reason",
        "prompt_tokens",
        "cached_tokens",
        "output_tokens",
        "reasoning_tokens",
        "first_answer_s",
        "answer_tokens",
        "text_sha256",
        "token_ids_sha256",
        "repeated_tail_ratio",
        "speculation",
    )
    if facts is None:
        unknown: dict[str, Any] = dict.fromkeys(names)
        return unknown | {"batches": (), "token_count_source": "none", "coalesced_reads": 0}
    names = (*names, "token_count_source", "coalesced_reads")
    batches = facts.batches
    if batches and batches[0].tokens is None and first_event_tokens is not None:
        batches = (replace(batches[0], tokens=first_event_tokens), *batches[1:])
    return {name: getattr(facts, name) for name in names} | {"batches": batches}
