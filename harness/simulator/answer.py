"""What a simulated engine answers: words, each a token, drawn as they are needed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from harness.simulator.tokens import TOKEN_BYTES, VOCABULARY, word

_LOOP_TOKENS = 4
_DRAWN_AT_ONCE = 64


class Answer:
    """The tokens of one answer by position.

    ``opening`` is how it begins, of ASCII. One that ``loops`` repeats its first few words for ever.
    """

    def __init__(self, rng: np.random.Generator, *, opening: str = "", loops: bool = False) -> None:
        self._rng = rng
        self._loops = loops
        self._opening = () if loops else tuple(_pieces(opening))
        self._words: list[int] = []

    def text(self, start: int, count: int) -> str:
        """Return what ``count`` tokens from position ``start`` on read as."""
        return "".join(self._tokens(start, count))

    def ids(self, start: int, count: int) -> list[int]:
        """Return their ids."""
        return [_id_of(token) for token in self._tokens(start, count)]

    def _tokens(self, start: int, count: int) -> Iterator[str]:
        for position in range(start, start + count):
            if position < len(self._opening):
                yield self._opening[position]
                continue
            index = position % _LOOP_TOKENS if self._loops else position
            while index >= len(self._words):
                self._words += self._rng.integers(0, 1 << 30, _DRAWN_AT_ONCE).tolist()
            yield word(self._words[index])


@lru_cache(maxsize=1024)  # answers are made of few words
def _id_of(token: str) -> int:
    return int.from_bytes(token.encode(), "little") % VOCABULARY


def _pieces(text: str) -> Iterator[str]:
    padded = text + " " * (-len(text) % TOKEN_BYTES)
    for start in range(0, len(padded), TOKEN_BYTES):
        yield padded[start : start + TOKEN_BYTES]
