"""Text for requests of which a trace tells lengths alone: natural text of a named class, sharing what the trace shares.

Lengths come out within a few per cent: they are the trace's, by a tokenizer that nobody knows any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.workload.classes import content_class_named
from harness.workload.corpus import Corpus, load_corpus
from harness.workload.fitting import CountTokens, count
from harness.workload.replay import Conversation, Turn
from harness.workload.supply import passages_for

BLOCK_TOKENS = 512  # of a block hash of a timed trace
_SAMPLE_CHARACTERS = 8000  # enough to learn how many of them are a token


class Filler:
    """Writes texts for one server. ``seed`` makes them the same in every arm."""

    def __init__(self, workload_class: str, *, seed: int) -> None:
        self._corpus: Corpus = load_corpus(workload_class)
        self._instruction = content_class_named(workload_class).instruction
        self._seed = seed
        self._characters_per_token: float | None = None
        self._blocks: dict[int, str] = {}

    async def calibrate(self, count_tokens: CountTokens) -> None:
        """Learn how long a token is, in two counts. Raises EndpointError."""
        if self._characters_per_token is None:
            text = self._text("sample", 0, _SAMPLE_CHARACTERS)
            tokens = await count(count_tokens, text) - await count(count_tokens, text[:1])
            self._characters_per_token = (len(text) - 1) / max(1, tokens)

    def body(self, conversation: Conversation, turn: Turn) -> dict[str, Any]:
        """Return the body of a request as long as the trace says."""
        assert self._characters_per_token is not None  # calibrate comes first
        characters = round(turn.prompt_tokens * self._characters_per_token) - len(self._instruction)
        characters = max(characters, 1)
        if turn.blocks:
            text = "".join(self._block(block) for block in turn.blocks)[:characters]
        else:
            # A longer prompt of the same conversation begins with the shorter one.
            text = self._text("conversation", conversation.number, characters)
        return {"messages": [{"role": "user", "content": f"{text}\n\n{self._instruction}"}]}

    def _block(self, block: int) -> str:
        if block not in self._blocks:
            assert self._characters_per_token is not None
            self._blocks[block] = self._text("block", block, round(BLOCK_TOKENS * self._characters_per_token))
        return self._blocks[block]

    def _text(self, label: str, index: int, characters: int) -> str:
        pieces: list[str] = []
        length = 0
        passages: Iterator[str] = passages_for(
            self._corpus, seed=self._seed, label=label, index=index, context_tokens=BLOCK_TOKENS
        )
        while length < characters:
            pieces.append(next(passages) + "\n\n")
            length += len(pieces[-1])
        return "".join(pieces)[:characters]
