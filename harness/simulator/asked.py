"""The body of a request -> an order for the engine, or the refusal that vLLM would answer with. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.simulator.replies import error_tree
from harness.simulator.request import Order
from harness.simulator.tokens import (
    VOCABULARY,
    chat_prompt,
    content_class_of,
    content_key,
    opening_for,
    prompt_of_ids,
    text_of_message,
    tokens_in,
)

DEFAULT_COMPLETION_TOKENS = 16
# Of an answer, by effort; a third of it where none is named. A model that is asked in vain to stop goes on like this.
_REASONING_TOKENS = {"minimal": 32, "low": 128, "medium": 512, "high": 1024, "max": 4096}
_LENGTHS = ("max_completion_tokens", "max_tokens")


class RefusedError(Exception):
    """An error of the API, as its client sees it."""

    def __init__(self, status: int, message: str, *, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.tree = error_tree(message, kind=kind, param=param, code=status)


def parsed(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body. Raises RefusedError."""
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError) as problem:
        at = f"body.{problem.pos}" if isinstance(problem, json.JSONDecodeError) else "body"
        said = problem.msg if isinstance(problem, json.JSONDecodeError) else str(problem)
        inner = {"type": "json_invalid", "loc": at, "msg": "JSON decode error", "input": {}, "ctx": {"error": said}}
        raise _invalid(inner, at) from None
    if not isinstance(tree, dict):
        inner = {"type": "model_attributes_type", "loc": "body", "msg": "Input should be a valid dictionary"}
        raise _invalid(inner, "body")
    return tree


def require_model(body: Mapping[str, Any], served: str) -> None:
    """Refuse another model than the one that is served."""
    name = body.get("model", served)
    if name != served:
        message = f"The model `{name}` does not exist. Valid aliases: {served}."
        raise RefusedError(404, message, kind="NotFoundError", param="model")


def prompt_in(body: Mapping[str, Any], *, chat: bool) -> tuple[bytes, str]:
    """Return the prompt with the chat template around it, and the text that tells what it is about."""
    if not chat:
        return _plain_prompt(body.get("prompt"))
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise _invalid({"type": "list_type", "loc": "body.messages", "msg": "Input should be a list"}, "body.messages")
    if not messages:
        message = "Cannot apply chat template to an empty conversation. Provide at least one message."
        raise RefusedError(400, message)
    generation_prompt = body.get("add_generation_prompt", True) is not False
    prompt = chat_prompt(messages, generation_prompt=generation_prompt, thinking=thinks(body))
    return prompt, text_of_message(messages[-1])


def thinks(body: Mapping[str, Any]) -> bool:
    """Return whether a chat asks for reasoning."""
    if "think" in body:  # ds4's own field
        return bool(body["think"])
    wishes = body.get("chat_template_kwargs")
    return isinstance(wishes, dict) and bool(wishes.get("enable_thinking") or wishes.get("thinking"))


def reasoning_tokens(body: Mapping[str, Any]) -> int | None:
    """Return how long a chat reasons: 0 where it does not, None for a share of the answer."""
    if not thinks(body):
        return 0
    wishes = body.get("chat_template_kwargs")
    effort = (wishes.get("reasoning_effort") if isinstance(wishes, dict) else None) or body.get("reasoning_effort")
    return _REASONING_TOKENS.get(str(effort))


def order_in(body: Mapping[str, Any], *, chat: bool, max_model_tokens: int, nonce: int) -> Order:
    """Return what a completion or chat asks for.

    Args:
        body: as the client sent it; fields that are not known are ignored.
        chat: of /v1/chat/completions.
        max_model_tokens: of prompt and answer together. A longer answer is cut without a word, as vLLM does.
        nonce: makes the sampling of requests differ that give no seed.

    Raises:
        RefusedError: something in it is wrong.
    """
    _require_valid(body)
    prompt, text = prompt_in(body, chat=chat)
    seed = body.get("seed")
    return Order(
        prompt=prompt,
        key=content_key(text).hex(),
        workload_class=content_class_of(text),
        max_tokens=_room(tokens_in(prompt), body, chat=chat, limit=max_model_tokens),
        min_tokens=_number(body, "min_tokens", 0),
        ignore_eos=bool(body.get("ignore_eos")),
        temperature=float(_of_type(body, "temperature", 1.0)),
        seed=seed if isinstance(seed, int) else -nonce,
        salt=str(body.get("cache_salt") or "").encode(),
        opening=opening_for(text),
        reasoning_tokens=reasoning_tokens(body) if chat else 0,
    )


def _require_valid(body: Mapping[str, Any]) -> None:
    if body.get("stream_options") and not body.get("stream"):
        message = "Stream options can only be defined when `stream=True`. (parameter=stream_options)"
        raise RefusedError(400, message, param="stream_options")
    temperature = float(_of_type(body, "temperature", 1.0))
    if temperature < 0:
        message = f"temperature must be non-negative, got {temperature}."
        raise RefusedError(400, f"{message} (parameter=temperature, value={temperature})", param="temperature")
    if _number(body, "n", 1) != 1:
        raise RefusedError(400, "n must be 1: the simulated engine gives one answer", param="n")


def _plain_prompt(prompt: Any) -> tuple[bytes, str]:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt and all(isinstance(each, int) for each in prompt):
        return _prompt_of_ids(prompt), " ".join(map(str, prompt[-1024:]))
    if prompt and not isinstance(prompt, str):
        raise RefusedError(400, "one prompt a request: the simulated engine takes no batches", param="prompt")
    if not prompt:
        message = "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"
        raise RefusedError(400, message, param="prompt")
    text = str(prompt)
    return text.encode("utf-8", errors="surrogatepass"), text


def _prompt_of_ids(ids: Sequence[int]) -> bytes:
    for token in ids:
        if not 0 <= token < VOCABULARY:
            raise RefusedError(400, f"Token id {token} is out of vocabulary")
    return prompt_of_ids(ids)


def _room(prompt_tokens: int, body: Mapping[str, Any], *, chat: bool, limit: int) -> int:
    asked = next((_number(body, name, 0) for name in _LENGTHS if body.get(name) is not None), None)
    if asked is not None and asked > limit:
        message = f"max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output "
        raise RefusedError(400, f"{message}tokens. (parameter=max_tokens, value={asked})", param="max_tokens")
    if asked is not None and asked < 1:
        message = f"max_tokens must be at least 1, got {asked}. (parameter=max_tokens, value={asked})"
        raise RefusedError(400, message, param="max_tokens")
    if prompt_tokens >= limit:
        said = limit + 1 if chat else prompt_tokens
        raise RefusedError(
            400,
            f"This model's maximum context length is {limit} tokens. However, your prompt contains "
            f"{'at least ' if chat else ''}{said} input tokens, which exceeds this limit even without any output "
            f"tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value={said})",
            param="input_tokens",
        )
    default = limit if chat else DEFAULT_COMPLETION_TOKENS
    return min(default if asked is None else asked, limit - prompt_tokens)


def _number(body: Mapping[str, Any], name: str, default: int) -> int:
    value = _of_type(body, name, default)
    if value != int(value):
        inner = {"type": "int_from_float", "loc": f"body.{name}", "msg": "Input should be a valid integer"}
        raise _invalid(inner | {"input": value}, f"body.{name}")
    return int(value)


def _of_type(body: Mapping[str, Any], name: str, default: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, int | float):
        return value
    said = "Input should be a valid number, unable to parse string as a number"
    raise _invalid({"type": "float_parsing", "loc": f"body.{name}", "msg": said, "input": value}, f"body.{name}")


def _invalid(inner: Mapping[str, object], at: str) -> RefusedError:
    return RefusedError(400, f"1 validation error:\n  {inner}", kind="Bad Request", param=at)
