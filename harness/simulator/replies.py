"""The JSON of the API's answers, field by field in vLLM's order, from the batches of one request."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from harness.simulator.request import Batch, Job
from harness.simulator.tokens import token_ids

ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
DONE = b"data: [DONE]\n\n"
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode  # json.dumps makes one for each event
_TIMINGS = (
    "time_to_first_token_ms",
    "generation_time_ms",
    "queue_time_ms",
    "mean_itl_ms",
    "tokens_per_second",
)  # which no reply fills


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyShape:
    """What a reply shows, as the server and the client's request have it."""

    reply_id: str
    created: int
    model: str
    fingerprint: str
    chat: bool
    usage: bool  # at the end of a stream
    running_usage: bool  # in each event of it
    ids: bool  # of the answer's tokens
    prompt_ids: bool
    speculation: bool  # the request's own drafts, at the end
    token_events: bool = False  # an event for each token, and nothing said of their number


@dataclass(slots=True, kw_only=True)
class Reply:
    """One answer, streamed or whole. Events are made in the order of the batches."""

    shape: ReplyShape
    job: Job
    made: int = 0

    def opening(self) -> bytes:
        """The event with the role and no token; empty where the API has none."""
        if not self.shape.chat:
            return b""
        delta = {"role": "assistant", "content": ""}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        tree = self._head("chat.completion.chunk", [choice])
        if self.shape.running_usage:
            tree["usage"] = self._usage(details=True)
        return event(tree | {"prompt_token_ids": self._prompt_ids(), "prompt_text": None})

    def events(self, batch: Batch) -> bytes:
        """All events that one batch causes: its own, and after the last one the end of the stream."""
        if batch.error:
            return error_event(ENGINE_DEAD, kind="InternalServerError", code=500) + DONE
        first = self.made == 0
        data = self.opening() if first else b""
        parts = _one_by_one(batch) if self.shape.token_events else (batch,)
        data += b"".join(self._chunk(part, first=first and not number) for number, part in enumerate(parts))
        if batch.finish_reason is None:
            return data
        return data + (self._closing() if self.shape.usage else b"") + DONE

    def whole(self, finish_reason: str) -> bytes:
        """The reply without streaming."""
        self.made = self.job.made
        answer = self.job.fate.answer
        ids = answer.ids(0, self.made) if self.shape.ids else None
        thought = answer.text(0, self._reasoning_tokens())
        text = answer.text(0, self.made)[len(thought) :]
        tail = {"logprobs": None, "finish_reason": finish_reason, "stop_reason": None, "token_ids": ids}
        usage = self._usage(details=False)
        usage |= {"prompt_tokens_details": usage.get("prompt_tokens_details"), "completion_tokens_details": None}
        if self.shape.chat:
            choice = {"index": 0, "message": _message(text, thought), **tail, "routed_experts": None}
        else:
            prompt = {"prompt_logprobs": None, "prompt_token_ids": self._prompt_ids(), "routed_experts": None}
            choice = {"index": 0, "text": text, **tail, **prompt}
        tree = self._head("chat.completion" if self.shape.chat else "text_completion", [choice])
        tree |= {"service_tier": None, "system_fingerprint": self.shape.fingerprint, "usage": usage}
        if self.shape.chat:
            tree |= {"prompt_logprobs": None, "prompt_token_ids": self._prompt_ids(), "prompt_text": None}
        speculation = self._speculation()
        metrics = {**dict.fromkeys(_TIMINGS), "speculative_decoding": speculation} if speculation else None
        return compact(tree | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": metrics})

    def _chunk(self, batch: Batch, *, first: bool) -> bytes:
        start, self.made = self.made, self.made + batch.tokens
        answer, shape = self.job.fate.answer, self.shape
        ids = answer.ids(start, batch.tokens) if shape.ids else None
        text = answer.text(start, batch.tokens)
        choice: dict[str, Any]
        if shape.chat:
            name = "reasoning" if self.made <= self._reasoning_tokens() else "content"
            choice = {"index": 0, "delta": {name: text}, "logprobs": None, "finish_reason": batch.finish_reason}
            choice |= ({"stop_reason": None} if batch.finish_reason else {}) | {"token_ids": ids}
        else:
            choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": batch.finish_reason}
            prompt_ids = self._prompt_ids() if first else None
            choice |= {"stop_reason": None, "prompt_token_ids": prompt_ids, "token_ids": ids}
        tree = self._head("chat.completion.chunk" if shape.chat else "text_completion", [choice])
        if shape.running_usage:
            tree["usage"] = self._usage(details=shape.chat)
        if batch.finish_reason and not shape.usage:
            tree["system_fingerprint"] = shape.fingerprint
        return event(tree)

    def _closing(self) -> bytes:
        tree = self._head("chat.completion.chunk" if self.shape.chat else "text_completion", [])
        tree |= {"usage": self._usage(details=False), "system_fingerprint": self.shape.fingerprint}
        speculation = self._speculation()
        return event(tree | ({"metrics": {"speculative_decoding": speculation}} if speculation else {}))

    def _head(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        shape = self.shape
        head = {"id": shape.reply_id, "object": kind, "created": shape.created, "model": shape.model}
        return {**head, "choices": choices}

    def _usage(self, *, details: bool) -> dict[str, Any]:
        prompt = self.job.prompt_tokens
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + self.made,
            "completion_tokens": self.made,
        }
        if self.job.cached or self.shape.token_events:
            usage["prompt_tokens_details"] = {"cached_tokens": self.job.cached}
        return usage | ({"completion_tokens_details": None} if details else {})

    def _prompt_ids(self) -> list[int] | None:
        return token_ids(self.job.order.prompt) if self.shape.ids and self.shape.prompt_ids else None

    def _reasoning_tokens(self) -> int:
        return self.job.fate.reasoning_tokens

    def _speculation(self) -> dict[str, Any] | None:
        steps = [step for step in self.job.steps if step.drafted]
        if not self.shape.speculation or not steps:
            return None
        accepted, drafted = sum(step.accepted for step in steps), sum(step.drafted for step in steps)
        k = max(step.drafted for step in steps)
        return {
            "mean_acceptance_length": 1 + accepted / len(steps),
            "draft_acceptance_rate": accepted / drafted,
            "acceptance_histogram": [sum(step.accepted == count for step in steps) for count in range(k + 1)],
            "num_spec_steps": len(steps),
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": drafted,
            "num_spec_tokens": k,
        }


def _one_by_one(batch: Batch) -> tuple[Batch, ...]:
    """A batch as one of each token, of which the last says how it ended."""
    if batch.tokens < 2:
        return (batch,)
    return (*(Batch(batch.at_s, 1) for _ in range(batch.tokens - 1)), Batch(batch.at_s, 1, batch.finish_reason))


def compact(tree: object) -> bytes:
    """Return JSON without spaces, as the server writes it."""
    return _encode(tree).encode("utf-8", errors="surrogatepass")


def event(tree: object) -> bytes:
    """Return one server-sent event."""
    return b"data: " + compact(tree) + b"\n\n"


def error_event(message: str, *, kind: str, code: int) -> bytes:
    """Return the event that ends a stream in failure; vLLM writes this one with spaces."""
    return f"data: {json.dumps(error_tree(message, kind=kind, param=None, code=code))}\n\n".encode()


def error_tree(message: str, *, kind: str, param: str | None, code: int) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _message(text: str, thought: str) -> dict[str, Any]:
    nothing = dict.fromkeys(("refusal", "annotations", "audio", "function_call"))
    return {"role": "assistant", "content": text, **nothing, "reasoning": thought or None}
