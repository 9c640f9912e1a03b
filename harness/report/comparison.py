"""A comparison as text and tables: the verdict first, then what explains it, then how far it can be trusted."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from dataclasses import replace
from statistics import fmean

from harness.records.cell import NUM_SPECULATIVE_TOKENS
from harness.records.noise import StoredNoise
from harness.records.verdict import Arm, Comparison, Effect, Verdict
from harness.report.comparison_tables import (
    cell_parts_table,
    cells_table,
    forest,
    looks_table,
    noise_table,
    parts_table,
)
from harness.report.comparison_words import (
    change,
    explained,
    noise_words,
    price_words,
    result_words,
    spread_words,
    visible_words,
)
from harness.report.facts import RunFacts
from harness.report.labels import ONLY_ONE, Labels, counted, load_order
from harness.report.models import ComparisonView, DoubtCase, Headline, NextStep
from harness.stats.power import MOST_LAUNCHES, launches_for_no_difference, launches_to_see
from harness.stats.verdict import verdict_of
from harness.units import format_number, format_seconds

_RUN_OPTIONS = ("--resume", "--launches")
_SURE = 2.8  # standard errors of an effect that is found in 80 of 100 comparisons (1.96 + 0.84)
_MOST_TIMES = 20
_STEADIER = 4  # times as many prompts halve what requests add to a launch's mean


def decided_words(comparison: Comparison) -> str | None:
    """Return why no more launches are needed, or None while the verdict may still change."""
    if not comparison.looks or comparison.effect is None:
        return None
    look, now = comparison.looks[-1], verdict_of(comparison.effect, comparison.margin_ratio)
    if look.verdict == "cannot tell" or look.verdict != now:
        return None
    return (
        f"{_standing(look.verdict)} after {counted(look.launches, 'launch', 'launches')} of each arm "
        f"({change(look.effect)}): no more launches are needed"
    )


def named(comparison: Comparison, labels: Labels) -> Comparison:
    """Return the comparison with arms called as on the rest of the page."""
    tails = (" (A)", " (B)") if comparison.same else ("", "")
    base, candidate = (
        replace(arm, name=_arm_name(arm, comparison.factors, labels) + tail)
        for arm, tail in zip((comparison.base, comparison.candidate), tails, strict=True)
    )
    return replace(comparison, base=base, candidate=candidate)


def _arm_name(arm: Arm, factors: tuple[str, ...], labels: Labels) -> str:
    """By the name of the sweep, else as on the rest of the page, else by what makes it the other arm."""
    knobs = arm.configuration.knobs
    label = arm.configuration.name or labels.configuration(arm.configuration)
    if arm.configuration.name is not None:
        return label
    others = [f"{name}={knobs[name]}" for name in factors if name in knobs and name != NUM_SPECULATIVE_TOKENS]
    unsaid = [words for words in others if words not in label]
    return ", ".join([*([] if label == ONLY_ONE and unsaid else [label]), *unsaid])


def comparison_headline(comparison: Comparison, facts: RunFacts) -> Headline:
    """Return the verdict as the first thing that a report says."""
    lines = [
        spread_words(comparison, facts.noise),
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
        standing="measured" if comparison.same else "verdict",
        result=result_words(comparison, facts.noise),
        qualifications=tuple(line for line in lines if line),
        next_step=_next_step(comparison, facts),
    )


def comparison_view(comparison: Comparison, labels: Labels, noise: StoredNoise | None = None) -> ComparisonView:
    """Return tables and figure of a comparison; ``noise`` is what an A/A found."""
    ordered = sorted(comparison.cells, key=lambda cell: load_order(cell.load))
    return ComparisonView(
        verdict=comparison.verdict,
        same=comparison.same,
        cells=cells_table(comparison, ordered, labels),
        cell_parts=cell_parts_table(comparison, ordered, labels),
        parts=parts_table(comparison),
        looks=looks_table(comparison),
        noise=noise_table(comparison, noise) if noise else None,
        effects=forest(comparison, ordered, labels),
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
        carry = "carries" if doubtful == 1 else "carry"
        words.append(f"{doubtful} of {counted(len(comparison.cells), 'cell')} {carry} doubts")
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
        command = _resumed(manifest.command, manifest.run_id)
        time = format_seconds(facts.plan.predicted_s)
        return NextStep(because="The run is not complete.", command=command, time=time)
    done, planned = min(effect.launches), comparison.max_launches or 0
    if done < planned:
        return NextStep(
            because=f"Up to {planned} launches of each arm are allowed.",
            command=_resumed(manifest.command, manifest.run_id),
            time=format_seconds((planned - done) * round_s),
        )
    if _prompts_share(effect) > 1 / 2:
        return _more_prompts(comparison, effect, facts)
    wanted = _launches_wanted(comparison, effect)
    if wanted is None:
        because = f"At this noise {MOST_LAUNCHES} launches of each arm would not tell; more prompts make each of them "
        return _prompts_step(because + "steadier, and a wider `margin` asks for less.", comparison, facts, _STEADIER)
    return NextStep(
        because=f"About {wanted} launches of each arm would tell; they have to be new ones.",
        command=shlex.join([*_plain(manifest.command), "--launches", str(wanted)]),
        time=format_seconds(wanted * round_s),
    )


def _launch_variance(effect: Effect) -> float:
    return effect.noise.sigma_ratio**2 * sum(1 / count for count in effect.launches)


def _prompts_share(effect: Effect) -> float:
    """The part of the variance that more launches would leave as it is: the effect differs from prompt to prompt."""
    return max(0.0, 1 - _launch_variance(effect) / effect.se**2) if effect.se else 0.0


def _more_prompts(comparison: Comparison, effect: Effect, facts: RunFacts) -> NextStep:
    """A run with as many launches and so many more prompts that the effect, or the margin, would be seen."""
    goal = max(abs(effect.log_ratio), math.log1p(comparison.margin_ratio)) / _SURE
    room = max(goal**2 - _launch_variance(effect), (goal / 2) ** 2)
    times = min(max(2, math.ceil(_prompts_share(effect) * effect.se**2 / room)), _MOST_TIMES)
    because = (
        "The effect differs from prompt to prompt more than launches do: about {} times as many prompts would tell."
    )
    return _prompts_step(because.format(times), comparison, facts, times)


def _prompts_step(because: str, comparison: Comparison, facts: RunFacts, times: int) -> NextStep:
    """A new run with as many launches of ``times`` as many prompts."""
    launches = max(len(comparison.base.launch_ids), 1)
    sessions = sum(cell.load.recorded.conversations for cell in comparison.cells if cell.load.recorded)
    more = (
        f"workload.sample.sessions={sessions * times}"
        if sessions
        else f"repeat.drafts={facts.plan.drafts_per_cell * times}"
    )
    took = [launch for launch in facts.launches if launch.outcome == "measured" and launch.total_s]
    booting_s = fmean(launch.ready_s or 0.0 for launch in took) if took else 0.0
    launch_s = booting_s + (_round_s(facts) / 2 - booting_s) * times
    return NextStep(
        because=because,
        command=shlex.join([*_without(facts.manifest.command, ("--resume",)), "--set", more]),
        time=format_seconds(2 * launches * launch_s),
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


def _resumed(command: tuple[str, ...], run_id: str) -> str:
    """With its launches as they were allowed: another number would be another comparison."""
    return shlex.join([*_without(command, ("--resume",)), "--resume", run_id])


def _plain(command: tuple[str, ...]) -> list[str]:
    return _without(command, _RUN_OPTIONS)


def _without(command: tuple[str, ...], options: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    skip = False
    for argument in command:
        if skip and not argument.startswith("-") and not argument.endswith((".yaml", ".yml")):
            skip = False
            continue
        skip = argument in options
        if not skip and not argument.startswith(tuple(f"{option}=" for option in options)):
            kept.append(argument)
    return kept
