"""Lines of ds4's log to what it says of its drafts and speeds. Pure; knows no generation of ds4, only key=value.

The stats line ends a session, and with it the process: a kill may cut it anywhere. A line that may be cut gives no
figure at all, since half a number looks like a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.records.speculation import SpeculationStats

PER_LAUNCH = "this engine counts drafts per launch, behind its confidence gate: see the launches"
_MARK = "DSpark stats"
_SECTION = re.compile(r"[a-z][a-z_]*_(ms|us|s)")  # a word before times: time_ms
_ITEM = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_HISTOGRAM = re.compile(r"\d+:\d+(?:,\d+:\d+)*")
_RATIOS = ("accept_rate", "avg_accept")
_SECONDS = {"ms": 1e-3, "us": 1e-6, "s": 1.0}
_RATE = re.compile(r"\b(prefill|generation): ([\d.]+) t/s")
_DECODING = re.compile(r"\bgen=(\d+)\b.*\bdecoding\b.*\bavg=([\d.]+) t/s")
_OFF_RATIO = 0.006  # accept_rate is printed in percent with two decimals, older builds with fewer


def read_session_stats(lines: Sequence[str], *, asked: bool, whole: bool = True) -> SpeculationStats:
    """Return what a log says of its drafts and speeds.

    Args:
        lines: of one launch's log, from its start.
        asked: whether drafts were asked for.
        whole: False where the last line does not end with a newline.
    """
    read = [_read(block) for block in _blocks(lines, whole=whole)]
    good = [stats for stats in read if stats.cut_because is None]
    because = next((stats.cut_because for stats in read if stats.cut_because is not None), None)
    if not read and asked:
        because = "the log has no line of DSpark stats: the engine was killed before its session ended, or prints none"
    rates = {"prefill": _rates(lines, "prefill"), "generation": _rates(lines, "generation") or _decoding_rates(lines)}
    return SpeculationStats(
        asked=asked,
        lines=0 if because else len(good),
        counts={} if because else _summed(stats.counts for stats in good),
        times_s={} if because else _summed(stats.times_s for stats in good),
        ratios=good[0].ratios if len(good) == 1 and not because else {},
        histograms=good[0].histograms if len(good) == 1 and not because else {},
        absent_because=because,
        prefill_tokens_per_s=rates["prefill"],
        generation_tokens_per_s=rates["generation"],
    )


@dataclass(slots=True)
class _Stats:
    """One stats line, and why it cannot be used."""

    counts: dict[str, float] = field(default_factory=dict)
    times_s: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, str] = field(default_factory=dict)
    cut_because: str | None = None


@dataclass(frozen=True, slots=True)
class _Block:
    words: list[str]
    whole: bool


def _blocks(lines: Sequence[str], *, whole: bool) -> Iterator[_Block]:
    """Each stats line with the lines that it was wrapped into."""
    for number, line in enumerate(lines):
        _, mark, rest = line.partition(_MARK)
        if not mark:
            continue
        last, words = number, rest.split()
        while last + 1 < len(lines) and _continues(lines[last + 1]):
            last += 1
            words += lines[last].split()
        yield _Block(words, whole=whole or last < len(lines) - 1)


def _continues(line: str) -> bool:
    words = line.split()
    return bool(words) and all(_ITEM.fullmatch(word) or _SECTION.fullmatch(word) for word in words)


def _read(block: _Block) -> _Stats:
    stats, scale, former = _Stats(), 0.0, "its beginning"
    for word in block.words:
        if section := _SECTION.fullmatch(word):
            scale = _SECONDS[section[1]]
            continue
        item = _ITEM.fullmatch(word)
        if item is None or not _take(stats, item[1], item[2], scale):
            stats.cut_because = f"the line of DSpark stats is cut or mixed with another one behind {former}"
            return stats
        former = item[1]
    if not block.whole:
        stats.cut_because = f"the line of DSpark stats is cut: the log ends within it, behind {former}"
    elif not stats.counts and not stats.ratios:
        stats.cut_because = "the line of DSpark stats is cut: it holds no count"
    elif _contradicts_itself(stats):
        stats.cut_because = "the line of DSpark stats contradicts itself: accept_rate is not accepted / proposed"
    return stats


def _take(stats: _Stats, name: str, text: str, scale: float) -> bool:
    """Put one item where it belongs. False where its value cannot be whole."""
    if _HISTOGRAM.fullmatch(text):
        stats.histograms[name] = text
        return True
    number = _NUMBER.fullmatch(text.removesuffix("%"))
    if number is None or (name == "accept_rate") != text.endswith("%"):
        return False
    value = float(number[0])
    if not math.isfinite(value):
        return False
    if name in _RATIOS:
        stats.ratios[name] = value / 100 if text.endswith("%") else value
    elif scale:
        stats.times_s[name] = value * scale
    else:
        stats.counts[name] = value
    return True


def _contradicts_itself(stats: _Stats) -> bool:
    proposed, accepted = stats.counts.get("proposed"), stats.counts.get("accepted_draft")
    said = stats.ratios.get("accept_rate")
    if proposed is None or accepted is None:
        return False
    if accepted > proposed:
        return True
    return said is not None and proposed > 0 and abs(accepted / proposed - said) > _OFF_RATIO


def _summed(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total


def _rates(lines: Sequence[str], kind: str) -> tuple[float, ...]:
    found = (match for line in lines for match in _RATE.finditer(line) if match[1] == kind)
    return tuple(rate for match in found if (rate := _finite(match[2])) is not None)


def _decoding_rates(lines: Sequence[str]) -> tuple[float, ...]:
    """The server reports a running average while it decodes: the last one of each answer is the answer's."""
    rates: list[float] = []
    former = math.inf
    for line in lines:
        if (match := _DECODING.search(line)) and (rate := _finite(match[2])) is not None:
            made = int(match[1])
            if made > former and rates:
                rates[-1] = rate
            else:
                rates.append(rate)
            former = made
    return tuple(rates)


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
