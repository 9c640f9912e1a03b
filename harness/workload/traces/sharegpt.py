"""ShareGPT: conversations between a human and a model. Each turn of the human is a request, with all before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.workload.traces import fields
from harness.workload.traces.chat import bytes_of
from harness.workload.traces.entry import Entry, NotReplayableError, Reason, Record, Skipped

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "system": "system",
    "tool": "tool",
    "function_call": "assistant",
    "observation": "tool",
}


def fits(record: Record) -> bool:
    """Whether a record is a conversation."""
    return "conversations" in record or "conversation" in record


def read(record: Record, line: int) -> Iterator[Entry | Skipped]:
    """Yield a request for each turn that the model answers."""
    turns = record.get("conversations", record.get("conversation"))
    if not isinstance(turns, list):
        raise NotReplayableError(Reason.MALFORMED)
    if not turns:
        raise NotReplayableError(Reason.EMPTY)
    messages = [_message(turn) for turn in turns]
    session = fields.name(record, "id") or f"line {line}"
    system = fields.string(record, "system")
    if system:
        messages.insert(0, {"role": "system", "content": system})
    found = False
    for at, message in enumerate(messages):
        if message["role"] != "user" or not message["content"].strip():
            continue
        answer = messages[at + 1] if at + 1 < len(messages) else None
        if answer is not None and answer["role"] != "assistant":
            continue
        found = True
        yield Entry(
            line=line,
            text="whole",
            body={"messages": messages[: at + 1]},
            answer_bytes=bytes_of([answer["content"]]) if answer else 0,
            session=session,
        )
    if not found:
        raise NotReplayableError(Reason.EMPTY)


def _message(turn: Any) -> Record:
    if not isinstance(turn, dict):
        raise NotReplayableError(Reason.MALFORMED)
    speaker = turn.get("from", turn.get("role"))
    text = turn.get("value", turn.get("content"))
    if not isinstance(speaker, str) or not isinstance(text, str):
        raise NotReplayableError(Reason.MALFORMED)
    if speaker not in _ROLES:
        raise NotReplayableError(Reason.UNKNOWN_ROLE)
    return {"role": _ROLES[speaker], "content": text}
