"""What is in a trace, in one pass over it: counts, lengths, classes, and what cannot be replayed. Never a text."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.workload.classify import class_of_entry
from harness.workload.conversations import Conversations, SharedPrefixes
from harness.workload.sizes import bucket_of, output_tokens, prompt_tokens
from harness.workload.traces.chat import texts_of
from harness.workload.traces.entry import Entry, Skipped, TextState
from harness.workload.traces.read import AUTO, format_of, read_trace

_NAMED_LINES = 5
_MOST_SESSIONS = 400_000
_STATES: tuple[TextState, ...] = ("whole", "cut", "redacted", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The distribution of a length."""

    p10: int
    p50: int
    p90: int
    p99: int
    most: int
    by_power: tuple[tuple[int, int], ...]  # upper end of a bucket, a power of two, and how many fall into it


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreplayable:
    """Entries that cannot be replayed, for one reason."""

    reason: str
    count: int
    lines: tuple[int, ...]  # of the first few


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What part of a trace one content class and one length make."""

    workload_class: str
    context_tokens: int  # upper end of the bucket
    requests: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a trace holds."""

    file: str
    bytes: int
    format: str
    describes: str
    entries: int  # requests, those that cannot be replayed included
    replayable: int  # with their own text
    lengths_only: int  # to be filled from a class
    by_text: dict[str, int]
    sessions: int
    sessions_are_complete: bool  # False: there were too many to tell all apart
    turns: Spread | None
    prompt_tokens: Spread | None
    output_tokens: Spread | None
    recorded_lengths: int  # entries whose prompt tokens the trace tells; the others are estimates
    shares: tuple[Share, ...]
    shared_prefix_ratio: float  # of all prompt tokens: the beginning of an earlier prompt
    unreplayable: tuple[Unreplayable, ...]
    timed: int  # entries that say when they were sent
    out_of_order: int  # of them, earlier than the one before
    out_of_order_lines: tuple[int, ...]
    most_tokens: int | None  # that a model takes, prompt and answer together; None: nobody said
    too_long: int  # entries that it does not take
    too_long_lines: tuple[int, ...]
    span_s: float | None
    models: dict[str, int]

    @property
    def prompt_tokens_in_all(self) -> int:
        """Of all entries that can be replayed."""
        return sum(share.prompt_tokens for share in self.shares)

    @property
    def output_tokens_in_all(self) -> int:
        """Likewise."""
        return sum(share.output_tokens for share in self.shares)


def inspect_trace(
    path: Path,
    *,
    format_name: str = AUTO,
    most_tokens: int | None = None,
    on_entry: Callable[[int], None] | None = None,
) -> Inspection:
    """Return what a trace holds.

    Args:
        path: of the file.
        format_name: of the trace, or auto.
        most_tokens: that the model takes, prompt and answer together; None: not known.
        on_entry: told the number of entries now and then, for progress.

    Raises:
        InputError: the file cannot be read, or its format is not known.
    """
    chosen = format_of(path, format_name=format_name)
    counting = _Counting(most_tokens)
    for number, each in enumerate(read_trace(path, format_name=chosen.name), start=1):
        if isinstance(each, Skipped):
            counting.skip(each)
        else:
            counting.take(each)
        if on_entry is not None and number % 1000 == 0:
            on_entry(number)
    return counting.result(path, chosen.name, chosen.describes)


class _Counting:
    def __init__(self, most_tokens: int | None = None) -> None:
        self._most_tokens = most_tokens
        self._too_long: list[int] = []
        self._too_long_count = 0
        self._reasons: Counter[str] = Counter()
        self._lines: dict[str, list[int]] = {}
        self._by_text: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self._too_many_sessions = False
        self._prompts, self._outputs = array("I"), array("I")
        self._recorded = 0
        self._shares: dict[tuple[str, int], list[int]] = {}
        self._shared_tokens = 0.0
        self._conversations, self._prefixes = Conversations(), SharedPrefixes()
        self._models: Counter[str] = Counter()
        self._timed = 0
        self._first_s = self._last_s = self._former_s = None  # type: float | None
        self._disorder: list[int] = []
        self._disordered = 0

    def skip(self, skipped: Skipped) -> None:
        """Count an entry that cannot be replayed."""
        reason = skipped.reason.value
        self._reasons[reason] += 1
        lines = self._lines.setdefault(reason, [])
        if len(lines) < _NAMED_LINES:
            lines.append(skipped.line)

    def take(self, entry: Entry) -> None:
        """Count an entry that can be, with its text or by its length."""
        texts = texts_of(entry.body)
        prompt, output = prompt_tokens(entry, texts), output_tokens(entry)
        self._by_text[entry.text] += 1
        self._prompts.append(prompt)
        self._outputs.append(output)
        self._recorded += entry.prompt_tokens is not None
        self._shared_tokens += prompt * self._prefixes.share(entry, texts)
        self._models[entry.model or "unknown"] += 1
        share = self._shares.setdefault((class_of_entry(entry, texts), bucket_of(prompt)), [0, 0, 0])
        share[0] += 1
        share[1] += prompt
        share[2] += output
        self._take_session(entry)
        self._take_time(entry)
        if self._most_tokens is not None and prompt + output > self._most_tokens:
            self._too_long_count += 1
            if len(self._too_long) < _NAMED_LINES:
                self._too_long.append(entry.line)

    def _take_session(self, entry: Entry) -> None:
        name = self._conversations.name(entry)
        if name in self._turns or len(self._turns) < _MOST_SESSIONS:
            self._turns[name] += 1
        else:
            self._too_many_sessions = True

    def _take_time(self, entry: Entry) -> None:
        at_s = entry.at_s
        if at_s is None:
            return
        self._timed += 1
        if self._former_s is not None and at_s < self._former_s:
            self._disordered += 1
            if len(self._disorder) < _NAMED_LINES:
                self._disorder.append(entry.line)
        self._former_s = at_s
        self._first_s = at_s if self._first_s is None else min(self._first_s, at_s)
        self._last_s = at_s if self._last_s is None else max(self._last_s, at_s)

    def result(self, path: Path, format_name: str, describes: str) -> Inspection:
        """Return what was counted."""
        whole, tokens = self._by_text["whole"], sum(self._prompts)
        taken = len(self._prompts)
        return Inspection(
            file=path.name,
            bytes=path.stat().st_size,
            format=format_name,
            describes=describes,
            entries=taken + self._reasons.total(),
            replayable=whole,
            lengths_only=taken - whole,
            by_text={state: self._by_text[state] for state in _STATES},
            sessions=len(self._turns),
            sessions_are_complete=not self._too_many_sessions,
            turns=spread(self._turns.values()),
            prompt_tokens=spread(self._prompts),
            output_tokens=spread(self._outputs),
            recorded_lengths=self._recorded,
            shares=tuple(
                Share(workload_class=name, context_tokens=bucket, requests=n, prompt_tokens=p, output_tokens=o)
                for (name, bucket), (n, p, o) in sorted(self._shares.items())
            ),
            shared_prefix_ratio=self._shared_tokens / tokens if tokens else 0.0,
            unreplayable=tuple(
                Unreplayable(reason=reason, count=count, lines=tuple(self._lines[reason]))
                for reason, count in self._reasons.most_common()
            ),
            timed=self._timed,
            out_of_order=self._disordered,
            out_of_order_lines=tuple(self._disorder),
            most_tokens=self._most_tokens,
            too_long=self._too_long_count,
            too_long_lines=tuple(self._too_long),
            span_s=None if self._first_s is None or self._last_s is None else self._last_s - self._first_s,
            models=dict(self._models.most_common(10)),
        )


def spread(values: Iterable[int]) -> Spread | None:
    """Return the distribution of lengths, or None of nothing."""
    ordered = array("I", sorted(values))
    if not ordered:
        return None
    powers: Counter[int] = Counter()
    for value in ordered:
        powers[1 << max(0, value - 1).bit_length()] += 1

    def at(share: float) -> int:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return Spread(
        p10=at(0.1),
        p50=at(0.5),
        p90=at(0.9),
        p99=at(0.99),
        most=ordered[-1],
        by_power=tuple(sorted(powers.items())),
    )
