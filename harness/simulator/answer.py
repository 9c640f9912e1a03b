"""What a simulated engine answers: words, each a token, drawn as they are needed. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.simulator.tokens import word, word_id

_LOOP_TOKENS = 4
_DRAWN_AT_ONCE = 64


class Answer:
    """The tokens of one answer by position. One that ``loops`` repeats its first few for ever."""

    def __init__(self, rng: np.random.Generator, *, loops: bool = False) -> None:
        self._rng = rng
        self._loops = loops
        self._words: list[int] = []

    def text(self, start: int, count: int) -> str:
        """Return what ``count`` tokens from position ``start`` on read as."""
        return "".join(word(index) for index in self._indices(start, count))

    def ids(self, start: int, count: int) -> list[int]:
        """Return their ids."""
        return [word_id(index) for index in self._indices(start, count)]

    def _indices(self, start: int, count: int) -> Iterator[int]:
        for position in range(start, start + count):
            if self._loops:
                position %= _LOOP_TOKENS
            while position >= len(self._words):
                self._words += self._rng.integers(0, 1 << 30, _DRAWN_AT_ONCE).tolist()
            yield self._words[position]
