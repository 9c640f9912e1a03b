"""A night of a regression run as text, tables and a picture: the verdict first, then what it rests on. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from harness.records.nightly import Baseline, NightVerdict
from harness.report.labels import counted
from harness.report.models import Column, Fact, Headline, NextStep, NightView, Row, TableView, Tone
from harness.report.night_beside import beside_table, beside_words
from harness.report.night_series import nights_picture, spark
from harness.report.night_words import belief, is_news, launches_words, limit_words, moved_figures, percent
from harness.stats.morning import WORDS, Figure, Morning
from harness.stats.paired import SECONDS
from harness.units import MISSING, format_number, format_seconds

SPARK_NIGHTS = 30
_SPEED_NOTE = "speed counts the whole workload, first token included; it is shown as the seconds of a request"
_BADGES: dict[NightVerdict, tuple[str, Tone]] = {
    "fine": ("Fine", "good"),
    "improved": ("Improved", "good"),
    "regressed": ("Regressed", "bad"),
    "doubtful": ("Doubtful, not judged", "doubt"),
    "no baseline": ("No baseline yet", "plain"),
}


def night_view(mornings: Sequence[tuple[str, Morning]], baseline: Baseline | None = None) -> NightView | None:
    """Return what is said of a night: of the first configuration, which decides, with the others below it.

    None where there is no morning.

    Args:
        mornings: configurations, with what is said of them.
        baseline: that the first was held against.
    """
    views = [
        _view(label, morning, None if number else baseline, number) for number, (label, morning) in enumerate(mornings)
    ]
    return replace(views[0], watched=tuple(views[1:])) if views else None


def night_headline(view: NightView, next_step: NextStep | None) -> Headline:
    """Return the night's sentence as the first thing that a report says."""
    watched = tuple(
        f"Watched, does not gate: {one.configuration}: {one.sentence}" for one in view.watched if one.has_news
    )
    said = (*view.reasons, *view.differences, *watched)
    return Headline(standing="verdict", result=view.sentence, qualifications=said, next_step=next_step)


def with_sparks(view: NightView) -> TableView:
    """Return the table of the series with the last nights as bars, for where there is no picture."""
    if not any(view.sparks):
        return view.series
    columns = (*view.series.columns, Column(label=f"last {SPARK_NIGHTS} nights", numeric=False, spare=True))
    rows = tuple(
        replace(row, values=(*row.values, bars)) for row, bars in zip(view.series.rows, view.sparks, strict=True)
    )
    return replace(view.series, columns=columns, rows=rows)


def _view(label: str, morning: Morning, baseline: Baseline | None, number: int) -> NightView:
    badge, tone = _BADGES[morning.verdict]
    day = morning.night.at[:10]
    return NightView(
        configuration=label,
        badge=f"Night of {day} · {badge}",
        tone=tone,
        has_news=is_news(morning),
        sentence=_sentence(morning.sentence),
        reasons=tuple(_sentence(line) for line in (morning.cause, belief(morning)) if line),
        differences=_differences(morning),
        series=_series_table(morning),
        sparks=tuple(spark(one, morning, SPARK_NIGHTS) for one in morning.figures),
        beside=beside_table(morning),
        beside_words=beside_words(morning),
        notes=tuple(_sentence(note) for note in morning.notes),
        baseline=_baseline_facts(morning, baseline),
        picture=nights_picture(f"nights-{number}" if number else "nights", f"Nights up to {day}", morning),
    )


def _differences(morning: Morning) -> tuple[str, ...]:
    if not morning.differences:
        return ()
    across = "across the change" if moved_figures(morning) else "since the night before"
    return (f"What differs {across}: {'; '.join(morning.differences)}",)


def _series_table(morning: Morning) -> TableView:
    launches = launches_words(morning)
    return TableView(
        caption="The three series that are judged (a plus is better)",
        columns=(
            Column(label="series", numeric=False),
            Column(label="tonight"),
            Column(label="baseline"),
            Column(label="vs baseline"),
            Column(label="limit"),
            Column(label="since"),
            Column(label="found by", numeric=False, detail=True),
        ),
        rows=tuple(_series_row(one, morning) for one in morning.figures),
        notes=(
            "speed counts the whole workload, first token included; it is shown as the seconds of a request",
            *((launches,) if launches else ()),
        ),
        simulated=morning.night.simulated,
    )


def _series_row(one: Figure, morning: Morning) -> Row:
    return Row(
        values=(
            WORDS.get(one.name, one.name),
            _physical(one.name, one.value),
            _physical(one.name, one.baseline.center if one.baseline else None),
            percent(one.log_ratio),
            limit_words(one),
            one.since or MISSING,
            _found_by(one, morning),
        ),
        void=one.value is None,
    )


def _physical(name: str, value: float | None) -> str:
    """The figure as it is measured: seconds of a request, tokens per step, steps per second."""
    if value is None:
        return MISSING
    return format_seconds(math.exp(-value)) if name == SECONDS else format_number(math.exp(value))


def _found_by(one: Figure, morning: Morning) -> str:
    change = f"change point {percent(one.change.log_ratio)}" if one.change else ""
    if one.value is None:
        return "not measured"
    if morning.verdict == "doubtful" and not one.tripped:
        return change or "not judged"
    gate = "gate" if one.regressed or one.improved else "gate, one launch" if one.tripped or one.risen else ""
    return " and ".join(part for part in (gate, change) if part) or "nothing moved"


def _baseline_facts(morning: Morning, baseline: Baseline | None) -> tuple[Fact, ...]:
    earlier = counted(morning.history, "night")
    facts = [Fact(name="history", value=f"{earlier} of this series before this one that count")]
    doubtful = sum(not point.counts for point in next(iter(morning.series.values()), ()))
    if doubtful:
        facts.append(Fact(name="doubtful nights", value=f"{doubtful}, which judge none"))
    if baseline is None:
        return (*facts, Fact(name="baseline", value="none is accepted: only the history judges"))
    if not any(one.baseline for one in morning.figures):
        return (*facts, Fact(name="baseline", value=f"{baseline.name} does not judge this night: see the notes"))
    nights = counted(len(baseline.run_ids), "night")
    accepted = f"{baseline.name}: {nights}, accepted {baseline.accepted_at[:10]} by {baseline.author}"
    return (*facts, Fact(name="baseline", value=f"{accepted}: {baseline.reason}"))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
