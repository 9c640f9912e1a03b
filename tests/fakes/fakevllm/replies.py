"""The JSON of vLLM's answers, field by field and in its order."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

from .engine import Batch, Request
from .options import Options
from .tokens import text_of

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
DONE = b"data: [DONE]\n\n"


class RefusedError(Exception):
    """An HTTP error of the API."""

    def __init__(self, status: int, message: str, *, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, kind=kind, param=param, code=status)


def error_body(message: str, *, kind: str, param: str | None, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def compact(tree: object) -> str:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def event(tree: object) -> bytes:
    return f"data: {compact(tree)}\n\n".encode()


def error_event() -> bytes:
    """vLLM writes this one with spaces."""
    return f"data: {json.dumps(error_body(DEAD, kind='InternalServerError', param=None, code=500))}\n\n".encode()


@dataclass
class Reply:
    """One answer, streamed or whole, of either API."""

    options: Options
    body: dict[str, Any]
    request: Request
    chat: bool

    def __post_init__(self) -> None:
        self.id = ("chatcmpl-" if self.chat else "cmpl-") + secrets.token_hex(8)
        self.created = int(time.time())  # noqa: TID251 - the reply carries a wall clock
        stream = self.body.get("stream_options") or {}
        self.with_usage = bool(stream.get("include_usage"))
        self.with_growth = self.with_usage and bool(stream.get("continuous_usage_stats"))
        self.with_ids = bool(self.body.get("return_token_ids"))
        self.made = 0
        thinking = self.body.get("chat_template_kwargs") or {}
        thinks = self.options.reasoning and (thinking.get("enable_thinking") or thinking.get("thinking"))
        self.reasoning_tokens = self.request.length // 3 if thinks and self.chat else 0

    def opening(self) -> bytes:
        """The event with the role and no token, which only chats have."""
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        tree = self._head("chat.completion.chunk", [choice])
        tree |= {"usage": self._usage(details=True)} if self.with_growth else {}
        tree |= {"prompt_token_ids": list(self.request.prompt) if self.with_ids else None, "prompt_text": None}
        return event(tree)

    def chunk(self, batch: Batch, *, finish_reason: str | None) -> bytes:
        """The event of one step."""
        first = self.made == 0
        self.made += len(batch.tokens)
        ids = list(batch.tokens) if self.with_ids else None
        text = "".join(text_of(token) for token in batch.tokens)
        choice = self._chat_choice(text, finish_reason, ids) if self.chat else self._choice(text, finish_reason, ids)
        if not self.chat:
            choice["prompt_token_ids"] = list(self.request.prompt) if self.with_ids and first else None
            choice["token_ids"] = ids
        tree = self._head("chat.completion.chunk" if self.chat else "text_completion", [choice])
        tree |= {"usage": self._usage(details=self.chat)} if self.with_growth else {}
        if finish_reason and not self.with_usage:
            tree["system_fingerprint"] = "vllm-0.32.0-fake0000"
        return event(tree)

    def closing(self) -> bytes:
        """The event with the usage, where it was asked for."""
        tree = self._head("chat.completion.chunk" if self.chat else "text_completion", [])
        tree |= {"usage": self._usage(details=False), "system_fingerprint": "vllm-0.32.0-fake0000"}
        speculation = self._speculation()
        return event(tree | ({"metrics": {"speculative_decoding": speculation}} if speculation else {}))

    def whole(self, tokens: list[int], finish_reason: str) -> dict[str, Any]:
        """The reply without streaming."""
        self.made = len(tokens)
        ids = tokens if self.with_ids else None
        prompt_ids = list(self.request.prompt) if self.with_ids else None
        text = "".join(text_of(token) for token in tokens)
        tail = {"logprobs": None, "finish_reason": finish_reason, "stop_reason": None, "token_ids": ids}
        if self.chat:
            thought = "".join(text_of(token) for token in tokens[: self.reasoning_tokens]) or None
            message = {
                "role": "assistant",
                "content": text[len(thought or "") :],
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "reasoning": thought,
            }
            choice = {"index": 0, "message": message, **tail, "routed_experts": None}
        else:
            prompts = {"prompt_logprobs": None, "prompt_token_ids": prompt_ids}
            choice = {"index": 0, "text": text, **tail, **prompts, "routed_experts": None}
        tree = self._head("chat.completion" if self.chat else "text_completion", [choice])
        tree |= {"service_tier": None, "system_fingerprint": "vllm-0.32.0-fake0000"}
        usage = self._usage(details=False)
        tree["usage"] = {**usage, "prompt_tokens_details": usage.get("prompt_tokens_details")}
        tree["usage"]["completion_tokens_details"] = None
        if self.chat:
            tree |= {"prompt_logprobs": None, "prompt_token_ids": prompt_ids, "prompt_text": None}
        return tree | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": self._whole_metrics()}

    def _head(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        head = {"id": self.id, "object": kind, "created": self.created, "model": self.options.served_model}
        return {**head, "choices": choices}

    def _chat_choice(self, text: str, finish_reason: str | None, ids: list[int] | None) -> dict[str, Any]:
        field = "reasoning" if self.made <= self.reasoning_tokens else "content"
        choice = {"index": 0, "delta": {field: text}, "logprobs": None, "finish_reason": finish_reason}
        return choice | ({"stop_reason": None} if finish_reason else {}) | {"token_ids": ids}

    def _choice(self, text: str, finish_reason: str | None, ids: list[int] | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason, "stop_reason": None}

    def _usage(self, *, details: bool) -> dict[str, Any]:
        prompt = len(self.request.prompt)
        usage: dict[str, Any] = {"prompt_tokens": prompt, "total_tokens": prompt + self.made}
        usage["completion_tokens"] = self.made
        if self.options.prompt_tokens_details:
            usage["prompt_tokens_details"] = {"cached_tokens": self.request.cached}
        return usage | ({"completion_tokens_details": None} if details else {})

    def _whole_metrics(self) -> dict[str, Any] | None:
        speculation = self._speculation()
        if speculation is None:
            return None
        names = ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second")
        return {**dict.fromkeys(names), "speculative_decoding": speculation}

    def _speculation(self) -> dict[str, Any] | None:
        steps = self.request.per_step
        if self.options.per_request_metrics == "none" or not steps:
            return None
        accepted, drafted = sum(step[0] for step in steps), sum(step[1] for step in steps)
        histogram = [sum(step[0] == count for step in steps) for count in range(self.options.k + 1)]
        summary = {
            "mean_acceptance_length": 1 + accepted / len(steps),
            "draft_acceptance_rate": accepted / drafted,
            "acceptance_histogram": histogram,
            "num_spec_steps": len(steps),
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": drafted,
            "num_spec_tokens": self.options.k,
        }
        if self.options.per_request_metrics == "summary":
            return summary
        return summary | {
            "per_step_accepted": [step[0] for step in steps],
            "per_step_drafted": [step[1] for step in steps],
        }
