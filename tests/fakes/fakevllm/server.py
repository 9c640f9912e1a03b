"""The HTTP side: routes, validation, and streams that may go wrong on request."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

from . import bootlog
from .engine import Batch, Engine
from .metrics import exposition
from .options import Options
from .replies import DEAD, DONE, RefusedError, Reply, compact, error_event
from .tokens import VOCABULARY, chat_tokens, tokenize

GETS = ("/health", "/ping", "/version", "/metrics", "/load", "/v1/models")
POSTS = ("/v1/chat/completions", "/v1/completions", "/tokenize")


@dataclass
class Call:
    """One HTTP request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def keep_alive(self) -> bool:
        return self.headers.get("connection", "").lower() != "close"


class Server:
    """Answers on one port until it is closed."""

    def __init__(self, options: Options, engine: Engine) -> None:
        self.options = options
        self.engine = engine
        self.streams = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, self.options.host, self.options.port, backlog=2048)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)
        for writer in self._connections:
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while (call := await _read_call(reader, writer)) is not None:
                await self._answer(call, reader)
                if not call.keep_alive:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, call: Call, reader: asyncio.StreamReader) -> None:
        try:
            await self._route(call, reader)
        except RefusedError as refusal:
            await self._send(call, refusal.status, compact(refusal.body).encode())

    async def _route(self, call: Call, reader: asyncio.StreamReader) -> None:
        if call.path.startswith("/v1") and not self._authorised(call):
            return await self._send(call, 401, b'{"error":"Unauthorized"}')
        if call.path not in GETS + POSTS or (call.path == "/metrics" and self.options.fault("no_metrics")):
            return await self._send(call, 404, b'{"detail":"Not Found"}')
        if call.path == "/version" and self.options.fault("no_version"):
            return await self._send(call, 404, b'{"detail":"Not Found"}')
        allowed = "GET" if call.path in GETS else "POST"
        if call.method not in (allowed, "HEAD" if allowed == "GET" else allowed):
            return await self._send(call, 405, b'{"detail":"Method Not Allowed"}', allow=allowed)
        if call.path in GETS:
            return await self._get(call)
        body = _parse(call.body)
        if call.path == "/tokenize":
            return await self._tokenize(call, body)
        return await self._complete(call, body, reader)

    def _authorised(self, call: Call) -> bool:
        return not self.options.api_keys or call.headers.get("authorization") in [
            f"Bearer {key}" for key in self.options.api_keys
        ]

    async def _get(self, call: Call) -> None:
        if call.path in ("/health", "/ping"):
            await self._send(call, 503 if self.engine.dead else 200, b"", kind=None)
        elif call.path == "/metrics":
            page = exposition(self.engine).encode()
            await self._send(call, 200, page, kind="text/plain; version=1.0.0; charset=utf-8")
        else:
            await self._send(call, 200, compact(self._facts(call.path)).encode())

    def _facts(self, path: str) -> dict[str, Any]:
        if path == "/version":
            return {"version": "0.32.0"}
        if path == "/load":
            return {"server_load": len(self.engine.running)}
        now = int(time.time())  # noqa: TID251 - the reply carries a wall clock
        permission = {
            "id": f"modelperm-{secrets.token_hex(8)}",
            "object": "model_permission",
            "created": now,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        model = {
            "id": self.options.served_model,
            "object": "model",
            "created": now,
            "owned_by": "vllm",
            "root": self.options.model,
            "parent": None,
            "max_model_len": self.options.max_model_len,
            "permission": [permission],
        }
        return {"object": "list", "data": [model]}

    async def _tokenize(self, call: Call, body: dict[str, Any]) -> None:
        self._require_model(body)
        strings: list[str] | None = None
        if "messages" in body:
            ids = chat_tokens(body["messages"], generation_prompt=body.get("add_generation_prompt", True))
        else:
            pieces = tokenize(str(body.get("prompt", "")))
            ids = [number for number, _ in pieces]
            strings = [piece.replace(" ", "Ġ") for _, piece in pieces] if body.get("return_token_strs") else None
        reply = {"count": len(ids), "max_model_len": self.options.max_model_len, "tokens": ids, "token_strs": strings}
        await self._send(call, 200, compact(reply).encode())

    async def _complete(self, call: Call, body: dict[str, Any], reader: asyncio.StreamReader) -> None:
        chat = call.path == "/v1/chat/completions"
        self._require_model(body)
        self._require_valid(body)
        prompt = _prompt_of(body, chat=chat)
        max_tokens = self._room(prompt, body, chat=chat)
        if self.engine.dead:
            raise RefusedError(500, DEAD, kind="InternalServerError")
        request = self.engine.submit(prompt, body, max_tokens=max_tokens)
        reply = Reply(self.options, body, request, chat)
        if body.get("stream"):
            await self._stream(call, reply, reader)
        else:
            await self._whole(call, reply)

    def _require_model(self, body: dict[str, Any]) -> None:
        name = body.get("model", self.options.served_model)
        if name != self.options.served_model:
            message = f"The model `{name}` does not exist. Valid aliases: {self.options.served_model}."
            raise RefusedError(404, message, kind="NotFoundError", param="model")

    def _require_valid(self, body: dict[str, Any]) -> None:
        if body.get("stream_options") and not body.get("stream"):
            message = "Stream options can only be defined when `stream=True`. (parameter=stream_options)"
            raise RefusedError(400, message, param="stream_options")
        for switch, asked, name in (
            ("no_token_ids", body.get("return_token_ids"), "return_token_ids"),
            (
                "no_continuous_usage",
                (body.get("stream_options") or {}).get("continuous_usage_stats"),
                "stream_options.continuous_usage_stats",
            ),
        ):
            if self.options.fault(switch) and asked:
                message = f"1 validation error:\n  {{'type': 'extra_forbidden', 'loc': 'body.{name}'}}"
                raise RefusedError(400, message, kind="Bad Request", param=f"body.{name}")
        temperature = body.get("temperature", 1.0)
        if isinstance(temperature, (int, float)) and temperature < 0:
            message = f"temperature must be non-negative, got {float(temperature)}."
            raise RefusedError(
                400, f"{message} (parameter=temperature, value={float(temperature)})", param="temperature"
            )

    def _room(self, prompt: list[int], body: dict[str, Any], *, chat: bool) -> int:
        """Tokens that may be made. Prompt and answer together are clamped without a word, as vLLM does."""
        limit = self.options.max_model_len
        asked = body.get("max_completion_tokens") or body.get("max_tokens")
        asked = (limit if chat else 16) if asked is None else int(asked)
        if asked > limit and (body.get("max_tokens") or body.get("max_completion_tokens")):
            message = f"max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output "
            raise RefusedError(400, f"{message}tokens. (parameter=max_tokens, value={asked})", param="max_tokens")
        if asked < 1:
            message = f"max_tokens must be at least 1, got {asked}. (parameter=max_tokens, value={asked})"
            raise RefusedError(400, message, param="max_tokens")
        if len(prompt) >= limit:
            length = limit + 1 if chat else len(prompt)
            raise RefusedError(
                400,
                f"This model's maximum context length is {limit} tokens. However, your prompt contains "
                f"{'at least ' if chat else ''}{length} input tokens, which exceeds this limit even without any output "
                f"tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value={length})",
                param="input_tokens",
            )
        return min(asked, limit - len(prompt))

    async def _whole(self, call: Call, reply: Reply) -> None:
        tokens: list[int] = []
        finish = None
        while finish is None:
            batch = await reply.request.queue.get()
            if batch.error:
                raise RefusedError(500, DEAD, kind="InternalServerError")
            tokens += batch.tokens
            finish = batch.finish_reason
        await self._send(call, 200, compact(reply.whole(tokens, finish)).encode())

    async def _stream(self, call: Call, reply: Reply, reader: asyncio.StreamReader) -> None:
        self.streams += 1
        stream = _Stream(self.options, call, reply, self.streams)
        stream.start()
        gone = asyncio.create_task(_hung_up(reader, call.writer))
        try:
            while not gone.done():
                waiting = asyncio.create_task(reply.request.queue.get())
                await asyncio.wait([waiting, gone], return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    waiting.cancel()
                elif await stream.write(waiting.result()):
                    break
        finally:
            gone.cancel()
            self.engine.abort(reply.request)  # of no effect where it has ended

    async def _send(
        self, call: Call, status: int, body: bytes, *, kind: str | None = "application/json", allow: str | None = None
    ) -> None:
        head = [("allow", allow)] if allow else []
        head += [("content-length", str(len(body))), *([("content-type", kind)] if kind else []), ("vary", "Origin")]
        _write_head(call, status, head)
        call.writer.write(b"" if call.method == "HEAD" else body)
        await call.writer.drain()


class _Stream:
    """One event stream, with the faults that were asked for."""

    def __init__(self, options: Options, call: Call, reply: Reply, number: int) -> None:
        self.call = call
        self.reply = reply
        only = options.switches.get("only_request")
        self._options = options
        self._faulty = only is None or int(only) == number

    def start(self) -> None:
        kind = ("content-type", "text/event-stream; charset=utf-8")
        _write_head(self.call, 200, [kind, ("vary", "Origin"), ("transfer-encoding", "chunked")])
        if self.reply.chat:
            self._chunk(self.reply.opening())

    async def write(self, batch: Batch) -> bool:
        """Send one step; True when the stream is over, however it ended."""
        if batch.error:
            self._chunk(error_event())
            return await self._end()
        finish = None if self._fault("no_finish_reason") else batch.finish_reason
        self._chunk(self.reply.chunk(batch, finish_reason=finish))
        await self.call.writer.drain()
        if self._reached("cut_stream_after"):
            self.call.writer.close()
            return True
        if self._reached("half_open_after"):
            await asyncio.Event().wait()
        if batch.finish_reason is None:
            return False
        if self.reply.with_usage:
            self._chunk(self.reply.closing())
        return await self._end()

    async def _end(self) -> bool:
        self._chunk(DONE)
        self.call.writer.write(b"0\r\n\r\n")
        await self.call.writer.drain()
        return True

    def _chunk(self, data: bytes) -> None:
        self.call.writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _fault(self, name: str) -> str:
        return self._options.fault(name) if self._faulty else ""

    def _reached(self, name: str) -> bool:
        limit = self._fault(name)
        return bool(limit) and self.reply.made >= int(limit)


async def _hung_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Return when the client closes its end. A request that is pipelined behind a stream is not expected."""
    while not (reader.at_eof() or writer.is_closing()):
        await asyncio.sleep(0.05)


async def _read_call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Call | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    request, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, path, _ = request.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Call(method, path.partition("?")[0], headers, body, writer)


def _write_head(call: Call, status: int, headers: list[tuple[str, str]]) -> None:
    phrase = HTTPStatus(status).phrase
    host, port = call.writer.get_extra_info("peername")[:2]
    bootlog.access(f"{host}:{port}", f"{call.method} {call.path}", f"{status} {phrase}")
    lines = [f"HTTP/1.1 {status} {phrase}", f"date: {formatdate(usegmt=True)}", "server: uvicorn"]
    lines += [f"{name}: {value}" for name, value in headers if name != "transfer-encoding"]
    lines += [] if call.keep_alive else ["connection: close"]
    lines += [f"{name}: {value}" for name, value in headers if name == "transfer-encoding"]
    call.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())


def _parse(body: bytes) -> dict[str, Any]:
    try:
        tree = json.loads(body)
    except ValueError as error:
        where = f"body.{getattr(error, 'pos', 0)}"
        detail = {"type": "json_invalid", "loc": where, "msg": "JSON decode error", "input": "<dict of 0 items>"}
        message = f"1 validation error:\n  {detail | {'ctx': {'error': getattr(error, 'msg', '')}}}"
        raise RefusedError(400, message, kind="Bad Request", param=where) from error
    return tree if isinstance(tree, dict) else {}


def _prompt_of(body: dict[str, Any], *, chat: bool) -> list[int]:
    if chat:
        messages = body.get("messages") or []
        if not messages:
            message = "Cannot apply chat template to an empty conversation. Provide at least one message."
            raise RefusedError(400, message)
        return chat_tokens(messages)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        too_large = [token for token in prompt if not 0 <= token < VOCABULARY]
        if too_large:
            raise RefusedError(400, f"Token id {too_large[0]} is out of vocabulary")
        return list(prompt)
    ids = [number for number, _ in tokenize(str(prompt or ""))]
    if not ids:
        message = "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"
        raise RefusedError(400, message, param="prompt")
    return ids
