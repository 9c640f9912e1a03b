"""The API server of a simulated engine, without any transport: a call in, a reply or a generation out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.simulator import ds4
from harness.simulator.asked import RefusedError, order_in, parsed, prompt_in, require_model
from harness.simulator.engine import EngineLoop
from harness.simulator.exposition import Facts, exposition
from harness.simulator.replies import DONE, ENGINE_DEAD, Reply, ReplyShape, compact, error_event
from harness.simulator.request import Job, Order
from harness.simulator.tokens import TOKEN_BYTES, token_ids, tokens_in

OWNER = "SIMULATED"
VERSION = "0.32.0+simulated"
JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"
_PAGE = "text/plain; version=1.0.0; charset=utf-8"
_CHAT, _COMPLETIONS, _TOKENIZE = "/v1/chat/completions", "/v1/completions", "/tokenize"
_GETS = ("/health", "/ping", "/version", "/metrics", "/load", "/v1/models")
Dialect = Literal["vllm", "ds4"]
_POSTS = (_CHAT, _COMPLETIONS, _TOKENIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One HTTP request."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # names in lower case; may hold the key
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A reply that is there at once."""

    status: int
    body: bytes = b""
    kind: str | None = JSON
    allow: str | None = None  # the method that the path takes

    @property
    def headers(self) -> list[tuple[str, str]]:
        """In the order in which the server writes them; an event stream has no length."""
        allow = [("allow", self.allow)] if self.allow else []
        length = [] if self.kind == EVENTS else [("content-length", str(len(self.body)))]
        return [*allow, *length, *([("content-type", self.kind)] if self.kind else []), ("vary", "Origin")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A reply that the engine has yet to make."""

    order: Order
    stream: bool
    reply_for: Callable[[Job], Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontSettings:
    """What the API server was started with."""

    model: str
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    root: str = "simulated"  # what /v1/models gives as the model's origin
    started_at: float = 0.0  # wall clock of the boot, in seconds since 1970
    prompt_ids: bool = True  # in /tokenize and where a request asks; those of deep prompts cost more than all the rest
    speculation_of_requests: bool = True  # in the last event of a stream
    dialect: Dialect = "vllm"


class Front:
    """Answers for one engine. ``now_s`` is the clock of the engine."""

    def __init__(self, engine: EngineLoop, settings: FrontSettings, *, now_s: Callable[[], float]) -> None:
        self._engine = engine
        self._settings = settings
        self._now_s = now_s
        self._began_s = now_s()
        self._requests = 0

    def answer(self, call: Call) -> Plain | Generation:
        """Return the reply, or what the engine has to do for it."""
        try:
            return self._answer(call)
        except RefusedError as refusal:
            return Plain(status=refusal.status, body=compact(refusal.tree))

    def _answer(self, call: Call) -> Plain | Generation:
        if call.path.startswith("/v1") and not self._authorised(call):
            return Plain(status=401, body=b'{"error":"Unauthorized"}')
        if call.path not in (ds4.ROUTES if self._is_ds4 else _GETS + _POSTS):
            return Plain(status=404, body=b'{"detail":"Not Found"}')
        allowed = "GET" if call.path in _GETS else "POST"
        if call.method != allowed:  # HEAD is no GET here either
            return Plain(status=405, body=b'{"detail":"Method Not Allowed"}', allow=allowed)
        if allowed == "GET":
            return self._get(call.path)
        body = ds4.without_unread(parsed(call.body)) if self._is_ds4 else parsed(call.body)
        require_model(body, self._settings.model)
        if call.path == _TOKENIZE:
            return Plain(status=200, body=compact(self._tokenized(body)))
        return self._generation(body, chat=call.path == _CHAT)

    @property
    def _is_ds4(self) -> bool:
        return self._settings.dialect == "ds4"

    def _authorised(self, call: Call) -> bool:
        keys = self._settings.api_keys
        return not keys or call.headers.get("authorization", "") in {f"Bearer {key}" for key in keys}

    def _get(self, path: str) -> Plain:
        if path in ("/health", "/ping"):
            return Plain(status=503 if self._engine.dead else 200, kind=None)
        if path == "/metrics":
            return Plain(status=200, body=self._page().encode(), kind=_PAGE)
        facts: dict[str, Any] = {"version": VERSION}
        if path == "/load":
            facts = {"server_load": self._engine.running}
        elif path == "/v1/models":
            facts = self._models()
        return Plain(status=200, body=compact(facts))

    def _models(self) -> dict[str, Any]:
        if self._is_ds4:
            card = ds4.model_card(self._settings.model, self._engine.settings.max_model_tokens)
            return {"object": "list", "data": [card]}
        allowed = dict.fromkeys(("allow_sampling", "allow_logprobs", "allow_view"), True)
        refused = dict.fromkeys(("allow_create_engine", "allow_search_indices", "allow_fine_tuning"), False)
        permission = {"id": "modelperm-simulated", "object": "model_permission", "created": self._created()}
        permission |= {**allowed, **refused, "organization": "*", "group": None, "is_blocking": False}
        model = {
            "id": self._settings.model,
            "object": "model",
            "created": self._created(),
            "owned_by": OWNER,
            "root": self._settings.root,
            "parent": None,
            "max_model_len": self._engine.settings.max_model_tokens,
            "permission": [permission],
        }
        return {"object": "list", "data": [model]}

    def _page(self) -> str:
        settings = self._engine.settings
        facts = Facts(
            model=self._settings.model,
            started_at=self._settings.started_at + self._engine.counted_since_s,
            speculates=self._engine.k > 0,
            kv_cache_tokens=self._engine.scenario.truth.kv_cache_tokens,
            block_tokens=settings.block_tokens,
            prefix_caching=settings.prefix_caching,
        )
        return exposition(self._engine.counters_seen(self._now_s()), facts)

    def _tokenized(self, body: Mapping[str, Any]) -> dict[str, Any]:
        prompt, _ = prompt_in(body, chat="messages" in body)
        strings: list[str] | None = None
        if body.get("return_token_strs"):
            pieces = range(0, len(prompt), TOKEN_BYTES)
            strings = [prompt[at : at + TOKEN_BYTES].decode("utf-8", errors="replace") for at in pieces]
        return {
            "count": tokens_in(prompt),
            "max_model_len": self._engine.settings.max_model_tokens,
            "tokens": token_ids(prompt) if self._settings.prompt_ids else [],
            "token_strs": strings,
        }

    def _generation(self, body: Mapping[str, Any], *, chat: bool) -> Plain | Generation:
        self._requests += 1
        number, limit = self._requests, self._engine.settings.max_model_tokens
        order = order_in(body, chat=chat, max_model_tokens=limit, nonce=number)
        stream = bool(body.get("stream"))
        if body.get("thinking_token_budget") is not None:
            return _refused_late(
                "thinking_token_budget is set but reasoning_config is not configured. Please set --reasoning-parser "
                "and/or --reasoning-config to use thinking_token_budget.",
                stream=stream,
            )
        if self._engine.dead:
            raise RefusedError(500, ENGINE_DEAD, kind="InternalServerError")
        shape = self._shape(body, number, chat=chat)
        return Generation(order=order, stream=stream, reply_for=lambda job: Reply(shape=shape, job=job))

    def _shape(self, body: Mapping[str, Any], number: int, *, chat: bool) -> ReplyShape:
        options = body.get("stream_options")
        wanted = options if isinstance(options, dict) else {}
        usage = bool(wanted.get("include_usage"))
        name = hashlib.sha256(f"{self._settings.started_at} {number}".encode()).hexdigest()[:16]
        return ReplyShape(
            reply_id=f"{'chatcmpl' if chat else 'cmpl'}-{name}",
            created=self._created(),
            model=self._settings.model,
            fingerprint=f"vllm-{VERSION}",
            chat=chat,
            usage=usage,
            running_usage=usage and bool(wanted.get("continuous_usage_stats")) and not self._is_ds4,
            ids=bool(body.get("return_token_ids")),
            prompt_ids=self._settings.prompt_ids,
            speculation=self._settings.speculation_of_requests and not self._is_ds4,
            token_events=self._is_ds4,
        )

    def _created(self) -> int:
        return int(self._settings.started_at + self._now_s() - self._began_s)


def _refused_late(message: str, *, stream: bool) -> Plain:
    """A refusal that vLLM only finds when it generates: a stream has begun by then."""
    if not stream:
        raise RefusedError(400, message)
    return Plain(status=200, body=error_event(message, kind="BadRequestError", code=400) + DONE, kind=EVENTS)
