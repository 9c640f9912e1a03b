"""A part of a trace that is like the whole: conversations drawn by a seed, as many of each kind as their share."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harness.errors import InputError
from harness.workload.classify import class_of_entry
from harness.workload.conversations import Conversations
from harness.workload.sizes import bucket_of, output_tokens, prompt_tokens
from harness.workload.traces.chat import texts_of
from harness.workload.traces.entry import Entry, Skipped
from harness.workload.traces.own import written
from harness.workload.traces.read import AUTO, format_of, read_trace

STRATA = ("class", "prompt_tokens")
_REFUSED = 0xFFFFFFFF  # in place of a conversation's number


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Which part to draw."""

    conversations: int
    seed: int
    by: tuple[str, ...] = STRATA  # what the part is spread over, as in the whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What was written."""

    entries: int
    conversations: int
    left_out: int  # entries that cannot be replayed


class Kinds:
    """The conversations of a trace and of which kind each is: the class and length of its longest prompt."""

    def __init__(self) -> None:
        self._ordinals: dict[str, int] = {}
        self._kinds: dict[tuple[str, int], int] = {}
        self._names: list[tuple[str, int]] = []
        self._kind_of = array("H")
        self._longest = array("I")
        self.last_tokens = 0  # of the prompt that was added last

    def __len__(self) -> int:
        """Conversations."""
        return len(self._kind_of)

    def add(self, name: str, entry: Entry) -> int:
        """Take one entry of a conversation; return the conversation's number, in the order of the trace."""
        texts = texts_of(entry.body)
        tokens = self.last_tokens = prompt_tokens(entry, texts)
        ordinal = self._ordinals.setdefault(name, len(self._ordinals))
        if ordinal < len(self._longest) and tokens <= self._longest[ordinal]:
            return ordinal
        kind = self._kind((class_of_entry(entry, texts), bucket_of(tokens)))
        if ordinal == len(self._longest):
            self._longest.append(tokens)
            self._kind_of.append(kind)
        else:
            self._longest[ordinal], self._kind_of[ordinal] = tokens, kind
        return ordinal

    def of(self, ordinal: int) -> tuple[str, int]:
        """Return class and length of a conversation."""
        return self._names[self._kind_of[ordinal]]

    def drawn(self, sample: Sample) -> frozenset[int]:
        """Return the numbers of the conversations that a sample takes."""
        strata: dict[tuple[object, ...], list[int]] = {}
        for ordinal in range(len(self)):
            workload_class, tokens = self.of(ordinal)
            values = {"class": workload_class, "prompt_tokens": tokens}
            strata.setdefault(tuple(values[name] for name in sample.by), []).append(ordinal)
        groups = [strata[key] for key in sorted(strata, key=str)]
        counts = shares([len(group) for group in groups], sample.conversations)
        chosen: set[int] = set()
        for group, count in zip(groups, counts, strict=True):
            chosen.update(sorted(group, key=lambda ordinal: _rank(sample.seed, ordinal))[:count])
        return frozenset(chosen)

    def _kind(self, kind: tuple[str, int]) -> int:
        if kind not in self._kinds:
            self._kinds[kind] = len(self._names)
            self._names.append(kind)
        return self._kinds[kind]


def shares(sizes: Sequence[int], count: int) -> list[int]:
    """Return how many to take of groups of these sizes: in proportion, the largest remainders first."""
    total = sum(sizes)
    if count >= total:
        return list(sizes)
    exact = [count * size / total for size in sizes]
    taken = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda at: (taken[at] - exact[at], at))
    for at in by_remainder[: count - sum(taken)]:
        taken[at] += 1
    return taken


def require_strata(names: Sequence[str]) -> tuple[str, ...]:
    """Return what a sample is spread over. Raises InputError for what a trace is not divided by."""
    unknown = [name for name in names if name not in STRATA]
    if unknown:
        raise InputError(f'a sample cannot be spread over "{unknown[0]}"', hint=f"By: {', '.join(STRATA)}.")
    return tuple(names) or STRATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The conversations of a trace, and which entry belongs to which: what a second pass over it needs to know."""

    format_name: str
    kinds: Kinds
    lines: array[int]  # of each entry, in the order of the trace
    ordinals: array[int]  # of each entry's conversation
    requests: array[int]  # by conversation
    tokens: array[int]  # of prompts and answers, by conversation
    left_out: int  # entries that cannot be replayed


def index_of(path: Path, *, format_name: str = AUTO, take: Callable[[Entry], bool] | None = None) -> Index:
    """Return the conversations of a trace, in one pass. Entries that ``take`` refuses are left out.

    Raises:
        InputError: the trace cannot be read.
    """
    chosen = format_of(path, format_name=format_name).name
    kinds, conversations = Kinds(), Conversations()
    lines, ordinals, requests, tokens = array("I"), array("I"), array("I"), array("Q")
    left_out = 0
    for each in read_trace(path, format_name=chosen):
        if isinstance(each, Skipped):
            left_out += 1
            continue
        name = conversations.name(each)
        lines.append(each.line)
        if take is not None and not take(each):
            ordinals.append(_REFUSED)
            continue
        ordinal = kinds.add(name, each)
        ordinals.append(ordinal)
        if ordinal == len(requests):
            requests.append(0)
            tokens.append(0)
        requests[ordinal] += 1
        tokens[ordinal] += kinds.last_tokens + output_tokens(each)
    return Index(
        format_name=chosen,
        kinds=kinds,
        lines=lines,
        ordinals=ordinals,
        requests=requests,
        tokens=tokens,
        left_out=left_out,
    )


def chosen_entries(path: Path, index: Index, chosen: Container[int] | None) -> Iterator[tuple[int, Entry]]:
    """Yield the entries of chosen conversations with the conversation's number; of all of them if ``chosen`` is None.

    Raises:
        InputError: the trace cannot be read, or is another one than was indexed.
    """
    wanted = (
        None if chosen is None else {at for at, of in zip(index.lines, index.ordinals, strict=True) if of in chosen}
    )
    expected = (
        (line, ordinal)
        for line, ordinal in zip(index.lines, index.ordinals, strict=True)
        if wanted is None or line in wanted
    )
    entries = (
        each
        for each in read_trace(path, format_name=index.format_name, wanted=wanted)
        if isinstance(each, Entry) and (wanted is None or each.line in wanted)
    )
    for entry in entries:
        line, ordinal = next(expected, (0, 0))
        if line != entry.line:
            raise InputError("the trace changed while it was read", where=str(path))
        if ordinal != _REFUSED and (chosen is None or ordinal in chosen):
            yield ordinal, entry


def convert(path: Path, out: BinaryIO, *, format_name: str = AUTO, sample: Sample | None = None) -> Converted:
    """Write a trace, or a part of it, in the harness's own format.

    Raises:
        InputError: the trace cannot be read.
        OSError: nothing can be written.
    """
    index = index_of(path, format_name=format_name) if sample is not None else None
    if index is None or sample is None:
        return _convert_all(path, out, format_name)
    drawn = index.kinds.drawn(sample)
    entries = 0
    for ordinal, entry in chosen_entries(path, index, drawn):
        out.write(written(entry, session=f"c{ordinal}") + b"\n")
        entries += 1
    return Converted(entries=entries, conversations=len(drawn), left_out=index.left_out)


def _convert_all(path: Path, out: BinaryIO, format_name: str) -> Converted:
    conversations = Conversations()
    ordinals: dict[str, int] = {}
    entries = left_out = 0
    for each in read_trace(path, format_name=format_name):
        if isinstance(each, Skipped):
            left_out += 1
            continue
        ordinal = ordinals.setdefault(conversations.name(each), len(ordinals))
        out.write(written(each, session=f"c{ordinal}") + b"\n")
        entries += 1
    return Converted(entries=entries, conversations=len(ordinals), left_out=left_out)


def _rank(seed: int, ordinal: int) -> bytes:
    return hashlib.sha256(f"{seed}\x1f{ordinal}".encode()).digest()
