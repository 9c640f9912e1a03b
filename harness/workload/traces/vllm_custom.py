"""The dataset called custom of vLLM's benchmark: a prompt, and how long its answer is."""

from __future__ import annotations

from collections.abc import Iterator

from harness.workload.traces import fields
from harness.workload.traces.entry import Entry, NotReplayableError, Reason, Record, Skipped


def fits(record: Record) -> bool:
    """Whether a record is a prompt."""
    return "prompt" in record


def read(record: Record, line: int) -> Iterator[Entry | Skipped]:
    """Yield the prompt as one message of a user, as the benchmark sends it to a chat."""
    prompt = record.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise NotReplayableError(Reason.MALFORMED)
    if not prompt or not prompt.strip():
        raise NotReplayableError(Reason.EMPTY)
    yield Entry(
        line=line,
        text="whole",
        body={"messages": [{"role": "user", "content": prompt}]},
        output_tokens=fields.tokens(record, "output_tokens", "output_len", "max_tokens"),
    )
