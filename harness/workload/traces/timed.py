"""Timed traces. Mooncake's hold lengths and block hashes, and no text; AIPerf's hold turns with their texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.workload.traces import fields
from harness.workload.traces.entry import Entry, NotReplayableError, Reason, Record, Skipped

_MILLISECONDS = 1000.0


def fits(record: Record) -> bool:
    """Whether a record is a request of which lengths are known."""
    return "input_length" in record


def read(record: Record, line: int) -> Iterator[Entry | Skipped]:
    """Yield the lengths of a request, or its text where there is one."""
    text = record.get("text_input")
    at_s = fields.number(record.get("timestamp"))
    common: dict[str, Any] = {
        "line": line,
        "prompt_tokens": fields.tokens(record, "input_length"),
        "output_tokens": fields.tokens(record, "output_length"),
        "at_s": None if at_s is None else at_s / _MILLISECONDS,
        "session": fields.name(record, "session_id"),
    }
    if isinstance(text, str) and text.strip():
        yield Entry(text="whole", body={"messages": [{"role": "user", "content": text}]}, **common)
        return
    if not common["prompt_tokens"]:
        raise NotReplayableError(Reason.EMPTY if common["prompt_tokens"] == 0 else Reason.MALFORMED)
    yield Entry(text="none", blocks=_blocks(record.get("hash_ids")), **common)


def _blocks(ids: Any) -> tuple[int, ...]:
    if ids is None:
        return ()
    if not isinstance(ids, list) or not all(isinstance(each, int) for each in ids):
        raise NotReplayableError(Reason.MALFORMED)
    return tuple(ids)


def fits_turns(record: Record) -> bool:
    """Whether a record is a turn, or a session of turns."""
    return isinstance(record.get("turns"), list) or ("text" in record and "messages" not in record)


def read_turns(record: Record, line: int) -> Iterator[Entry | Skipped]:
    """Yield one request a turn. A turn's prompt holds what was asked before it; answers are not in such a trace."""
    turns = record.get("turns")
    session = fields.name(record, "session_id")
    if turns is None:
        yield _turn(record, line, [], session, fields.number(record.get("timestamp")))
        return
    if not isinstance(turns, list) or not turns:
        raise NotReplayableError(Reason.MALFORMED if turns else Reason.EMPTY)
    before: list[Record] = []
    at_ms = None
    for turn in turns:
        if not isinstance(turn, dict):
            raise NotReplayableError(Reason.MALFORMED)
        at_ms = _later(at_ms, turn)
        entry = _turn(turn, line, before, session or f"line {line}", at_ms)
        before = entry.body["messages"]
        yield entry


def _later(at_ms: float | None, turn: Record) -> float | None:
    stamp, delay = fields.number(turn.get("timestamp")), fields.number(turn.get("delay"))
    if stamp is not None:
        return stamp
    return at_ms if delay is None else (at_ms or 0.0) + delay


def _turn(turn: Record, line: int, before: list[Record], session: str | None, at_ms: float | None) -> Entry:
    text = turn.get("text")
    if text is not None and not isinstance(text, str):
        raise NotReplayableError(Reason.MALFORMED)
    if not text or not text.strip():
        raise NotReplayableError(Reason.EMPTY)
    return Entry(
        line=line,
        text="whole",
        body={"messages": [*before, {"role": "user", "content": text}]},
        output_tokens=fields.tokens(turn, "output_length", "max_tokens"),
        at_s=None if at_ms is None else at_ms / _MILLISECONDS,
        session=session,
    )
