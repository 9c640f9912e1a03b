"""Tokenizers of several kinds, and a server's count on top: what prompts are built against in tests."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable

Count = Callable[[str], int]
_SYLLABLE = re.compile(r"[bcdfghjklmnpqrstvwxz]*[aeiouy]+|[a-z]+$")


def by_words(text: str) -> int:
    """Every run of non-blanks is a token."""
    return len(text.split())


def by_bytes(text: str) -> int:
    """Every byte is a token."""
    return len(text.encode())


def by_pieces(text: str) -> int:
    """Like a byte-pair vocabulary: a space belongs to the word after it, short words are whole, long ones are cut."""
    return sum(map(_piece_tokens, re.findall(r" ?[A-Za-z]+|\d{1,3}| ?[^\sA-Za-z\d]+|\s+", text)))


def by_merged_words(text: str) -> int:
    """Like by_pieces, but some pairs of neighbouring words are one token."""
    words = re.findall(r"[a-z]+(?= )", text)
    merged = sum(zlib.crc32(f"{one} {two}".encode()) % 7 == 0 for one, two in itertools.pairwise(words))
    return by_pieces(text) - merged


def by_sentence_pieces(text: str) -> int:
    """Like a unigram vocabulary: syllables, a mark for each blank that opens a rare word, newlines as bytes."""
    total = 0
    for word in re.findall(r"[A-Za-z]+|\d|\n|[^\sA-Za-z\d]", text):
        if not word.isalpha() or len(word) <= 4:
            total += 1
        else:
            total += max(1, len(_SYLLABLE.findall(word.lower()))) + zlib.crc32(word.encode()) % 2
    return total


def _piece_tokens(piece: str) -> int:
    letters = piece.strip()
    if not letters.isalpha() or len(letters) <= 5:
        return 1
    return 1 + (len(letters) - 5 + zlib.crc32(letters.encode()) % 3) // 4


TOKENIZERS: dict[str, Count] = {
    "words": by_words,
    "bytes": by_bytes,
    "pieces": by_pieces,
    "merged_words": by_merged_words,
    "sentence_pieces": by_sentence_pieces,
}


class FakeTokenizer:
    """Counts as a server does: its template around the text. It remembers how often it was asked."""

    def __init__(self, count: Count, *, template_tokens: int = 7) -> None:
        self._count = count
        self._template_tokens = template_tokens
        self.calls = 0

    async def __call__(self, text: str) -> int:
        """Return the tokens of one user message."""
        self.calls += 1
        return self._count(text) + self._template_tokens
