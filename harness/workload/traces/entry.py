"""What a reader makes of a trace: requests that can be replayed, lengths of those whose text is gone, and the rest.

Nothing here ever shows a text of the trace: ``body`` is left out of every repr, and a reason is one of a few sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

TextState = Literal["whole", "cut", "redacted", "none"]
Record = dict[str, Any]  # one JSON object, or one row of a table, of a trace


class Reason(StrEnum):
    """Why an entry cannot be replayed."""

    NOT_JSON = "is not JSON"
    BROKEN_OFF = "breaks off: the file ends inside it"
    NOT_UTF8 = "is not UTF-8"
    NOT_FINITE = "holds NaN or infinity, which JSON has no form for"
    TOO_LONG = "is too long a line"
    TOO_DEEP = "is nested too deeply"
    NO_OBJECT = "is no JSON object"
    OTHER_FORMAT = "is of another format than the file"
    NO_REQUEST = "is no chat or completion"
    FAILED = "is a request that failed"
    MALFORMED = "lacks what its format asks for"
    UNKNOWN_ROLE = "has a message of an unknown role"
    EMPTY = "has an empty prompt"
    CUT = "has a cut prompt and no token counts"
    REDACTED = "has a redacted prompt and no token counts"
    NO_TEXT = "has no prompt and no token counts"
    SEVERAL_ANSWERS = "asks for several answers at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An entry that cannot be replayed, by the line on which it begins, from 1."""

    line: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded request."""

    line: int  # on which it begins, from 1
    text: TextState
    body: Record = field(default_factory=dict, repr=False)  # of the API, as recorded; empty unless the text is whole
    prompt_tokens: int | None = None  # as recorded, by the tokenizer of then
    output_tokens: int | None = None  # likewise
    answer_bytes: int = 0  # of the recorded answer, where nobody counted its tokens
    at_s: float | None = None  # when it was sent; the origin means nothing
    session: str | None = None  # what the trace calls the conversation
    model: str | None = None
    blocks: tuple[int, ...] = ()  # of a trace of lengths: equal ones at the head are a shared prefix
    workload_class: str | None = None  # where the trace says so
    # The body in JSON as the trace has it, where it stands there whole: written again without being made again.
    body_json: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises ValueError for an entry with neither text nor length."""
        if self.text != "whole" and self.prompt_tokens is None:
            raise ValueError("an entry without text needs the length of its prompt")


class NotReplayableError(Exception):
    """Raised by readers for one entry; becomes a Skipped."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason
