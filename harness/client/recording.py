"""What a relay tells -> an entry of a trace: the body as it was sent, when, and how long prompt and answer were."""

from __future__ import annotations

import json
from typing import Any

from harness.client.exchange import parse_reply
from harness.client.recorded import NOT_SENT
from harness.client.relay import Relayed
from harness.client.sse import decode_events
from harness.workload.traces import fields
from harness.workload.traces.chat import answer_bytes
from harness.workload.traces.entry import Entry, NotReplayableError
from harness.workload.traces.openai import entry_of_body
from harness.workload.traces.own import failed_line, written

_COMPLETIONS = ("/chat/completions", "/completions")
_OK = 200


def line_of(relayed: Relayed, *, at_s: float) -> bytes | None:
    """Return a line of the harness's own trace format; None for a request that is none of a completion.

    A request that failed, or whose body cannot be replayed, leaves a line without its text, so that it is counted.
    Fields of a body that are a gateway's business, keys among them, are left out.

    Args:
        relayed: as the relay tells it.
        at_s: when it came, seconds since 1970.
    """
    if relayed.method != "POST" or not relayed.path.endswith(_COMPLETIONS):
        return None
    reply = parse_reply(relayed.reads, method="POST", closed=relayed.complete)
    if reply.status != _OK or not relayed.complete:
        return failed_line(at_s=at_s)
    entry = _entry(relayed.body)
    if entry is None:
        return failed_line(at_s=at_s)
    usage, answer = _answered(b"".join(read.data for read in reply.body), reply.body)
    return written(
        Entry(
            line=0,
            text="whole",
            body=entry.body,
            at_s=at_s,
            prompt_tokens=fields.tokens(usage, "prompt_tokens"),
            output_tokens=fields.tokens(usage, "completion_tokens"),
            answer_bytes=answer,
        )
    )


def _entry(body: bytes | None) -> Entry | None:
    try:
        tree = json.loads(body or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(tree, dict):
        return None
    try:
        return entry_of_body({name: value for name, value in tree.items() if name not in NOT_SENT - {"n"}}, 0)
    except NotReplayableError:
        return None


def _answered(whole: bytes, reads: Any) -> tuple[dict[str, Any], int]:
    """Return the usage that a reply reports and the size of the answer in it, streamed or not."""
    try:
        tree = json.loads(whole)
    except (ValueError, RecursionError):
        tree = None
    if isinstance(tree, dict):
        return fields.mapping(tree, "usage"), answer_bytes(tree)
    usage: dict[str, Any] = {}
    size = 0
    for event in decode_events(reads):
        try:
            part = json.loads(event.data)
        except (ValueError, RecursionError):
            continue
        if isinstance(part, dict):
            usage = fields.mapping(part, "usage") or usage
            choices = part.get("choices")
            for choice in choices if isinstance(choices, list) else ():
                size += answer_bytes(choice.get("delta") or choice) if isinstance(choice, dict) else 0
    return usage, size
