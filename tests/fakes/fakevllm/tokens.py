"""Text to tokens and back, answers, and which drafted tokens are accepted: all of it a function of content and seed."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from itertools import pairwise

PIECE = re.compile(r" ?[A-Za-z]{1,6}|\d|\s|[^\sA-Za-z\d]")
ROLES = {"system": 3, "user": 4, "assistant": 5, "tool": 6}
END_OF_MESSAGE = 1
EOS = 1
FIRST_WORD = 100
VOCABULARY = 60000
HALF_A_CHARACTER, OTHER_HALF = 90, 91
WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "this",
    "are",
    "or",
    "from",
    "at",
    "which",
    "but",
    "have",
    "an",
    "had",
    "they",
    "you",
    "were",
    "there",
    "one",
    "all",
    "we",
    "their",
    "has",
    "would",
    "when",
    "if",
    "so",
    "no",
    "will",
    "said",
    "who",
    "more",
    "about",
    "up",
    "out",
    "them",
    "then",
    "some",
    "could",
    "time",
    "into",
    "only",
    "other",
    "new",
    "two",
    "may",
    "first",
    "water",
    "long",
    "little",
    "very",
    "after",
    "words",
    "called",
    "just",
    "where",
    "most",
    "know",
    "through",
    "back",
    "much",
    "before",
    "also",
    "around",
    "another",
    "came",
    "come",
    "work",
    "three",
    "word",
    "must",
    "because",
    "does",
    "part",
    "even",
    "place",
    "well",
    "such",
    "here",
    "take",
    "why",
    "things",
    "help",
    "put",
    "years",
    "different",
    "away",
    "again",
    "off",
    "went",
    "old",
    "number",
    "great",
    "tell",
    "men",
    "say",
    "small",
    "every",
    "found",
    "still",
    "between",
    "name",
    "should",
    "home",
    "big",
    "give",
    "air",
    "line",
    "set",
    "own",
    "under",
    "read",
    "last",
    "never",
    "us",
    "left",
    "end",
    "along",
    "while",
    "might",
    "next",
]


def tokenize(text: str) -> list[tuple[int, str]]:
    """Return (id, text) of word-like pieces of at most six letters; digits and signs stand alone."""
    return [
        (FIRST_WORD + len(WORDS) + zlib.crc32(piece.encode()) % (VOCABULARY - FIRST_WORD - len(WORDS)), piece)
        for piece in PIECE.findall(text)
    ]


def chat_tokens(messages: Sequence[dict[str, object]], *, generation_prompt: bool = True) -> list[int]:
    """Return the ids of a conversation under the chat template: a role token before and an end token after each."""
    ids: list[int] = []
    for message in messages:
        ids += [ROLES.get(str(message.get("role")), 4), *(number for number, _ in tokenize(content_of(message)))]
        ids.append(END_OF_MESSAGE)
    return [*ids, ROLES["assistant"]] if generation_prompt else ids


def content_of(message: dict[str, object]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(content)


def text_of(token: int) -> str:
    """Return what a token of an answer reads as."""
    if token in (HALF_A_CHARACTER, EOS):
        return ""
    if token == OTHER_HALF:
        return " ☃"
    return " " + WORDS[(token - FIRST_WORD) % len(WORDS)]


def is_symbolic(prompt: Sequence[int]) -> bool:
    """Code and numbers: many pieces that are no words. Ids carry no text, so their spread has to do: it is high
    where few different pieces alternate."""
    changes = sum(one == other for one, other in pairwise(sorted(prompt)))
    return len(prompt) > 16 and changes / len(prompt) > 0.6


class Answer:
    """The tokens of one answer, each a function of prompt, sampling seed and position."""

    def __init__(self, prompt: Sequence[int], key: str, *, loop: bool, split: bool) -> None:
        self._key = hashlib.sha256(repr((list(prompt), key)).encode()).digest()
        self._loop = loop
        self._split = split

    def token(self, position: int) -> int:
        if self._loop:
            position %= 4
        if self._split and position % 8 in (5, 6):
            return HALF_A_CHARACTER if position % 8 == 5 else OTHER_HALF
        return FIRST_WORD + int(self.chance("token", position) * len(WORDS))

    def chance(self, what: str, *numbers: int) -> float:
        """Return a number in [0, 1) that depends on the answer and the arguments alone."""
        digest = hashlib.blake2b(repr((what, numbers)).encode(), key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    def accepted(self, position: int, curve: Sequence[float], drafted: int) -> int:
        """Return how many of the tokens drafted after ``position`` are accepted, under a curve of shares by place."""
        before = 1.0
        for place in range(drafted):
            share = curve[place] if place < len(curve) else 0.0
            if self.chance("draft", position, place) >= (share / before if before else 0.0):
                return place
            before = share
        return drafted
