"""One request as measured: facts only, so that a rate defined later applies to old runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["complete", "length", "refused", "timeout", "broken_stream", "error_event", "cancelled"]
TokenCountSource = Literal["token_ids", "usage_growth", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBatch:
    """What one streamed event brought. Under speculation one event carries several tokens."""

    at_s: float  # since the trial started, monotonic clock, stamped at the socket read
    tokens: int | None  # as the engine counts them, never the number of events; None where the server does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpeculation:
    """What the server said of one request (vLLM's ``metrics.speculative_decoding``)."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request of one stream. Times are seconds since the trial started, on the monotonic clock."""

    prompt_id: str
    stream: int
    turn: int  # position within its stream
    scheduled_s: float  # when it was due
    sent_s: float | None  # when the body was handed to the socket; None if it never was
    closed_s: float | None  # when the stream ended, however it ended
    batches: tuple[TokenBatch, ...]  # events that carried at least one token, in order
    outcome: Outcome
    finish_reason: str | None
    http_status: int | None
    error: str | None  # the server's or the client's own words, never prompt text
    prompt_tokens: int | None  # usage.prompt_tokens
    cached_tokens: int | None  # usage.prompt_tokens_details.cached_tokens
    output_tokens: int | None  # usage.completion_tokens
    expected_prompt_tokens: int | None  # what the workload promised
    token_count_source: TokenCountSource
    reasoning_tokens: int | None = None  # as the server's usage says
    first_answer_s: float | None = None  # arrival of the first event that carried answer, not reasoning
    answer_tokens: int | None = None  # those of events from there on; None where nobody counts them
    text_sha256: str | None = None  # of the delivered text, for sameness
    token_ids_sha256: str | None = None
    answer_chain: str | None = None  # of a greedy answer to a user's prompt: keyed, four hex digits a token
    repeated_tail_ratio: float | None = None  # share of the output that only repeats its last few tokens
    speculation: RequestSpeculation | None = None
    coalesced_reads: int = 0  # socket reads that brought more than one event

    @property
    def finished(self) -> bool:
        """The server said why it ended."""
        return self.outcome in ("complete", "length")
