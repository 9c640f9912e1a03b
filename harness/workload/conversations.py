"""Which requests of a trace go on from which, where the trace does not say so: by what their prompts begin with.

Memory is bounded: what was not seen for longest is forgotten, as in the cache of an engine.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from harness.workload.traces.chat import Texts
from harness.workload.traces.entry import Entry

Value = TypeVar("Value")
_MOST_KNOWN = 250_000  # in each of two generations
_BLOCK = 1024  # characters; a prefix that is shared by less is not worth naming


class Recent(Generic[Value]):
    """A mapping of hashes that holds at least the last ``most`` of them, and at most twice as many."""

    def __init__(self, most: int = _MOST_KNOWN) -> None:
        self._most = most
        self._new: dict[int, Value] = {}
        self._old: dict[int, Value] = {}

    def get(self, key: int) -> Value | None:
        """Return what is known of a key."""
        found = self._new.get(key)
        return found if found is not None else self._old.get(key)

    def put(self, key: int, value: Value) -> None:
        """Remember a key."""
        if len(self._new) >= self._most:
            self._old, self._new = self._new, {}
        self._new[key] = value


class Conversations:
    """Names the conversation of each entry."""

    def __init__(self) -> None:
        self._ends: Recent[str] = Recent()
        self._count = 0

    def name(self, entry: Entry) -> str:
        """Return the trace's own name, else that of the entry whose prompt this one goes on from, else a new one."""
        if entry.session is not None:
            return entry.session
        chain = _chain(entry)
        found = next((name for key in reversed(chain[:-1]) if (name := self._ends.get(key)) is not None), None)
        if found is None:
            self._count += 1
            found = f"#{self._count}"
        if chain:
            self._ends.put(chain[-1], found)
        return found


def _chain(entry: Entry) -> list[int]:
    """Hashes of the prompt up to each message."""
    chain: list[int] = []
    state = 0
    for message in entry.body.get("messages") or ():
        content = message.get("content")
        state = hash((state, message.get("role"), content if isinstance(content, str) else repr(content)))
        chain.append(state)
    return chain


class SharedPrefixes:
    """How much of each prompt was the beginning of an earlier one: what a prefix cache could reuse at best.

    ``block`` is in characters: what is shared is counted in such pieces.
    """

    def __init__(self, block: int = _BLOCK) -> None:
        self._block = block
        self._known: Recent[bool] = Recent()

    def share(self, entry: Entry, texts: Texts) -> float:
        """Return the share of a prompt that is known, 0 to 1, and remember all of it."""
        blocks = list(entry.blocks) if entry.blocks else _blocks(texts, self._block)
        if not blocks:
            return 0.0
        state, known, shared = 0, 0, True
        for block in blocks:
            state = hash((state, block))
            if shared and self._known.get(state):
                known += 1
                continue
            shared = False
            self._known.put(state, True)
        return known / len(blocks)


def _blocks(texts: Texts, size: int) -> list[int]:
    text = "\x1f".join(texts.parts)
    return [hash(text[at : at + size]) for at in range(0, len(text) - len(text) % size, size)]
