"""Delivered output as hashes and one figure: enough to tell whether it is the same, or a loop, without keeping it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

_LONGEST_PERIOD = 16
_CHAIN_DIGITS = 4


def sha256_of_text(reasoning: str, answer: str) -> str:
    """Return the hash of the answer, and of the reasoning before it where there is some."""
    whole = f"{reasoning}\0{answer}" if reasoning else answer
    # JSON may carry half a surrogate pair; it must hash like any other text.
    return hashlib.sha256(whole.encode("utf-8", errors="surrogatepass")).hexdigest()


def sha256_of_ids(token_ids: Sequence[int]) -> str:
    """Return the hash of the token ids in decimal, separated by commas."""
    return hashlib.sha256(",".join(map(str, token_ids)).encode()).hexdigest()


def chained_hash(token_ids: Sequence[int], *, key: bytes, label: str) -> str:
    """Return four hexadecimal digits a token, keyed and each over ``label`` and all tokens up to it.

    Two of them agree up to where the tokens do, and say nothing else to whoever lacks the key. By chance they agree for
    one token longer once in 65,536 times.
    """
    links, state = [], hmac.digest(key, label.encode(), "sha256")
    for token in token_ids:
        state = hmac.digest(key, state + token.to_bytes(8, "big", signed=True), "sha256")
        links.append(state.hex()[:_CHAIN_DIGITS])
    return "".join(links)


def repeated_tail_ratio(items: Sequence[object]) -> float | None:
    """Return the share of ``items`` (tokens or words) that only repeats the period of 1 to 16 before it, at the end.

    0 where the end repeats nothing, near 1 where the output is a loop, None where there is no output. A repeat counts
    once a whole period has come again, so that one word that happens to recur is none.
    """
    if not items:
        return None
    longest = 0
    for period in range(1, min(_LONGEST_PERIOD, len(items) - 1) + 1):
        repeated = _repeated_at_end(items, period)
        if repeated >= period:
            longest = max(longest, repeated)
    return longest / len(items)


def _repeated_at_end(items: Sequence[object], period: int) -> int:
    index = len(items) - 1
    while index >= period and items[index] == items[index - period]:
        index -= 1
    return len(items) - 1 - index
