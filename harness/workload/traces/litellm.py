"""What a LiteLLM proxy keeps: StandardLoggingPayload objects, and rows of its SpendLogs table.

Texts are not kept unless somebody asked for it, and long ones are cut: such entries are lengths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.workload.traces import fields
from harness.workload.traces.chat import (
    PARAMETERS,
    answer_bytes,
    is_cut,
    messages_of,
    require_one_answer,
    state_of,
    texts_of,
)
from harness.workload.traces.entry import Entry, NotReplayableError, Reason, Record, Skipped, TextState

_CALLS = ("completion", "acompletion", "text_completion", "atext_completion", "")
_WITHOUT_TEXT: dict[TextState, Reason] = {"cut": Reason.CUT, "redacted": Reason.REDACTED, "none": Reason.NO_TEXT}


def fits(record: Record) -> bool:
    """Whether a record is a StandardLoggingPayload."""
    return "call_type" in record and "startTime" in record and "model_parameters" in record


def read(record: Record, line: int) -> Iterator[Entry | Skipped]:
    """Yield the request of a payload."""
    _require_completion(record)
    yield gateway_entry(
        record.get("messages"),
        fields.mapping(record, "model_parameters"),
        line=line,
        prompt_tokens=fields.tokens(record, "prompt_tokens"),
        output_tokens=fields.tokens(record, "completion_tokens"),
        answer_bytes=answer_bytes(record.get("response")),
        at_s=fields.time_s(record.get("startTime")),
        session=fields.name(record, "session_id", "trace_id"),
        model=fields.string(record, "model_group", "model"),
    )


def fits_spend(record: Record) -> bool:
    """Whether a record is a row of SpendLogs."""
    return "request_id" in record and "spend" in record and "startTime" in record


def read_spend(record: Record, line: int) -> Iterator[Entry | Skipped]:
    """Yield the request of a row. Newer proxies keep the whole body beside the messages."""
    _require_completion(record)
    body = _object(record.get("proxy_server_request"))
    yield gateway_entry(
        record.get("messages") or body.get("messages") or body.get("prompt"),
        body,
        line=line,
        prompt_tokens=fields.tokens(record, "prompt_tokens"),
        output_tokens=fields.tokens(record, "completion_tokens"),
        answer_bytes=answer_bytes(_object(record.get("response"))),
        at_s=fields.time_s(record.get("startTime")),
        session=fields.name(record, "session_id"),
        model=fields.string(record, "model_group", "model"),
    )


def gateway_entry(prompt: Any, parameters: Record, *, line: int, **known: Any) -> Entry:
    """Return the entry of a request that a gateway or an observer stored, whose text may be cut, redacted or missing.

    Args:
        prompt: messages, a plain prompt, or an object that holds messages.
        parameters: what else was in the body.
        line: on which the entry begins.
        known: of the entry.

    Raises:
        NotReplayableError: there is neither a whole text nor a token count.
    """
    body = {key: value for key, value in parameters.items() if key in PARAMETERS and value is not None}
    require_one_answer(parameters)
    prompt = _unpacked(prompt)
    if isinstance(prompt, dict) and isinstance(prompt.get("messages"), list):
        body |= {key: value for key, value in prompt.items() if key in PARAMETERS and value is not None}
        prompt = prompt["messages"]
    body |= {"prompt": prompt} if isinstance(prompt, str) else {"messages": prompt}
    state: TextState = "none"
    if prompt:
        if not isinstance(prompt, str):
            messages_of(body)
        state = state_of(texts_of(body))
        if state == "whole" and is_cut(body):
            state = "cut"
    if state == "whole":
        return Entry(line=line, text="whole", body=_as_chat(body), **known)
    if not known.get("prompt_tokens"):
        raise NotReplayableError(Reason.EMPTY if known.get("prompt_tokens") == 0 else _WITHOUT_TEXT[state])
    return Entry(line=line, text=state, **known)


def _require_completion(record: Record) -> None:
    if record.get("status") in ("failure", "failed", "error"):
        raise NotReplayableError(Reason.FAILED)
    if (record.get("call_type") or "") not in _CALLS:
        raise NotReplayableError(Reason.NO_REQUEST)


def _as_chat(body: Record) -> Record:
    """A plain prompt is sent as a user's message, which is how the gateway's chats keep one."""
    if "prompt" not in body:
        return body
    message = {"role": "user", "content": body["prompt"]}
    return {"messages": [message]} | {key: value for key, value in body.items() if key != "prompt"}


def _unpacked(prompt: Any) -> Any:
    """A table may hold messages as JSON in a text."""
    if isinstance(prompt, str) and prompt[:1] in ("[", "{"):
        try:
            found = json.loads(prompt)
        except (ValueError, RecursionError):
            return prompt
        return found if isinstance(found, list | dict) else prompt
    return prompt


def _object(value: Any) -> Record:
    found = _unpacked(value)
    return found if isinstance(found, dict) else {}
