"""Observations as Langfuse exports them, as JSON or CSV, with keys in either of its two spellings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.workload.traces import fields
from harness.workload.traces.chat import PARAMETERS, answer_bytes
from harness.workload.traces.entry import Entry, NotReplayableError, Reason, Record, Skipped
from harness.workload.traces.litellm import gateway_entry


def fits(record: Record) -> bool:
    """Whether a record is an observation."""
    return "type" in record and ("trace_id" in record or "traceId" in record) and "input" in record


def read(record: Record, line: int) -> Iterator[Entry | Skipped]:
    """Yield the request of a generation."""
    if record.get("type") != "GENERATION":
        raise NotReplayableError(Reason.NO_REQUEST)
    if record.get("level") == "ERROR":
        raise NotReplayableError(Reason.FAILED)
    parameters = _either(record, "model_parameters", "modelParameters")
    usage = _either(record, "usage_details", "usageDetails") or _either(record, "usage", "usage")
    yield gateway_entry(
        record.get("input"),
        {key: _plain(key, value) for key, value in parameters.items() if key in PARAMETERS or key in ("n", "best_of")},
        line=line,
        prompt_tokens=fields.tokens(usage, "input", "prompt_tokens", "promptTokens", "input_tokens"),
        output_tokens=fields.tokens(usage, "output", "completion_tokens", "completionTokens", "output_tokens"),
        answer_bytes=answer_bytes(record.get("output")),
        at_s=fields.time_s(record.get("start_time", record.get("startTime"))),
        session=fields.name(record, "session_id", "sessionId", "trace_id", "traceId"),
        model=fields.string(record, "model", "provided_model_name", "providedModelName"),
    )


def _either(record: Record, one: str, other: str) -> Record:
    return fields.mapping(record, one) or fields.mapping(record, other)


def _plain(key: str, value: Any) -> Any:
    """Parameters come as texts from some of its clients."""
    if not isinstance(value, str) or key in ("tool_choice", "reasoning_effort", "stop", "thinking"):
        return value
    found = fields.number(value)
    if found is None:
        return value
    return int(found) if found == int(found) and key not in ("temperature", "top_p") else found
