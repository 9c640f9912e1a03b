"""Prompts as the client sends them."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.records.cell import OutputLength
from harness.records.identity import content_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A request of a trace as it is sent again: its body untouched, but for what the sweep says instead."""

    body: str = field(repr=False)  # a JSON object
    output: OutputLength
    salt: str  # of the prefix cache: requests of different salts share nothing
    temperature: float | None = None  # None: as recorded
    top_p: float | None = None
    thinking: str | None = None
    due_s: float | None = None  # since the window began; None: once the one before it has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt of an exact length, as the server's own tokenizer counts it (chat template included)."""

    text: str = field(repr=False)  # of a recorded one: all that is private in it
    tokens: int  # of a recorded one that nobody could count: an estimate
    content: str | None = None  # content_id of what is the same in every arm, where the head holds a nonce
    recorded: RecordedRequest | None = None  # None: the text is one message of a user
    counted: bool = True  # by the server's own tokenizer
    picture: str | None = field(default=None, repr=False)  # a data URI, sent before the text; its tokens count too

    @property
    def prompt_id(self) -> str:
        """Identity by content, the nonce left out, so that arms pair; what records hold instead of the text."""
        return self.content or content_id(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """What one closed-loop stream sends, in order."""

    prompts: tuple[Prompt, ...]


def workload_id(streams: tuple[StreamPlan, ...]) -> str:
    """Return the identity of a set of prompts in their streams and order."""
    return content_id([[prompt.prompt_id for prompt in stream.prompts] for stream in streams])
