"""What is in a trace, in words and bars, for the terminal and a page. Counts and lengths only, never a text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.units import format_bytes, format_ratio, format_seconds, format_tokens
from harness.workload.inspection import Inspection, Spread

_BAR_WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_TEXT_WORDS = {"whole": "whole", "cut": "cut", "redacted": "redacted", "none": "none at all"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One line of a picture."""

    label: str
    value: str
    ratio: float  # of the longest one, 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what is below it."""

    title: str
    lines: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """At which an engine would work through a trace, one stream alone."""

    engine: str
    prefill_tokens_per_s: float
    decode_tokens_per_s: float


def workload_sections(found: Inspection, speed: Speed | None = None) -> tuple[Section, ...]:
    """Return what a trace holds, section by section."""
    return (
        Section(title=found.file, lines=_head(found)),
        _text(found),
        *(
            _lengths(title, spread)
            for title, spread in (
                ("Prompt tokens", found.prompt_tokens),
                ("Output tokens", found.output_tokens),
                ("Turns of a conversation", found.turns),
            )
            if spread is not None
        ),
        _classes(found),
        Section(title="Replaying it", lines=_cost(found, speed)),
        *([_unreplayable(found)] if found.unreplayable or found.out_of_order or found.too_long else []),
    )


def terminal_text(sections: Sequence[Section]) -> str:
    """Return sections as plain text."""
    lines: list[str] = []
    for section in sections:
        lines += ["", section.title, *(f"  {line}" for line in section.lines)]
        labels = max((len(bar.label) for bar in section.bars), default=0)
        values = max((len(bar.value) for bar in section.bars), default=0)
        lines += [
            f"  {bar.label:>{labels}}  {_drawn(bar.ratio):<{_BAR_WIDTH}}  {bar.value:>{values}}" for bar in section.bars
        ]
    return "\n".join(lines[1:])


def _drawn(ratio: float) -> str:
    eighths = round(ratio * _BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _head(found: Inspection) -> tuple[str, ...]:
    count = f"{found.sessions}" if found.sessions_are_complete else f"at least {found.sessions}"
    lines = [
        f"{found.describes} (format {found.format}), {format_bytes(found.bytes)}",
        f"{found.entries} entries in {count} conversations",
    ]
    if found.span_s is not None:
        part = "" if found.timed == found.replayable + found.lengths_only else f", known of {found.timed} entries"
        lines.append(f"sent over {format_seconds(found.span_s)}{part}")
    return tuple(lines)


def _text(found: Inspection) -> Section:
    taken = found.replayable + found.lengths_only
    bars = _bars([(_TEXT_WORDS[state], count) for state, count in found.by_text.items() if count], of=taken)
    if not found.lengths_only:
        return Section(title="Texts", bars=bars)
    advice = f"{found.lengths_only} entries are lengths: name what fills them (no_text: {{fill: CLASS}})"
    return Section(title="Texts", lines=(advice, "their acceptance is that of a synthetic text"), bars=bars)


def _lengths(title: str, spread: Spread) -> Section:
    quantiles = ", ".join(
        f"{name} {format_tokens(value)}"
        for name, value in (
            ("p10", spread.p10),
            ("median", spread.p50),
            ("p90", spread.p90),
            ("p99", spread.p99),
            ("longest", spread.most),
        )
    )
    bars = _bars([(f"to {format_tokens(end)}", count) for end, count in spread.by_power])
    return Section(title=title, lines=(quantiles,), bars=bars)


def _classes(found: Inspection) -> Section:
    rows = [
        (f"{share.workload_class}, to {format_tokens(share.context_tokens)}", share.requests) for share in found.shares
    ]
    return Section(
        title="Cells, by class and length of the prompt",
        bars=_bars(rows, of=found.replayable + found.lengths_only),
    )


def _bars(rows: Sequence[tuple[str, int]], *, of: int | None = None) -> tuple[Bar, ...]:
    most = max((count for _, count in rows), default=0)
    return tuple(
        Bar(label=label, value=f"{count} ({format_ratio(count / of)})" if of else str(count), ratio=count / most)
        for label, count in rows
    )


def _cost(found: Inspection, speed: Speed | None) -> tuple[str, ...]:
    prompt, output = found.prompt_tokens_in_all, found.output_tokens_in_all
    counted = "" if found.recorded_lengths else ", estimated from the size of the texts"
    lines = [
        f"{format_tokens(prompt)} prompt tokens{counted}, {format_tokens(output)} output tokens",
        f"{format_ratio(found.shared_prefix_ratio)} of the prompt tokens begin an earlier one, which a cache can reuse",
    ]
    if speed is not None:
        cold_s = prompt / speed.prefill_tokens_per_s + output / speed.decode_tokens_per_s
        new = prompt * (1 - found.shared_prefix_ratio)
        warm_s = new / speed.prefill_tokens_per_s + output / speed.decode_tokens_per_s
        lines.append(
            f"about {format_seconds(warm_s)} on {speed.engine}, one request after the other, "
            f"and {format_seconds(cold_s)} without reuse; a sample takes its share of it"
        )
    return tuple(lines)


def _unreplayable(found: Inspection) -> Section:
    rows = [(each.count, each.reason, each.lines) for each in found.unreplayable]
    lines = [f"{count} × {reason} ({_places(numbers, count)})" for count, reason, numbers in rows]
    if found.out_of_order:
        where = _places(found.out_of_order_lines, found.out_of_order)
        lines.append(f"{found.out_of_order} × sent before the entry above it ({where}): replayed in the order of time")
    if found.too_long and found.most_tokens is not None:
        where, limit = _places(found.too_long_lines, found.too_long), format_tokens(found.most_tokens)
        lines.append(f"{found.too_long} × longer than the {limit} tokens that the model takes ({where}): left out")
    return Section(title="Not replayable, or not as it stands", lines=tuple(lines))


def _places(numbers: tuple[int, ...], count: int) -> str:
    named = ", ".join(map(str, numbers))
    return f"line{'s' if count > 1 else ''} {named}{', …' if count > len(numbers) else ''}"
