"""Prometheus text to samples, keyed by the exact sample name.

The family drops ``_total``, and each counter has a ``_created`` sibling that holds a time stamp: summing by prefix
adds dates to counts. So every lookup names one series.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from prometheus_client.parser import text_fd_to_metric_families

from harness.errors import EndpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line: its labels in any order, and its value."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposition:
    """Every sample of one scrape. A server may report several engines and models: totals run over all of them."""

    by_name: dict[str, tuple[Sample, ...]]
    where: str = "/metrics"

    def samples(self, name: str) -> tuple[Sample, ...]:
        """Return the samples of exactly this name; none if the server does not export it."""
        return self.by_name.get(name, ())

    def total(self, name: str) -> float | None:
        """Return the sum over all label sets; None if there is no such series."""
        values = [self._finite(name, sample) for sample in self.samples(name)]
        return sum(values) if values else None

    def highest(self, name: str) -> float | None:
        """Return the largest value over all label sets; None if there is no such series."""
        return max((self._finite(name, sample) for sample in self.samples(name)), default=None)

    def total_by(self, name: str, label: str) -> dict[str, float]:
        """Return the sum for each value of ``label``; samples without that label are left out."""
        totals: dict[str, float] = {}
        for sample in self.samples(name):
            if label in sample.labels:
                key = sample.labels[label]
                totals[key] = totals.get(key, 0.0) + self._finite(name, sample)
        return totals

    def _finite(self, name: str, sample: Sample) -> float:
        if not math.isfinite(sample.value):
            raise EndpointError(f"{name} is {sample.value}, which is no count", where=self.where)
        return sample.value


def parse(text: str, *, where: str = "/metrics") -> Exposition:
    """Return the samples of a scrape.

    Raises:
        EndpointError: a line is malformed; the message names its number and never quotes it.
    """
    # Not splitlines(), which also splits at U+2028 inside a label.
    all_lines = text.split("\n")
    plain = _plain_samples(all_lines)
    if plain is not None:
        return Exposition(by_name=plain, where=where)
    lines = _CountedLines(all_lines)
    by_name: dict[str, list[Sample]] = {}
    try:
        for family in text_fd_to_metric_families(lines):  # type: ignore[arg-type] # it only iterates over lines
            for sample in family.samples:
                by_name.setdefault(sample.name, []).append(Sample(labels=sample.labels, value=sample.value))
    except (ValueError, IndexError, KeyError) as error:
        raise EndpointError(
            f"line {lines.number} is not Prometheus text",
            where=where,
            hint="Is this the engine's own /metrics? A proxy or another program may answer at this address.",
        ) from _without_content(error)
    return Exposition(by_name={name: tuple(samples) for name, samples in by_name.items()}, where=where)


class _CountedLines:
    """Lines that remember how far the parser, which is lazy, has read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        for self.number, line in enumerate(self._lines, start=1):  # noqa: B020 - the position is the point
            yield line


_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*"'
_PLAIN_SAMPLE = re.compile(
    rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? ((-?[0-9]+)|-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
)
_PLAIN_COMMENT = re.compile(rf'# (?:HELP ({_NAME})(?: [^"\\]*)?|TYPE ({_NAME}) (counter|gauge|histogram|summary))')
_LABEL_PARTS = re.compile(r'([^=,]+)="([^"]*)"')


def _plain_samples(lines: Sequence[str]) -> dict[str, tuple[Sample, ...]] | None:
    """Return the samples of a page that holds nothing but lines of the plainest form; None for any other.

    The parser looks at every character, which takes it longer than all else that is done around a short trial. What
    is plain here means the same to it; what is not, it decides.
    """
    by_name: dict[str, list[Sample]] = {}
    for line in lines:
        sample = _PLAIN_SAMPLE.fullmatch(line)
        if sample is not None:
            labels = _plain_labels(sample[2])
            if labels is None:
                return None
            value = int(sample[4]) if sample[4] else float(sample[3])
            by_name.setdefault(sample[1], []).append(Sample(labels=dict(labels), value=value))
        elif line and not _is_plain_comment(line):
            return None
    return {name: tuple(samples) for name, samples in by_name.items()}


def _is_plain_comment(line: str) -> bool:
    comment = _PLAIN_COMMENT.fullmatch(line)
    # Without "_total" the parser renames the samples of a counter.
    return comment is not None and (comment[3] != "counter" or comment[2].endswith("_total"))


@lru_cache(maxsize=1024)
def _plain_labels(text: str | None) -> tuple[tuple[str, str], ...] | None:
    """In their order; None where a name is there twice, or is that of the metric."""
    pairs = tuple((name, value) for name, value in _LABEL_PARTS.findall(text or ""))
    names = {name for name, _ in pairs}
    return None if len(names) < len(pairs) or "__name__" in names else pairs


def _without_content(error: Exception) -> Exception:
    """The parser's own message quotes the line, which may hold anything."""
    return ValueError(type(error).__name__)
