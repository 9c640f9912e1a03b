"""Text to cut prompts from: passages in a seeded order, and roughly how many tokens there are up to each word."""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate

from harness.workload.corpus import Corpus
from harness.workload.nonce import shuffled

_CHARACTERS_PER_TOKEN = 5  # generous: how far apart the texts of two requests begin
_WORD = re.compile(r"\S+")
_PIECE = re.compile(r"[^\W\d_]+|\d|_|[^\w\s]|\n\s*")


class Supply:
    """A text that grows as needed, which may be cut after any word."""

    def __init__(self, passages: Iterator[str], *, by_character: bool) -> None:
        self._passages = passages
        self._by_character = by_character
        self._text = ""
        self._cuts = [0]
        self._weights = [0.0]

    @property
    def words(self) -> int:
        """How many words have been taken from the passages so far."""
        return len(self._cuts) - 1

    def body(self, words: int) -> str:
        """Return the first words, with the blanks between them as they are."""
        return self._text[: self._cuts[words]]

    def weight(self, words: int) -> float:
        """Return roughly the tokens of the first words, up to a factor."""
        return self._weights[words]

    def words_up_to(self, weight: float) -> int:
        """Return how many words come nearest to ``weight`` from below."""
        while self._weights[-1] < weight:
            self._grow(next(self._passages))
        return max(0, bisect.bisect_right(self._weights, weight) - 1)

    def _grow(self, passage: str) -> None:
        start = len(self._text)
        added = f"\n\n{passage}" if self._text else passage
        ends, weights = _words_of(added, by_character=self._by_character)
        self._text += added
        self._cuts += [start + end for end in ends]
        self._weights += list(accumulate(weights, initial=self._weights[-1]))[1:]


def passages_for(corpus: Corpus, *, seed: int, label: str, index: int, context_tokens: int) -> Iterator[str]:
    """Yield passages without end for request ``index``, the same on every machine.

    The requests of a set divide one shuffled corpus among themselves, then the next one. Within a request no passage
    returns before all of the corpus was used.
    """
    count = len(corpus.passages)
    per_request = math.ceil(context_tokens * _CHARACTERS_PER_TOKEN * count / corpus.characters)
    lap, slot = divmod(index, max(1, count // per_request))
    order = shuffled(corpus.passages, seed, label, lap)
    start = slot * per_request % count
    yield from order[start:]
    yield from order[:start]
    again = 0
    while True:
        yield from shuffled(corpus.passages, seed, label, index, "again", again)
        again += 1


def words_weight(text: str, *, by_character: bool) -> float:
    """Return the weight of a whole text, as Supply weighs its words."""
    return sum(_words_of(text, by_character=by_character)[1])


@lru_cache(maxsize=8192)  # passages come again in other texts
def _words_of(passage: str, *, by_character: bool) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return where each word ends, and its weight with the blanks before it."""
    ends = tuple(word.end() for word in _WORD.finditer(passage))
    chunks = [passage[start:end] for start, end in zip((0, *ends), ends, strict=False)]
    return ends, tuple(float(len(chunk)) if by_character else _weight(chunk) for chunk in chunks)


@lru_cache(maxsize=65536)
def _weight(chunk: str) -> float:
    return sum(map(_piece_tokens, _PIECE.findall(chunk)))


def _piece_tokens(piece: str) -> float:
    """Long words are several tokens in most vocabularies; the scale does not matter, it is measured."""
    return 1 + max(0, len(piece) - 6) / 4 if piece.isalpha() else 1.0
