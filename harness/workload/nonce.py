"""What makes the head of a prompt unique, in the same number of tokens each time.

The nonce is an order of the same words. A tokenizer that never merges across a space gives any order the same count,
whatever each word costs by itself, so a new nonce needs no new count and the text after it stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")
# 12 words have 4.8e8 orders, 2e7 of them within the first 16-token block of a prefix cache.
WORDS = ("red", "box", "sun", "map", "key", "cup", "hat", "dog", "pen", "ice", "oak", "bus")


def nonce_head(*identity: str | int) -> str:
    """Return the first paragraph of a prompt, decided by ``identity`` alone and ending in an empty line."""
    return f"Label: {' '.join(shuffled(WORDS, *identity))}\n\n"


def without_nonce(text: str) -> str:
    """Return what follows the head."""
    return text.partition("\n\n")[2]


def shuffled(items: Sequence[Item], *identity: str | int) -> list[Item]:
    """Return the items in an order decided by ``identity``: the same on every machine and Python version."""
    label = "\x1f".join(map(str, identity))

    def rank(index: int) -> bytes:
        return hashlib.sha256(f"{label}\x1f{index}".encode()).digest()

    return [items[index] for index in sorted(range(len(items)), key=rank)]
