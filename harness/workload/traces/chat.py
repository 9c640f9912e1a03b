"""Bodies of the chat and completions API: what makes one fit to be replayed, and whether its text is all there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from harness.workload.traces.entry import NotReplayableError, Reason, Record, TextState

ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function", "latest_reminder"))
PARAMETERS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "seed",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "response_format",
    "reasoning_effort",
    "reasoning",
    "thinking",
    "thinking_token_budget",
    "chat_template_kwargs",
    "include_reasoning",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "structured_outputs",
    "ignore_eos",
    "skip_special_tokens",
    "mm_processor_kwargs",
)
_CUT_LENGTHS = frozenset((1000, 2048))  # at which gateways cut what they store
_CUT_MARK = "litellm_truncated"  # in the place of what was left out, whatever else stands around it
_REDACTED_MARKS = frozenset(("redacted-by-litellm", "redacted_by_litellm", "redacted_by_litelm"))


class Texts(NamedTuple):
    """What a prompt is made of, as far as it is text."""

    parts: list[str]
    images: int


def messages_of(body: Mapping[str, Any]) -> list[Record]:
    """Return the messages of a chat. Raises NotReplayableError for what no server would take as such."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise NotReplayableError(Reason.EMPTY if messages in ([], None, {}, "") else Reason.MALFORMED)
    for message in messages:
        if not isinstance(message, dict):
            raise NotReplayableError(Reason.MALFORMED)
        role = message.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise NotReplayableError(Reason.UNKNOWN_ROLE if role else Reason.MALFORMED)
        if not isinstance(message.get("content"), str | list | None):
            raise NotReplayableError(Reason.MALFORMED)
    return messages


def texts_of(body: Mapping[str, Any]) -> Texts:
    """Return the texts of a prompt in their order, those of calls and results among them, without the tools."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return Texts([prompt], 0)
    parts: list[str] = []
    images = 0
    for message in body.get("messages") or ():
        content = message.get("content")
        if isinstance(content, str):
            parts.append(content)
        elif content:
            for part in content:
                kind = part.get("type") if isinstance(part, dict) else None
                images += kind in ("image_url", "input_image", "image")
                text = part.get("text") if isinstance(part, dict) else part
                if isinstance(text, str):
                    parts.append(text)
        if len(message) > 2:  # more than a role and a content
            parts.extend(_reasoning_and_calls(message))
    return Texts(parts, images)


def _reasoning_and_calls(message: Mapping[str, Any]) -> Iterator[str]:
    for key in ("reasoning", "reasoning_content"):
        if isinstance(message.get(key), str):
            yield message[key]
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            yield arguments


def tools_bytes(body: Mapping[str, Any]) -> int:
    """Return the size of the tools that a prompt offers."""
    tools = body.get("tools")
    return len(json.dumps(tools, ensure_ascii=False)) if isinstance(tools, list) and tools else 0


def state_of(texts: Texts) -> TextState:
    """Return whether a prompt's text is there. Whether all of it is, ``is_cut`` says."""
    parts = texts.parts
    if any(len(part) < 32 and part.strip().lower() in _REDACTED_MARKS for part in parts):
        return "redacted"
    if not texts.images and not any(part and not part.isspace() for part in parts):
        return "none"
    return "whole"


def is_cut(body: Any) -> bool:
    """Whether a log that cuts long strings has cut one of a body: a text, a tool, a picture.

    It leaves a mark, or by its age nothing: then the longest string has exactly the length that is allowed.
    """
    longest = 0
    for text in _strings(body):
        longest = max(longest, len(text))
        if _CUT_MARK in text:
            return True
    return longest in _CUT_LENGTHS


def is_ascii(value: Any) -> bool:
    """Whether every string in a body is ASCII, which Python knows without looking."""
    return all(text.isascii() for text in _strings(value))


def _strings(value: Any) -> Iterator[str]:
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            left.extend(one)
        elif isinstance(one, dict):
            left.extend(one.values())


def require_one_answer(body: Mapping[str, Any]) -> None:
    """Raise NotReplayableError where a body asks for several: their streams cannot be told apart in time."""
    for key in ("n", "best_of"):
        if body.get(key) not in (None, 1):
            raise NotReplayableError(Reason.SEVERAL_ANSWERS)
    if body.get("use_beam_search"):
        raise NotReplayableError(Reason.SEVERAL_ANSWERS)


def split_answer(messages: list[Record]) -> tuple[list[Record], int]:
    """Return the prompt and the size of the recorded answer: a last message of the assistant is that answer."""
    if messages and messages[-1].get("role") == "assistant":
        return messages[:-1], bytes_of(texts_of({"messages": messages[-1:]}).parts)
    return messages, 0


def bytes_of(parts: list[str]) -> int:
    """Return the size of texts in UTF-8, nearly: surrogates that stand alone count as they would in JSON."""
    return sum(len(part) if part.isascii() else len(part.encode("utf-8", errors="surrogatepass")) for part in parts)


def answer_bytes(response: Any) -> int:
    """Return the size of the answer in a response of the API, as an object or as its plain text."""
    if isinstance(response, str):
        return bytes_of([response])
    if isinstance(response, list):
        return sum(answer_bytes(each) for each in response)
    if not isinstance(response, dict):
        return 0
    choices = response.get("choices")
    if isinstance(choices, list):
        return sum(answer_bytes(choice.get("message") or choice) for choice in choices if isinstance(choice, dict))
    parts = texts_of({"messages": [response]}).parts
    text = response.get("text")
    return bytes_of([*parts, *([text] if isinstance(text, str) else [])])
