"""What the truth server says: its schedule, its counters, and the bytes of its events."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

MODEL, MAX_MODEL_LEN = "truth", 1_048_576
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What is sent when, and what goes wrong on purpose."""

    ttft_us: int = 200_000
    step_us: int = 20_000
    steps: tuple[int, ...] = (3, 1, 6, 2, 4)  # tokens of each step, cycled
    role_us: int | None = None  # the head and the role event leave this long after the request; None: with the token
    word: str = "w"  # the text of a token
    reset_after_events: int | None = None  # reset the connection instead of sending the next event
    hang_after_events: int | None = None  # stay silent instead
    error_after_events: int | None = None  # an error event, then [DONE]
    rejects: frozenset[str] = frozenset()  # request fields that are answered with 400
    api_key: str | None = None
    counts: bool = True  # token_ids and continuous usage are honoured
    tokenize: bool = True

    @property
    def num_speculative_tokens(self) -> int:
        """k: a step brings at most one token more."""
        return max(self.steps) - 1


@dataclass(slots=True)
class Counters:
    """What /metrics tells. Accepted tokens beyond max_tokens count, as they do in an engine."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_by_position: list[int] = field(default_factory=list)
    requests_finished: int = 0

    def count_step(self, tokens: int, k: int) -> None:
        self.drafts += 1
        self.draft_tokens += k
        self.accepted_tokens += tokens - 1
        self.accepted_by_position = self.accepted_by_position or [0] * k
        for position in range(tokens - 1):
            self.accepted_by_position[position] += 1


@dataclass(frozen=True, slots=True)
class Form:
    """How one request wants its events; equal forms share their bytes."""

    chat: bool
    token_ids: bool
    running_usage: bool
    usage: bool
    prompt_tokens: int
    max_tokens: int


def event(data: str) -> bytes:
    """Return one server-sent event as one HTTP chunk."""
    payload = f"data: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(payload), payload)


@cache
def role_event(form: Form) -> bytes:
    """Return the event before the first token; completions have none."""
    if not form.chat:
        return b""
    tree = _chunk(form, [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
    if form.running_usage:
        tree["usage"] = _usage(form, 0)
    if form.token_ids:
        tree["prompt_token_ids"] = list(range(form.prompt_tokens))
    return event(json.dumps(tree))


@cache
def token_event(form: Form, before: int, tokens: int, last: bool, word: str) -> bytes:
    """Return the event that brings ``tokens`` more, and after the last of them the end of the stream."""
    ids = range(before, before + tokens)
    text = "".join(f"{word} " for _ in ids)
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": "length" if last else None}
    choice |= {"delta": {"content": text}} if form.chat else {"text": text}
    choice["token_ids"] = list(ids) if form.token_ids else None
    tree = _chunk(form, [choice])
    if form.running_usage:
        tree["usage"] = _usage(form, before + tokens)
    data = event(json.dumps(tree, ensure_ascii=False))
    if not last:
        return data
    if form.usage:
        data += event(json.dumps(_chunk(form, []) | {"usage": _usage(form, before + tokens)}))
    return data + event("[DONE]") + b"0\r\n\r\n"


def exposition(counters: Counters, schedule: Schedule) -> str:
    """Return the counters as Prometheus text, named and labelled as vLLM does."""
    values = {
        "prompt_tokens": counters.prompt_tokens,
        "generation_tokens": counters.generation_tokens,
        "spec_decode_num_drafts": counters.drafts,
        "spec_decode_num_draft_tokens": counters.draft_tokens,
        "spec_decode_num_accepted_tokens": counters.accepted_tokens,
    }
    labels = f'engine="0",model_name="{MODEL}"'
    lines = []
    for name, value in values.items():
        lines += [f"# TYPE vllm:{name}_total counter", f"vllm:{name}_total{{{labels}}} {value}.0"]
    by_position = counters.accepted_by_position or [0] * schedule.num_speculative_tokens
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines.append(f"# TYPE {name} counter")
    lines += [f'{name}{{{labels},position="{index}"}} {value}.0' for index, value in enumerate(by_position)]
    finished = "vllm:request_success_total"
    lines += [
        f"# TYPE {finished} counter",
        f'{finished}{{{labels},finished_reason="length"}} {counters.requests_finished}.0',
    ]
    return "\n".join(lines) + "\n"


def count_words(body: dict[str, Any]) -> int:
    """Return the tokens of a prompt: its words."""
    texts = [str(message.get("content")) for message in body.get("messages") or ()] or [str(body.get("prompt", ""))]
    return sum(len(text.split()) for text in texts)


def _chunk(form: Form, choices: list[dict[str, Any]]) -> dict[str, Any]:
    kind = "chat.completion.chunk" if form.chat else "text_completion"
    return {"id": "truth-0", "object": kind, "created": 1, "model": MODEL, "choices": choices}


def _usage(form: Form, completion_tokens: int) -> dict[str, int]:
    total = form.prompt_tokens + completion_tokens
    return {"prompt_tokens": form.prompt_tokens, "total_tokens": total, "completion_tokens": completion_tokens}
