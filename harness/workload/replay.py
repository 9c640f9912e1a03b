"""A trace -> the conversations that a sweep replays, in cells by content class and length. Texts stay in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any

from harness.errors import InputError
from harness.records.identity import content_id
from harness.workload.arrivals import ArrivalPlan
from harness.workload.classes import CONTENT_CLASSES, TEXT_CLASSES
from harness.workload.classify import class_of_entry
from harness.workload.conversations import SharedPrefixes
from harness.workload.sampling import Index, Sample, chosen_entries, index_of
from harness.workload.sizes import output_tokens, prompt_tokens
from harness.workload.traces.chat import texts_of
from harness.workload.traces.entry import Entry
from harness.workload.traces.read import AUTO

MOST_CHARACTERS = 256 * 1024 * 1024  # of texts at a time in memory
_BLOCK = 64  # characters: the 16 tokens that an engine caches at least
FIELDS = ("model", "session", "status", "class")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWishes:
    """What a sweep says of a trace."""

    path: Path
    format_name: str = AUTO
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # field -> patterns, of which one must fit
    sample: Sample | None = None
    split: bool = False  # each request a conversation of its own
    fill: str | None = None  # content class for entries without text; None: refuse them
    arrivals: ArrivalPlan = field(default_factory=ArrivalPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request of a conversation."""

    body: dict[str, Any] | None = field(repr=False)  # None: a length, to be filled
    prompt_tokens: int
    output_tokens: int
    at_s: float | None
    blocks: tuple[int, ...] = ()
    reused_ratio: float = 0.0  # of its prompt: begins an earlier one
    content: str = ""  # identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Turns in the order in which they are sent."""

    number: int  # in the trace
    workload_class: str
    context_tokens: int  # upper end of the lengths that its longest prompt belongs to
    turns: tuple[Turn, ...]

    @property
    def kind(self) -> tuple[str, int]:
        """The cell that it belongs to."""
        return self.workload_class, self.context_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What part of the whole trace a cell stands for."""

    requests: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What is replayed."""

    wishes: ReplayWishes
    conversations: tuple[Conversation, ...]
    weights: Mapping[tuple[str, int], Weight]  # by class and length, of the whole trace, not of the sample
    left_out: int  # entries that cannot be replayed

    def of_kind(self, kind: tuple[str, int]) -> tuple[Conversation, ...]:
        """Return the conversations of a cell."""
        return tuple(each for each in self.conversations if each.kind == kind)

    @property
    def kinds(self) -> tuple[tuple[str, int], ...]:
        """The cells that have a conversation."""
        return tuple(sorted({each.kind for each in self.conversations}))


def load_replay(wishes: ReplayWishes) -> Replay:
    """Read a trace in two passes: what is in it, and the part that is replayed.

    Raises:
        InputError: the trace cannot be read, nothing of it can be replayed, an entry has no text and nothing fills it,
            or what is to be replayed is more than fits in memory.
    """
    _require_fields(wishes)
    if wishes.fill is not None and wishes.fill not in TEXT_CLASSES:
        hint = f"One of {', '.join(TEXT_CLASSES)}."
        raise InputError(f'no_text: "{wishes.fill}" is no content class that text can be made of', hint=hint)
    weights = _Weights()
    index = index_of(wishes.path, format_name=wishes.format_name, take=lambda entry: _fits(entry, wishes))
    chosen = index.kinds.drawn(wishes.sample) if wishes.sample is not None else None
    grouped = _grouped(wishes, index, chosen)
    if not grouped:
        hint = "harness workload inspect says what is in it, and what cannot be replayed."
        raise InputError("nothing of the trace can be replayed", where=str(wishes.path), hint=hint)
    conversations = tuple(
        _conversation(number, index.kinds.of(number), entries, wishes) for number, entries in sorted(grouped.items())
    )
    for ordinal, (requests, tokens) in enumerate(zip(index.requests, index.tokens, strict=True)):
        workload_class, context_tokens = index.kinds.of(ordinal)
        weights.add(_filled(workload_class, wishes), context_tokens, requests, tokens)
    return Replay(
        wishes=wishes,
        conversations=_with_reuse(_split(conversations) if wishes.split else conversations),
        weights=weights.done(),
        left_out=index.left_out,
    )


class _Weights:
    def __init__(self) -> None:
        self._found: dict[tuple[str, int], Weight] = {}

    def add(self, workload_class: str, context_tokens: int, requests: int, tokens: int) -> None:
        former = self._found.get((workload_class, context_tokens), Weight())
        self._found[workload_class, context_tokens] = Weight(
            requests=former.requests + requests, tokens=former.tokens + tokens
        )

    def done(self) -> dict[tuple[str, int], Weight]:
        return {kind: weight for kind, weight in self._found.items() if weight.requests}


def _require_fields(wishes: ReplayWishes) -> None:
    unknown = [name for name in wishes.where if name not in FIELDS]
    if unknown:
        what = f'entries of a trace cannot be chosen by "{unknown[0]}"'
        raise InputError(what, hint=f"By: {', '.join(FIELDS)}; * is a wildcard.")


def _fits(entry: Entry, wishes: ReplayWishes) -> bool:
    values = {"model": entry.model, "session": entry.session, "status": "success"}
    for name, patterns in wishes.where.items():
        if name == "class":
            value: str | None = class_of_entry(entry, texts_of(entry.body))
        else:
            value = values[name]
        if not any(fnmatchcase(value or "", pattern) for pattern in patterns):
            return False
    return True


def _grouped(wishes: ReplayWishes, index: Index, chosen: frozenset[int] | None) -> dict[int, list[Entry]]:
    grouped: dict[int, list[Entry]] = {}
    characters = 0
    without: list[int] = []
    for ordinal, entry in chosen_entries(wishes.path, index, chosen):
        if entry.text != "whole" and wishes.fill is None:
            without.append(entry.line)
            continue
        characters += sum(map(len, texts_of(entry.body).parts))
        if characters > MOST_CHARACTERS:
            hint = "Name a part of it: workload.sample, or harness workload convert --sample."
            raise InputError("the trace is more than can be replayed at a time", where=str(wishes.path), hint=hint)
        grouped.setdefault(ordinal, []).append(entry)
    if without:
        lines = ", ".join(map(str, without[:5])) + (", …" if len(without) > 5 else "")
        hint = "Name what fills them: no_text: {fill: CLASS}. Their acceptance is then that of a synthetic text."
        raise InputError(f"{len(without)} entries have no whole text (line {lines})", where=str(wishes.path), hint=hint)
    return grouped


def _conversation(number: int, kind: tuple[str, int], entries: Sequence[Entry], wishes: ReplayWishes) -> Conversation:
    workload_class, context_tokens = kind
    # By time where it is known; the order of the file decides between equals.
    ordered = sorted(entries, key=lambda entry: (entry.at_s is None, entry.at_s or 0.0))
    return Conversation(
        number=number,
        workload_class=_filled(workload_class, wishes),
        context_tokens=context_tokens,
        turns=tuple(_turn(number, entry) for entry in ordered),
    )


def _turn(number: int, entry: Entry) -> Turn:
    body = entry.body if entry.text == "whole" else None
    prompt = prompt_tokens(entry, texts_of(entry.body))
    return Turn(
        body=body,
        prompt_tokens=prompt,
        output_tokens=max(1, output_tokens(entry)),
        at_s=entry.at_s,
        blocks=entry.blocks,
        content=content_id(_plain(body) if body is not None else ["length", number, prompt, list(entry.blocks)]),
    )


def _plain(body: Any) -> Any:
    """Half a surrogate pair has no form in UTF-8, and a body may hold one."""
    try:
        content_id(body)
    except UnicodeEncodeError:
        return repr(body)
    return body


def _filled(workload_class: str, wishes: ReplayWishes) -> str:
    return workload_class if workload_class in CONTENT_CLASSES else wishes.fill or workload_class


def _split(conversations: Sequence[Conversation]) -> tuple[Conversation, ...]:
    return tuple(replace(each, turns=(turn,)) for each in conversations for turn in each.turns)


def _with_reuse(conversations: Sequence[Conversation]) -> tuple[Conversation, ...]:
    """Say of each turn how much of it a cache could know, cell by cell: another cell's prompts are salted otherwise."""
    known: dict[tuple[str, int], SharedPrefixes] = {}
    found = []
    for conversation in conversations:
        prefixes = known.setdefault(conversation.kind, SharedPrefixes(block=_BLOCK))
        turns = []
        former = 0
        for turn in conversation.turns:
            if turn.body is not None:
                entry = Entry(line=0, text="whole", body=turn.body)
                ratio = prefixes.share(entry, texts_of(turn.body))
            elif turn.blocks:
                ratio = prefixes.share(Entry(line=0, text="none", prompt_tokens=1, blocks=turn.blocks), texts_of({}))
            else:
                ratio = min(former, turn.prompt_tokens) / turn.prompt_tokens
            former = turn.prompt_tokens
            turns.append(replace(turn, reused_ratio=ratio))
        found.append(replace(conversation, turns=tuple(turns)))
    return tuple(found)


def typical(values: Sequence[float | None], default: float) -> float:
    """Return the median of what is known, else a default."""
    known = [value for value in values if value is not None]
    return float(median(known)) if known else default
