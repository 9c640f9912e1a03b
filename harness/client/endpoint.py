"""What one OpenAI-compatible endpoint is and accepts, asked once before anything is measured."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import httpx

from harness.client.redact import ApiKey, shorten
from harness.client.stream import StreamFacts, error_message, read_stream
from harness.errors import EndpointError
from harness.records.exchange import DEFERRED, EXCHANGE, Exchange
from harness.records.request import TokenCountSource

ThinkingField = Literal["chat_template_kwargs", "think"]
NO_THINKING = "off"
_NO_EFFORT = (NO_THINKING, "on")
_COMMON_EFFORTS = ("low", "medium", "high")
PROBE_TOKENS = 4
_ALL_FIELDS = (
    "return_token_ids",
    "continuous_usage_stats",
    "min_tokens",
    "ignore_eos",
    "chat_template_kwargs",
    "seed",
    "top_p",
    "stream_options",
)
_NO_SUCH_ROUTE = (404, 405, 501)
_COUNT_TIMEOUT = httpx.Timeout(10.0, read=1800.0)  # a deep prompt that is counted by its prefill
_PROBE_TIMEOUT = httpx.Timeout(10.0, read=120.0)  # the first request of a server may compile


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where requests go and which fields may be in them. ``accepts`` holds optional fields that were not refused."""

    base_url: str  # without /v1
    model: str
    api_key: ApiKey | None = None
    chat: bool = True  # /v1/chat/completions; else /v1/completions
    max_model_len: int | None = None
    token_count_source: TokenCountSource = "none"
    accepts: frozenset[str] = frozenset(_ALL_FIELDS)
    length_field: str = "max_tokens"  # or max_completion_tokens
    reports_speculation: bool = False  # per request, in metrics.speculative_decoding
    thinking_field: ThinkingField = "chat_template_kwargs"
    first_event_tokens: int | None = None  # tokens in the first event of an answer, where the server does not tell

    @property
    def url(self) -> str:
        """Of completions."""
        return f"{self.base_url}/v1/{'chat/completions' if self.chat else 'completions'}"

    @property
    def headers(self) -> dict[str, str]:
        """Of every request. Holds the key: never to be logged."""
        return authorisation(self.api_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainReply:
    """A reply that is no stream."""

    status: int
    tree: dict[str, Any] = field(repr=False)  # {} where it is no success, or no object
    error: str | None = None  # the server's words where it is no success


async def probe(
    http: httpx.AsyncClient, base_url: str, api_key: ApiKey | None, *, model: str | None = None, chat: bool = True
) -> Endpoint:
    """Ask what is served, then send one tiny streamed request to learn what may be asked for and how tokens count.

    Args:
        http: over a StampedTransport or any other.
        base_url: with or without /v1.
        api_key: None where the endpoint asks for none.
        model: as the server spells it; None takes the first that it names.
        chat: use /v1/chat/completions.

    Raises:
        EndpointError: it is no such endpoint, lacks the model, refuses the key, or streams no tokens.
    """
    base_url = base_url.rstrip("/").removesuffix("/v1")
    card = await _model_card(http, base_url, api_key, model)
    endpoint = Endpoint(
        base_url=base_url,
        model=card["id"],
        api_key=api_key,
        chat=chat,
        max_model_len=_context_tokens(card),
    )
    while True:
        exchange = await _ask_tiny(http, endpoint)
        if exchange.status in (400, 422):
            endpoint = _without_refused_field(endpoint, exchange)
            continue
        _require_ok(exchange, endpoint)
        return _with_facts(endpoint, read_stream(exchange))


async def count_tokens(http: httpx.AsyncClient, endpoint: Endpoint, text: str, *, thinking: str = NO_THINKING) -> int:
    """Return the tokens of ``text`` as a prompt of this endpoint, chat template included. Raises EndpointError.

    ``thinking`` is that of the load: some templates open the answer differently for it. Where there is no /tokenize,
    an answer of one token is asked for, whose usage has the count: that costs a prefill.
    """
    body: dict[str, Any] = {"model": endpoint.model}
    if endpoint.chat:
        body |= {"messages": [{"role": "user", "content": text}], **thinking_fields(endpoint, thinking)}
    else:
        body["prompt"] = text
    url = f"{endpoint.base_url}/tokenize"
    opening = {"add_generation_prompt": True} if endpoint.chat else {}
    reply = await asked(http, url, body | opening, endpoint)
    count = reply.tree.get("count")
    if reply.status in _NO_SUCH_ROUTE:
        once: dict[str, Any] = {endpoint.length_field: 1, "temperature": 0.0, "stream": False}
        usage = (await asked(http, endpoint.url, body | once, endpoint)).tree.get("usage")
        count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if not isinstance(count, int):
        raise EndpointError(
            f"cannot count the tokens of a prompt (HTTP {reply.status})",
            where=url,
            hint="prompts of an exact length need vLLM's /tokenize route, or answers that report usage.prompt_tokens",
        )
    return count


async def asked(http: httpx.AsyncClient, url: str, body: dict[str, Any], endpoint: Endpoint) -> PlainReply:
    """Return what a server answers to a question without a stream. Raises EndpointError where it does not answer."""
    try:
        response = await http.post(url, json=body, headers=endpoint.headers, timeout=_COUNT_TIMEOUT)
        tree = response.json() if response.is_success else {}
    except httpx.TransportError as failure:
        raise _unreachable(url, failure) from failure
    except ValueError:
        tree = {}
    error = None if response.is_success else error_message(response.content)
    return PlainReply(status=response.status_code, tree=tree if isinstance(tree, dict) else {}, error=error)


def thinking_fields(endpoint: Endpoint, thinking: str) -> dict[str, Any]:
    """Return the fields of a chat request that say whether to think, in the server's own manner."""
    if endpoint.thinking_field == "think":
        return {"think": thinking != NO_THINKING}
    accepted = "chat_template_kwargs" in endpoint.accepts
    return {"chat_template_kwargs": template_fields(thinking)} if accepted else {}


def effort_fields(endpoint: Endpoint, thinking: str) -> dict[str, Any]:
    """Return the field beside them that names an effort, which a server that cannot do it should refuse.

    An effort that OpenAI's API does not have goes into the template alone, where servers read it that have it.
    """
    in_template = "chat_template_kwargs" in endpoint.accepts and endpoint.thinking_field != "think"
    if thinking in _NO_EFFORT or (in_template and thinking not in _COMMON_EFFORTS):
        return {}
    return {"reasoning_effort": thinking}


def template_fields(thinking: str) -> dict[str, bool | str]:
    """Return what tells a chat template how to think. Templates differ in the names; each ignores the others.

    The effort belongs here too: the encoder of DeepSeek-V4 reads it from the template's fields alone.
    """
    thinks = thinking != NO_THINKING
    switches: dict[str, bool | str] = {"thinking": thinks, "enable_thinking": thinks}
    return switches if thinking in _NO_EFFORT else switches | {"reasoning_effort": thinking}


def authorisation(api_key: ApiKey | None) -> dict[str, str]:
    """Return the header that carries the key, if there is one."""
    return {"authorization": f"Bearer {api_key.reveal()}"} if api_key else {}


async def _model_card(
    http: httpx.AsyncClient, base_url: str, api_key: ApiKey | None, model: str | None
) -> dict[str, Any]:
    url = f"{base_url}/v1/models"
    try:
        response = await http.get(url, headers=authorisation(api_key), timeout=_PROBE_TIMEOUT)
    except httpx.TransportError as failure:
        raise _unreachable(url, failure) from failure
    _require_key(response.status_code, url, api_key)
    cards = _cards(response)
    if response.is_success and not cards:
        raise EndpointError("the server names no model", where=url, hint="is this an OpenAI-compatible endpoint?")
    if not response.is_success:
        if model is not None:
            return {"id": model}
        what = f"the server does not list its models (HTTP {response.status_code})"
        raise EndpointError(what, where=url, hint="name the model that it serves")
    if model is None:
        return cards[0]
    found = next((card for card in cards if card["id"] == model), None)
    return found or _raise_unknown_model(model, [card["id"] for card in cards], url)


def _cards(response: httpx.Response) -> list[dict[str, Any]]:
    try:
        tree = response.json()
    except ValueError:
        return []
    cards = tree.get("data") if isinstance(tree, dict) else None
    return [card for card in cards or [] if isinstance(card, dict) and isinstance(card.get("id"), str)]


def _context_tokens(card: dict[str, Any]) -> int | None:
    length = card.get("max_model_len", card.get("context_length"))  # vLLM's name, and ds4's
    return length if isinstance(length, int) else None


async def _ask_tiny(http: httpx.AsyncClient, endpoint: Endpoint) -> Exchange:
    body = probe_body(endpoint)
    request = http.build_request(
        "POST",
        endpoint.url,
        json=body,
        headers=endpoint.headers,
        timeout=_PROBE_TIMEOUT,
        extensions={DEFERRED: True},
    )
    try:
        response = await http.send(request, stream=True)
        exchange = response.extensions.get(EXCHANGE)
        await response.aclose()
    except httpx.TransportError as failure:
        raise _unreachable(endpoint.url, failure) from failure
    if exchange is None:
        raise TypeError("probe needs a transport that returns exchanges")
    return exchange  # type: ignore[no-any-return]  # httpx types extensions as Any


def probe_body(endpoint: Endpoint) -> dict[str, Any]:
    """Return the body of the tiny request: every optional field that is still accepted."""
    prompt = "Count to ten."
    body: dict[str, Any] = {"model": endpoint.model, endpoint.length_field: PROBE_TOKENS, "temperature": 0.0}
    body |= {"messages": [{"role": "user", "content": prompt}]} if endpoint.chat else {"prompt": prompt}
    body["stream"] = True
    optional: dict[str, Any] = {
        "min_tokens": PROBE_TOKENS,
        "ignore_eos": True,
        "seed": 1,
        "top_p": 1.0,
        "return_token_ids": True,
    }
    body |= {name: value for name, value in optional.items() if name in endpoint.accepts}
    if endpoint.chat and "chat_template_kwargs" in endpoint.accepts:
        body["chat_template_kwargs"] = template_fields(NO_THINKING)
    if "stream_options" in endpoint.accepts:
        body["stream_options"] = {"include_usage": True}
        if "continuous_usage_stats" in endpoint.accepts:
            body["stream_options"]["continuous_usage_stats"] = True
    return body


def _without_refused_field(endpoint: Endpoint, exchange: Exchange) -> Endpoint:
    message = error_message(_body(exchange)) or ""
    if "max_completion_tokens" in message and endpoint.length_field == "max_tokens":
        return replace(endpoint, length_field="max_completion_tokens")
    left = [name for name in _ALL_FIELDS if name in endpoint.accepts]
    if not left:
        raise EndpointError(f"the server refuses a plain request: {shorten(message)}", where=endpoint.url)
    refused = next((name for name in left if name in message), left[0])
    return replace(endpoint, accepts=endpoint.accepts - {refused})


def _require_ok(exchange: Exchange, endpoint: Endpoint) -> None:
    _require_key(exchange.status, endpoint.url, endpoint.api_key)
    if exchange.status != 200 or exchange.ended != "complete":
        said = shorten(error_message(_body(exchange)) or exchange.detail or "no reason given")
        status = f" (HTTP {exchange.status})" if exchange.status else ""
        raise EndpointError(f"a tiny streamed request failed{status}: {said}", where=endpoint.url)


def _with_facts(endpoint: Endpoint, facts: StreamFacts) -> Endpoint:
    if facts.error is not None:
        raise EndpointError(f"a tiny streamed request failed: {shorten(facts.error)}", where=endpoint.url)
    if not facts.batches:
        hint = "does it serve this route, and does it stream?"
        raise EndpointError("a streamed request brought no tokens", where=endpoint.url, hint=hint)
    return replace(
        endpoint,
        token_count_source=facts.token_count_source,
        reports_speculation=facts.speculation is not None,
    )


def _require_key(status: int | None, url: str, api_key: ApiKey | None) -> None:
    if status not in (401, 403):
        return
    if api_key is None:
        hint = "name the environment variable that holds its key: api_key_variable in the recipe"
        raise EndpointError(f"the endpoint asks for an API key (HTTP {status})", where=url, hint=hint)
    hint = f"check the value of {api_key.variable}"
    raise EndpointError(f"the endpoint refuses the API key (HTTP {status})", where=url, hint=hint)


def _raise_unknown_model(model: str, known: list[str], url: str) -> dict[str, Any]:
    near = difflib.get_close_matches(model, known, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"it serves: {', '.join(known)}"
    raise EndpointError(f'the server has no model "{model}"', where=url, hint=hint)


def _unreachable(url: str, failure: httpx.TransportError) -> EndpointError:
    return EndpointError(
        f"no answer: {str(failure) or type(failure).__name__}", where=url, hint="is the engine running?"
    )


def _body(exchange: Exchange) -> bytes:
    return b"".join(read.data for read in exchange.body_reads())
