"""Accepted baselines as lines and a table: what is normal, who said so and why, and what an acceptance changes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from harness.records.acceptance import Acceptance, Acceptances
from harness.records.manifest import SIMULATED_MARK
from harness.records.night_series import HEADLINES, NightSeries, as_measured
from harness.records.nightly import Baseline
from harness.report.labels import counted
from harness.report.models import Column, Row, TableView
from harness.stats.baseline import too_few
from harness.units import MISSING, format_change, format_number, format_seconds


def accepted_lines(after: Acceptance, before: Acceptance | None) -> tuple[str, ...]:
    """Return what to say of an acceptance, against the one that it takes the place of."""
    baseline = after.baseline
    lines = [
        f"{_mark(baseline)}{baseline.name} is now {_nights(baseline)} of {baseline.sweep}, accepted by "
        f"{baseline.author}: {baseline.reason}",
        *_left_out(after),
    ]
    if before is None:
        lines += [f"{series.label}: {_shown(series, _median(baseline, name))}" for name, series in HEADLINES.items()]
    else:
        lines.append(_who(before.baseline, f"it takes the place of {_nights(before.baseline)}, accepted"))
        lines += [_moved(name, before.baseline, baseline) for name in HEADLINES]
        lines += _other_series(before, after)
    why = too_few(baseline)
    return (*lines, why) if why else tuple(lines)


def baseline_lines(found: Acceptances) -> tuple[str, ...]:
    """Return everything that the file of a baseline says."""
    now = found.current
    baseline = now.baseline
    lines = [
        f"{_mark(baseline)}{baseline.name}: {_nights(baseline)} of {baseline.sweep}",
        _who(baseline, "accepted"),
        *(f"{series.label}: {_shown(series, _median(baseline, name))}" for name, series in HEADLINES.items()),
        *(f"{name}: {value}" for name, value in {**now.identity, **now.facts}.items() if value),
        f"key: {baseline.key}",
        f"runs: {', '.join(baseline.run_ids)}",
        *_left_out(now),
    ]
    why = too_few(baseline)
    if why:
        lines.append(why)
    return (*lines, *(_who(one.baseline, f"before that {_nights(one.baseline)}, accepted") for one in found.earlier))


def baselines_table(every: Sequence[Acceptances]) -> TableView:
    """Return a row for each name."""
    return TableView(
        caption="Accepted baselines",
        columns=(
            Column(label="name", numeric=False),
            Column(label="sweep", numeric=False, spare=True),
            Column(label="nights"),
            *(Column(label=series.short) for series in HEADLINES.values()),
            Column(label="accepted", numeric=False),
            Column(label="by", numeric=False, detail=True),
            Column(label="reason", numeric=False, detail=True),
        ),
        rows=tuple(_row(found) for found in every),
        notes=(f"simulated_…: {SIMULATED_MARK}, of rehearsals",) if any(_is_simulated(one) for one in every) else (),
    )


def _row(found: Acceptances) -> Row:
    baseline = found.current.baseline
    figures = (_shown(series, _median(baseline, figure)) for figure, series in HEADLINES.items())
    nights = str(len(baseline.run_ids))
    day = baseline.accepted_at[:10]
    return Row(values=(baseline.name, baseline.sweep, nights, *figures, day, baseline.author, baseline.reason))


def _is_simulated(found: Acceptances) -> bool:
    return found.current.baseline.simulated


def _moved(figure: str, before: Baseline, after: Baseline) -> str:
    series = HEADLINES[figure]
    old, new = _median(before, figure), _median(after, figure)
    text = f"{series.label}: {_shown(series, old)} → {_shown(series, new)}"
    if old is None or new is None:
        return text
    word = "worse" if (new > old) == series.lower_is_better else "better"
    return f"{text} ({format_change(new / old)}{'' if new == old else f', {word}'})"


def _other_series(before: Acceptance, after: Acceptance) -> list[str]:
    """What the new nights are of, where they are of something else."""
    lines = []
    if before.baseline.sweep != after.baseline.sweep:
        lines.append(f"another sweep: {before.baseline.sweep} → {after.baseline.sweep}")
    if before.baseline.key == after.baseline.key:
        return lines
    names = dict.fromkeys((*before.identity, *after.identity))
    changed = [
        f"{name}: {before.identity.get(name) or MISSING} → {after.identity.get(name) or MISSING}"
        for name in names
        if before.identity.get(name) != after.identity.get(name)
    ]
    key = f"key: {before.baseline.key} → {after.baseline.key}"
    return [*lines, f"another series begins, since the nights are of something else: {'; '.join(changed) or key}"]


def _left_out(one: Acceptance) -> list[str]:
    return [f"left out: {run_id}: {why}" for run_id, why in one.left_out.items()]


def _who(baseline: Baseline, lead: str) -> str:
    return f"{lead} {baseline.accepted_at[:10]} by {baseline.author}: {baseline.reason}"


def _nights(baseline: Baseline) -> str:
    return counted(len(baseline.run_ids), "night")


def _median(baseline: Baseline, figure: str) -> float | None:
    values = baseline.values.get(figure, ())
    return as_measured(figure, median(values)) if values else None


def _shown(series: NightSeries, value: float | None) -> str:
    return format_seconds(value) if series.unit == "s" else format_number(value)


def _mark(baseline: Baseline) -> str:
    return f"{SIMULATED_MARK}: " if baseline.simulated else ""
