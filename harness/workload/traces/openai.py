"""Bodies of the OpenAI API on lines, plain or as the input of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.workload.traces import fields
from harness.workload.traces.chat import (
    messages_of,
    require_one_answer,
    split_answer,
    state_of,
    texts_of,
)
from harness.workload.traces.entry import Entry, NotReplayableError, Reason, Record, Skipped

_COMPLETIONS = ("/v1/chat/completions", "/v1/completions")
_BESIDE = ("id", "created", "timestamp", "session_id", "conversation_id", "usage", "response", "output", "completion")


def fits_batch(record: Record) -> bool:
    """Whether a record is a line of a batch."""
    return isinstance(record.get("body"), dict) and "custom_id" in record


def read_batch(record: Record, line: int) -> Iterator[Entry | Skipped]:
    """Yield the request of a line of a batch."""
    url = record.get("url")
    if isinstance(url, str) and url not in _COMPLETIONS:
        raise NotReplayableError(Reason.NO_REQUEST)
    yield entry_of_body(fields.mapping(record, "body"), line)


def fits(record: Record) -> bool:
    """Whether a record is a body, or has one's messages."""
    if "messages" in record:
        return True
    return "prompt" in record and any(key in record for key in ("model", "max_tokens", "stream", "temperature"))


def read(record: Record, line: int) -> Iterator[Entry | Skipped]:
    """Yield the request of a body. What else a line holds beside it may say when it was sent, and of which talk."""
    yield entry_of_body(
        {key: value for key, value in record.items() if key not in _BESIDE},
        line,
        at_s=fields.time_s(record.get("created", record.get("timestamp"))),
        session=fields.name(record, "session_id", "conversation_id"),
        output_tokens=fields.tokens(fields.mapping(record, "usage"), "completion_tokens"),
        prompt_tokens=fields.tokens(fields.mapping(record, "usage"), "prompt_tokens"),
    )


def entry_of_body(body: Record, line: int, **known: Any) -> Entry:
    """Return the entry of a whole body. Raises NotReplayableError."""
    require_one_answer(body)
    answer = 0
    if "messages" in body:
        messages = messages_of(body)
        if not body.get("continue_final_message"):
            messages, answer = split_answer(messages)
        body = body | {"messages": messages}
    elif not isinstance(body.get("prompt"), str):
        raise NotReplayableError(Reason.MALFORMED if body.get("prompt") else Reason.EMPTY)
    if state_of(texts_of(body)) != "whole":
        raise NotReplayableError(Reason.EMPTY)
    return Entry(line=line, text="whole", body=body, answer_bytes=answer, model=fields.string(body, "model"), **known)
