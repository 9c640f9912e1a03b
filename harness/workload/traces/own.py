"""The harness's own format: one request a line, its body as it was sent, and what is known besides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.workload.traces import fields
from harness.workload.traces.chat import is_ascii
from harness.workload.traces.entry import Entry, NotReplayableError, Reason, Record, Skipped
from harness.workload.traces.openai import entry_of_body

VERSION = 1
_KEY = "harness_trace"
_PLAIN = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_ASCII = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode  # a third faster, and the same for ASCII


def fits(record: Record) -> bool:
    """Whether a record is of this format, in any version."""
    return _KEY in record


def read(record: Record, line: int) -> Iterator[Entry | Skipped]:
    """Yield the request of a line."""
    if record.get(_KEY) != VERSION:
        raise NotReplayableError(Reason.OTHER_FORMAT)
    known: dict[str, Any] = {
        "prompt_tokens": fields.tokens(record, "prompt_tokens"),
        "output_tokens": fields.tokens(record, "output_tokens"),
        "at_s": fields.number(record.get("at_s")),
        "session": fields.name(record, "session"),
        "workload_class": fields.string(record, "class"),
        "answer_bytes": fields.tokens(record, "answer_bytes") or 0,
    }
    if record.get("failed"):
        raise NotReplayableError(Reason.FAILED)
    body = record.get("body")
    if isinstance(body, dict):
        entry = entry_of_body(body, line)
        known["answer_bytes"] = known["answer_bytes"] or entry.answer_bytes
        yield replace(entry, **known)
        return
    text = record.get("text")
    if text not in ("cut", "redacted", "none") or not known["prompt_tokens"]:
        raise NotReplayableError(Reason.MALFORMED)
    blocks = record.get("blocks")
    known["model"] = fields.string(record, "model")
    yield Entry(
        line=line,
        text=text,
        blocks=tuple(each for each in blocks if isinstance(each, int)) if isinstance(blocks, list) else (),
        **known,
    )


def failed_line(*, at_s: float) -> bytes:
    """Return the line of a request that failed: that there was one, and when."""
    return json.dumps({_KEY: VERSION, "failed": True, "at_s": at_s}, separators=(",", ":")).encode()


def written(entry: Entry, *, session: str | None = None) -> bytes:
    """Return an entry as a line of this format, without its end. What is not known is left out.

    Args:
        entry: to write.
        session: what its conversation is to be called; None: as the entry says.
    """
    record: Record = {_KEY: VERSION}
    if entry.text == "whole":
        record["body"] = entry.body
    else:
        record |= {"text": entry.text, "model": entry.model, "blocks": list(entry.blocks) or None}
    record |= {
        "at_s": entry.at_s,
        "session": session or entry.session,
        "class": entry.workload_class,
        "prompt_tokens": entry.prompt_tokens,
        "output_tokens": entry.output_tokens,
        "answer_bytes": entry.answer_bytes or None,
    }
    known = {key: value for key, value in record.items() if value is not None}
    if entry.body_json is not None and "body" in known:
        return _around(entry.body_json, known)
    if is_ascii(known):
        return _ASCII(known).encode("ascii")
    try:
        return _PLAIN(known).encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can hold
        return _ASCII(known).encode("ascii")


def _around(body_json: str, known: Record) -> bytes:
    """To make the JSON of a body once more takes as long as all the rest."""
    before = _ASCII({_KEY: VERSION}).removesuffix("}")
    after = _ASCII({key: value for key, value in known.items() if key not in (_KEY, "body")}).removeprefix("{")
    return f'{before},"body":{body_json}{"," if len(after) > 1 else ""}{after}'.encode()
