"""The trace formats, by name: what each is told by, and how its records are read. The first that fits is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from harness.workload.traces import langfuse, litellm, openai, own, sharegpt, timed, vllm_custom
from harness.workload.traces.entry import Entry, Record, Skipped

Read = Callable[[Record, int], Iterator[Entry | Skipped]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """One way to write a trace down."""

    name: str
    describes: str
    fits: Callable[[Record], bool]  # by keys alone
    read: Read  # of one record that begins on a line; raises NotReplayableError


_ALL = (
    TraceFormat(name="harness", describes="the format of convert and record", fits=own.fits, read=own.read),
    TraceFormat(name="openai_batch", describes="OpenAI batch input", fits=openai.fits_batch, read=openai.read_batch),
    TraceFormat(name="litellm", describes="LiteLLM StandardLoggingPayload", fits=litellm.fits, read=litellm.read),
    TraceFormat(
        name="litellm_spend",
        describes="LiteLLM SpendLogs rows, as JSON or CSV",
        fits=litellm.fits_spend,
        read=litellm.read_spend,
    ),
    TraceFormat(
        name="langfuse", describes="Langfuse observations, as JSON or CSV", fits=langfuse.fits, read=langfuse.read
    ),
    TraceFormat(name="sharegpt", describes="ShareGPT conversations", fits=sharegpt.fits, read=sharegpt.read),
    TraceFormat(name="timed", describes="Mooncake and vLLM timed_trace: lengths", fits=timed.fits, read=timed.read),
    TraceFormat(name="aiperf", describes="AIPerf turns", fits=timed.fits_turns, read=timed.read_turns),
    TraceFormat(name="openai", describes="OpenAI chat or completion bodies", fits=openai.fits, read=openai.read),
    TraceFormat(name="vllm_custom", describes="vLLM custom", fits=vllm_custom.fits, read=vllm_custom.read),
)
FORMATS: Mapping[str, TraceFormat] = {each.name: each for each in _ALL}


def guess(records: list[Record]) -> TraceFormat | None:
    """Return the format that most of the first records fit, or None."""
    votes = [next((each for each in _ALL if each.fits(record)), None) for record in records]
    known = [vote for vote in votes if vote is not None]
    return max(known, key=known.count) if known else None
