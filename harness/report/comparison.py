"""A comparison as text and tables: the verdict first, then what explains it, then how far it can be trusted."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from dataclasses import replace
from statistics import fmean

from harness.records.noise import StoredNoise
from harness.records.verdict import Arm, CellVerdict, Comparison, Effect, Verdict
from harness.report.comparison_words import (
    change,
    explained,
    interval,
    noise_words,
    price_words,
    result_words,
    visible_words,
)
from harness.report.facts import RunFacts
from harness.report.labels import Labels, counted, load_order, streams
from harness.report.models import (
    Column,
    ComparisonView,
    DoubtCase,
    ForestRow,
    ForestView,
    Headline,
    NextStep,
    Row,
    TableView,
)
from harness.stats.floor import noise_rows
from harness.stats.power import MOST_LAUNCHES, launches_for_no_difference, launches_to_see
from harness.units import MISSING, format_number, format_rate, format_ratio, format_seconds, format_tokens

_EXPLAINS = ("decode_tokens_per_s", "delivered_per_step", "step_s", "ttft_s")
_LABELS = {
    "decode_tokens_per_s": "decode speed",
    "delivered_per_step": "tokens per step",
    "step_s": "step speed",
    "ttft_s": "first token",
    "worst_stream_tokens_per_s": "worst stream",
    "prefill_tokens_per_s": "prefill",
}
_RUN_OPTIONS = ("--resume", "--launches")


def decided_words(comparison: Comparison) -> str | None:
    """Return why no more launches are needed, or None while the verdict may still change."""
    if not comparison.looks or comparison.looks[-1].verdict == "cannot tell":
        return None
    look = comparison.looks[-1]
    return (
        f"{_standing(look.verdict)} after {counted(look.launches, 'launch', 'launches')} of each arm "
        f"({change(look.effect)}): no more launches are needed"
    )


def named(comparison: Comparison, labels: Labels) -> Comparison:
    """Return the comparison with arms called as on the rest of the page."""
    tails = (" (A)", " (B)") if comparison.same else ("", "")
    base, candidate = (
        replace(arm, name=(arm.configuration.name or labels.configuration(arm.configuration)) + tail)
        for arm, tail in zip((comparison.base, comparison.candidate), tails, strict=True)
    )
    return replace(comparison, base=base, candidate=candidate)


def comparison_headline(comparison: Comparison, facts: RunFacts) -> Headline:
    """Return the verdict as the first thing that a report says."""
    lines = [
        explained(comparison),
        *price_words(comparison),
        _cells_words(comparison),
        _looks_words(comparison),
        noise_words(comparison),
        visible_words(comparison),
        _naive_words(comparison),
        *(one.sentence for one in comparison.sameness),
        _doubt_words(comparison),
    ]
    return Headline(
        standing="verdict",
        result=result_words(comparison),
        qualifications=tuple(line for line in lines if line),
        next_step=_next_step(comparison, facts),
    )


def comparison_view(comparison: Comparison, labels: Labels, noise: StoredNoise | None = None) -> ComparisonView:
    """Return tables and figure of a comparison; ``noise`` is what an A/A found."""
    ordered = sorted(comparison.cells, key=lambda cell: load_order(cell.load))
    return ComparisonView(
        verdict=comparison.verdict,
        same=comparison.same,
        cells=_cells_table(comparison, ordered, labels),
        parts=_parts_table(comparison),
        looks=_looks_table(comparison),
        noise=_noise_table(noise, simulated=comparison.simulated) if noise else None,
        effects=_forest(comparison, ordered, labels),
        doubts=tuple(
            DoubtCase(where=doubt.kind.replace("_", " "), evidence=f"{doubt.evidence}. {doubt.remedy}")
            for doubt in comparison.doubts
        ),
        broken_limits=tuple(
            f"{one.arm}: {one.limit} is {format_number(one.value)}, {one.bound} was asked ({labels.load(one.load)})"
            for one in comparison.broken_limits
        ),
    )


def _standing(verdict: Verdict) -> str:
    return {
        "better": "the candidate is better",
        "worse": "the candidate is worse",
        "no difference": "there is no difference within the margin",
        "cannot tell": "nobody can tell",
    }[verdict]


def _cells_table(comparison: Comparison, cells: list[CellVerdict], labels: Labels) -> TableView:
    weighted = len({round(cell.weight, 9) for cell in cells}) > 1
    columns = [
        Column(label="load", numeric=False),
        *([Column(label="weight", detail=True)] if weighted else []),
        Column(label="verdict", numeric=False),
        Column(label="effect"),
        Column(label="interval"),
        Column(label=comparison.base.name),
        Column(label=comparison.candidate.name),
        *(Column(label=_LABELS[name], detail=name != "decode_tokens_per_s") for name in _EXPLAINS),
        Column(label="can show", spare=True),
    ]
    rows = [_cell_row(comparison, cell, labels, weighted=weighted) for cell in cells]
    what = "seconds of a request" if comparison.objective == "seconds" else comparison.objective
    return TableView(
        caption=f"{comparison.candidate.name} against {comparison.base.name}, cell by cell",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(
            f"effect: on {what}, above 0 is better; better and worse only where a false-discovery rate of 5 % over "
            "all cells allows it",
            "decode speed = tokens per step × step speed; can show: the smallest gain that 80 of 100 comparisons like "
            "this one find",
        ),
        simulated=comparison.simulated,
    )


def _cell_row(comparison: Comparison, cell: CellVerdict, labels: Labels, *, weighted: bool) -> Row:
    parts = {part.metric: part for part in cell.parts}
    values = [
        labels.load(cell.load),
        *([format_ratio(cell.weight)] if weighted else []),
        cell.verdict,
        change(cell.seconds.effect),
        interval(cell.seconds.effect),
        _value(comparison.objective, cell.seconds.base),
        _value(comparison.objective, cell.seconds.candidate),
        *(change(parts[name].effect) if name in parts else MISSING for name in _EXPLAINS),
        MISSING if cell.smallest_visible_ratio is None else format_ratio(cell.smallest_visible_ratio),
    ]
    return Row(values=tuple(values), emphasis=False)


def _value(objective: str, value: float | None) -> str:
    if value is None:
        return MISSING
    return format_seconds(value) if objective == "seconds" or objective.endswith("_s") else format_rate(value)


def _parts_table(comparison: Comparison) -> TableView:
    rows = [
        Row(
            values=(
                _LABELS.get(part.metric, part.metric),
                change(part.effect),
                interval(part.effect),
                part.null_reason or "",
            )
        )
        for part in comparison.overall
    ]
    return TableView(
        caption="What the effect is made of, over the whole workload",
        columns=(
            Column(label="figure", numeric=False),
            Column(label="effect"),
            Column(label="interval"),
            Column(label="why not", numeric=False),
        ),
        rows=tuple(rows),
        notes=("above 0 is better in every row: a step speed of -10 % is a step that takes 11 % longer",),
        simulated=comparison.simulated,
    )


def _looks_table(comparison: Comparison) -> TableView | None:
    if not comparison.looks:
        return None
    rows = [
        Row(values=(str(look.launches), look.verdict, change(look.effect), interval(look.effect)))
        for look in comparison.looks
    ]
    return TableView(
        caption="The verdict after each block of launches",
        columns=(
            Column(label="launches of each arm"),
            Column(label="verdict", numeric=False),
            Column(label="effect"),
            Column(label="interval"),
        ),
        rows=tuple(rows),
        notes=("intervals of early looks are wider, so that all looks together raise a false alarm in 5 %",),
        simulated=comparison.simulated,
    )


def _forest(comparison: Comparison, cells: list[CellVerdict], labels: Labels) -> ForestView:
    rows = [_forest_row("whole workload", comparison.effect, comparison.verdict, whole=True)]
    rows += [_forest_row(labels.load(cell.load), cell.seconds.effect, cell.verdict) for cell in cells]
    known = tuple(row for row in rows if row is not None)
    return ForestView(
        name="effects",
        title="Effect by cell",
        caption="Points are estimates, bars 95 % intervals; within the grey band a difference does not matter.",
        rows=known,
        margin_ratio=comparison.margin_ratio,
        x_label=f"{comparison.candidate.name} against {comparison.base.name}, % (right is better)",
        simulated=comparison.simulated,
        absent_because=None if known else comparison.null_reason or "no cell has an effect",
    )


def _forest_row(label: str, effect: Effect | None, verdict: Verdict, *, whole: bool = False) -> ForestRow | None:
    if effect is None:
        return None
    return ForestRow(
        label=label,
        estimate=math.expm1(effect.log_ratio),
        low=math.expm1(effect.low),
        high=math.expm1(effect.high),
        verdict=verdict,
        whole=whole,
    )


def _noise_table(noise: StoredNoise, *, simulated: bool) -> TableView:
    rows = [Row(values=("whole workload", format_ratio(noise.total_sigma_ratio), MISSING, str(noise.launches)))]
    rows += [
        Row(
            values=(
                f"{format_tokens(cell.context_tokens)} tokens · {streams(cell.concurrency)}",
                format_ratio(cell.between_sigma_ratio),
                MISSING if cell.within_sigma_ratio is None else format_ratio(cell.within_sigma_ratio),
                f"{cell.degrees + 1:.0f}",
            )
        )
        for cell in noise_rows(noise, noise.objective)
    ]
    return TableView(
        caption=f"The noise floor of this rig, measured on {noise.configuration}",
        columns=(
            Column(label="load", numeric=False),
            Column(label="between launches"),
            Column(label="a request within one"),
            Column(label="launches"),
        ),
        rows=tuple(rows),
        notes=("standard deviations; between launches: of a launch's mean over its prompts",),
        simulated=simulated,
    )


def _cells_words(comparison: Comparison) -> str:
    if len(comparison.cells) < 2 or comparison.same:
        return ""
    counts = Counter(cell.verdict for cell in comparison.cells)
    listed = ", ".join(f"{verdict} in {counts[verdict]}" for verdict in _ORDER if counts[verdict])
    return f"Of {len(comparison.cells)} cells: {listed}."


_ORDER: tuple[Verdict, ...] = ("better", "worse", "no difference", "cannot tell")


def _looks_words(comparison: Comparison) -> str:
    if comparison.same or comparison.effect is None:
        return ""
    base, candidate = comparison.effect.launches
    each = counted(base, "launch", "launches") + (" of each arm" if base == candidate else f" against {candidate}")
    if comparison.verdict != "cannot tell" and comparison.max_launches and comparison.max_launches > base:
        return f"It took {each}; up to {comparison.max_launches} were allowed."
    return f"It rests on {each}."


def _naive_words(comparison: Comparison) -> str:
    if comparison.naive_ratio is None or comparison.same:
        return ""
    return f"One launch of each arm and a plain mean would have said {_signed(comparison.naive_ratio)}."


def _doubt_words(comparison: Comparison) -> str:
    doubtful = sum(1 for cell in comparison.cells if cell.doubts)
    words = []
    if doubtful:
        words.append(f"{doubtful} of {counted(len(comparison.cells), 'cell')} carry doubts")
    words += [doubt.evidence for doubt in comparison.doubts if doubt.kind != "noise_assumed"]
    return "; ".join(words)[:1].upper() + "; ".join(words)[1:] + "." if words else ""


def _signed(ratio: float) -> str:
    return change(None) if ratio <= 0 else f"{(ratio - 1) * 100:+.1f} %"


def _next_step(comparison: Comparison, facts: RunFacts) -> NextStep | None:
    """After "cannot tell": how many launches would do, as a command. Looking again at the same run would cheat."""
    if comparison.same or comparison.verdict != "cannot tell" or comparison.vetoes:
        return None
    if facts.plan.comparison is None:
        return _alternating_step(comparison, facts)
    effect, manifest = comparison.effect, facts.manifest
    round_s = _round_s(facts)
    if effect is None:
        because, command = "The run is not complete.", [*_plain(manifest.command), "--resume", manifest.run_id]
        return NextStep(because=because, command=shlex.join(command), time=format_seconds(facts.plan.predicted_s))
    done, planned = min(effect.launches), comparison.max_launches or 0
    if done < planned:
        command = [*_plain(manifest.command), "--resume", manifest.run_id]
        left_s = (planned - done) * round_s
        return NextStep(
            because=f"Up to {planned} launches of each arm are allowed.",
            command=shlex.join(command),
            time=format_seconds(left_s),
        )
    wanted = _launches_wanted(comparison, effect)
    if wanted is None:
        return None
    return NextStep(
        because=f"About {wanted} launches of each arm would tell; they have to be new ones.",
        command=shlex.join([*_plain(manifest.command), "--launches", str(wanted)]),
        time=format_seconds(wanted * round_s),
    )


def _alternating_step(comparison: Comparison, facts: RunFacts) -> NextStep | None:
    """Of stored runs: `ab` on the same file, where both sides come from one and differ in knobs."""
    files = [word for word in facts.manifest.command if word.endswith((".yaml", ".yml"))]
    wanted = _launches_wanted(comparison, comparison.effect) if comparison.effect else None
    if not files or wanted is None or comparison.factors in (("run",), ("engine",)):
        return None
    command = ["harness", "ab", files[0], *_arm_words("--base", comparison.base)]
    command += [*_arm_words("--candidate", comparison.candidate), "--launches", str(wanted)]
    return NextStep(
        because=f"About {wanted} launches of each arm, in turn, would tell.",
        command=shlex.join(command),
        time=format_seconds(wanted * _round_s(facts)),
    )


def _arm_words(option: str, arm: Arm) -> list[str]:
    if arm.configuration.name is not None:
        return [option, arm.configuration.name]
    return [option, " ".join(f"{name}={value}" for name, value in sorted(arm.configuration.knobs.items()))]


def _launches_wanted(comparison: Comparison, effect: Effect) -> int | None:
    floor = replace(effect.noise, degrees=max(effect.noise.degrees, 1.0))
    size = abs(math.expm1(effect.log_ratio))
    if size > comparison.margin_ratio:
        found = launches_to_see(size, floor, margin_ratio=comparison.margin_ratio)
    else:
        found = launches_for_no_difference(floor, margin_ratio=comparison.margin_ratio)
    if found is None or found > MOST_LAUNCHES:
        return None
    return max(found + found % 2, min(effect.launches) + 2)


def _round_s(facts: RunFacts) -> float:
    """A launch of each arm, as they took."""
    took = [launch.total_s for launch in facts.launches if launch.outcome == "measured" and launch.total_s]
    return 2 * fmean(took) if took else 0.0


def _plain(command: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    skip = False
    for argument in command:
        if skip and not argument.startswith("-"):
            skip = False
            continue
        skip = argument in _RUN_OPTIONS
        if not skip and not argument.startswith(tuple(f"{option}=" for option in _RUN_OPTIONS)):
            kept.append(argument)
    return kept
