"""Prompts as the client sends them."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.identity import content_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt of an exact length, as the server's own tokenizer counts it (chat template included)."""

    text: str
    tokens: int
    content: str | None = None  # content_id of what is the same in every arm, where the head holds a nonce

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
