"""A prefix cache in whole blocks. Pure.

Prompts are kept as bytes and compared as such: the longest common beginning of two long prompts is found in a few
comparisons of memory, where a hash per block would be the dearest thing in a rehearsal.
"""

from __future__ import annotations

from collections import OrderedDict

from harness.simulator.tokens import TOKEN_BYTES, tokens_in


class PrefixCache:
    """Holds at most ``capacity_tokens``; what was not used for longest goes first."""

    def __init__(self, *, block_tokens: int, capacity_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._capacity_tokens = capacity_tokens
        self._kept: OrderedDict[int, bytes] = OrderedDict()  # by number, the one that was used last at the end
        self._heads: dict[int, bytes] = {}
        self._by_head: dict[bytes, list[int]] = {}
        self._number = 0
        self._tokens = 0

    def look_up(self, prompt: bytes, *, salt: bytes = b"") -> int:
        """Return how many tokens of ``prompt`` are there, in whole blocks. Its last token is always computed."""
        best, best_number = 0, None
        for number in self._by_head.get(salt + self._head(prompt), ()):
            common = common_bytes(self._kept[number], prompt)
            if common > best:
                best, best_number = common, number
        if best_number is not None:
            self._kept.move_to_end(best_number)
        usable = min(best // TOKEN_BYTES, tokens_in(prompt) - 1)
        return max(usable, 0) // self._block_tokens * self._block_tokens

    def keep(self, text: bytes, *, salt: bytes = b"") -> None:
        """Keep what was computed: a prompt, and the answer after it."""
        if tokens_in(text) < self._block_tokens or self._capacity_tokens <= 0:
            return
        head = salt + self._head(text)
        self._forget([number for number in self._by_head.get(head, ()) if text.startswith(self._kept[number])])
        self._number += 1
        self._kept[self._number] = text
        self._heads[self._number] = head
        self._by_head.setdefault(head, []).append(self._number)
        self._tokens += tokens_in(text)
        while self._tokens > self._capacity_tokens and len(self._kept) > 1:
            self._forget([next(iter(self._kept))])

    def _forget(self, numbers: list[int]) -> None:
        for number in numbers:
            self._tokens -= tokens_in(self._kept.pop(number))
            head = self._heads.pop(number)
            self._by_head[head].remove(number)
            if not self._by_head[head]:
                del self._by_head[head]

    def _head(self, prompt: bytes) -> bytes:
        return prompt[: self._block_tokens * TOKEN_BYTES]


def common_bytes(one: bytes, other: bytes) -> int:
    """Return the length of the longest common beginning."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
