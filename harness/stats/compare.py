"""Two arms -> effects, verdicts and what explains them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from harness.records.cell import LoadPoint
from harness.records.doubt import Doubt
from harness.records.sanity import Sameness
from harness.records.verdict import (
    Arm,
    AskedLimit,
    BrokenLimit,
    CellVerdict,
    Comparison,
    Effect,
    NoiseFloor,
    Part,
    Verdict,
)
from harness.stats.effect import Basis, Combine, effect_of, is_spread_known, weighted_effect
from harness.stats.limits import broken_limits
from harness.stats.noise import NoiseBook, assumed_floor
from harness.stats.paired import SECONDS, Measured, Pair, geometric_mean, is_higher_better, paired
from harness.stats.power import smallest_visible_ratio
from harness.stats.sequential import Levels, levels_of
from harness.stats.verdict import controlled_verdicts, verdict_of

BLOCK_LAUNCHES = 2  # of each arm in an ABBA block
PARTS = (
    "decode_tokens_per_s",
    "delivered_per_step",
    "step_s",
    "ttft_s",
    "worst_stream_tokens_per_s",
    "prefill_tokens_per_s",
)
_ONE_FIGURE = "one figure of each arm: nothing says how far it varies"
_FREE_OF_LAUNCH_NOISE = ("delivered_per_step", "acceptance_length", "acceptance_ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One arm with its trials, by launch and load. Void trials are not in it."""

    arm: Arm
    trials: Mapping[tuple[str, str], Measured]  # by launch id and load id

    def rows(self, load: LoadPoint) -> list[Measured]:
        """The trials of a load, in the order of the launches."""
        keys = [(launch_id, load.load_id) for launch_id in self.arm.launch_ids]
        return [self.trials[key] for key in keys if key in self.trials]

    def with_launches(self, count: int) -> Side:
        """The first ``count`` launches alone: how it stood then."""
        return replace(self, arm=replace(self.arm, launch_ids=self.arm.launch_ids[:count]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of two arms."""

    loads: Sequence[LoadPoint]
    weights: Mapping[str, float] = field(default_factory=dict)  # by load id; empty: every load counts the same
    objective: str = SECONDS
    margin_ratio: float = 0.03
    limits: Sequence[AskedLimit] = ()
    max_launches: int | None = None  # of each arm, where looks are taken; None: there is one look
    metrics: Sequence[str] = PARTS
    comparisons: int = 1  # that share the false-alarm allowance

    def weight(self, load: LoadPoint) -> float:
        """The part of the workload that a load stands for, 1 over all."""
        return self.weights.get(load.load_id, 0.0) if self.weights else 1 / len(self.loads)

    def levels(self, launches: int) -> Levels:
        """The levels of the look after so many launches of each arm."""
        found = levels_of(launches, self.max_launches, step=BLOCK_LAUNCHES)
        return Levels(interval=found.interval / self.comparisons, equivalence=found.equivalence / self.comparisons)

    @property
    def shares(self) -> dict[LoadPoint, float]:
        """The weight of each load."""
        return {load: self.weight(load) for load in self.loads}

    @property
    def combine(self) -> Combine:
        """How loads make a whole: seconds add up, rates are averaged by their logarithms."""
        return "sum" if self.objective == SECONDS else "mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What bears on a comparison besides its trials."""

    factors: tuple[str, ...] = ()
    vetoes: tuple[str, ...] = ()  # of "better"
    gaps: tuple[str, ...] = ()  # loads that only the base can serve: the candidate is no more than worse
    doubts: tuple[Doubt, ...] = ()
    cell_doubts: Mapping[str, tuple[Doubt, ...]] = field(default_factory=dict)  # by load id
    same: bool = False
    simulated: bool = False
    sameness: tuple[Sameness, ...] = ()
    notes: tuple[str, ...] = ()


def compare(base: Side, candidate: Side, question: Question, book: NoiseBook, beside: Beside) -> Comparison:
    """Return what the candidate is to the base.

    Args:
        base: the arm that is the reference.
        candidate: the other one.
        question: loads, weights, objective, margin, limits.
        book: the noise floor of this rig.
        beside: factors, vetoes, doubts.
    """
    whole = _whole(base, candidate, question, book)
    effect = None if isinstance(whole, str) else whole
    broken = broken_limits(question.limits, question.loads, base.rows, candidate.rows)
    limits = dict.fromkeys(_breaks(one) for one in broken if one.arm == "candidate")  # once for all its cells
    vetoes = (*beside.gaps, *beside.vetoes, *limits)
    verdict: Verdict = "cannot tell" if effect is None else verdict_of(effect, question.margin_ratio)
    if (vetoes and verdict == "better") or (beside.gaps and verdict == "no difference"):
        verdict = "cannot tell"
    launches = min(len(base.arm.launch_ids), len(candidate.arm.launch_ids))
    return Comparison(
        base=base.arm,
        candidate=candidate.arm,
        factors=beside.factors,
        objective=question.objective,
        margin_ratio=question.margin_ratio,
        verdict=verdict,
        effect=effect,
        null_reason=whole if isinstance(whole, str) else None,
        cells=_cells(base, candidate, question, book, beside),
        overall=_overall(base, candidate, question),
        vetoes=vetoes,
        broken_limits=broken,
        doubts=(*beside.doubts, *(one.doubt for one in beside.sameness if one.doubt is not None)),
        sameness=beside.sameness,
        max_launches=question.max_launches,
        smallest_visible_ratio=_visible(launches, question, book),
        naive_ratio=_naive(base, candidate, question),
        same=beside.same,
        simulated=beside.simulated,
        notes=beside.notes,
    )


def decided(base: Side, candidate: Side, question: Question, book: NoiseBook) -> tuple[Verdict, Effect] | None:
    """Return the verdict as it stands after the launches so far, and its effect; None where there is none yet."""
    whole = _whole(base, candidate, question, book)
    return None if isinstance(whole, str) else (verdict_of(whole, question.margin_ratio), whole)


def part_of(metric: str, load: LoadPoint, base: Side, candidate: Side, basis: Basis) -> Part:
    """Return the effect on one figure of one load."""
    tables = paired(metric, load, base.rows(load), candidate.rows(load))
    if isinstance(tables, str):
        return Part(metric=metric, effect=None, base=None, candidate=None, null_reason=tables)
    higher = is_higher_better(metric)
    known = is_spread_known(tables.base, tables.candidate, basis)
    return Part(
        metric=metric,
        effect=effect_of(tables.base, tables.candidate, basis) if known else None,
        null_reason=None if known else _ONE_FIGURE,
        base=geometric_mean(tables.base, higher_is_better=higher),
        candidate=geometric_mean(tables.candidate, higher_is_better=higher),
    )


def complete(side: Side, question: Question) -> Side:
    """Return the arm with those launches alone that measured every load which has a weight."""
    loads = [load for load in question.loads if question.weight(load)]
    kept = tuple(
        launch_id
        for launch_id in side.arm.launch_ids
        if all((launch_id, load.load_id) in side.trials for load in loads)
    )
    return replace(side, arm=replace(side.arm, launch_ids=kept))


def _whole(base: Side, candidate: Side, question: Question, book: NoiseBook) -> Effect | str:
    return _weighted(question.objective, base, candidate, question, book.of_total(question.objective, question.shares))


def _weighted(metric: str, base: Side, candidate: Side, question: Question, floor: NoiseFloor | None) -> Effect | str:
    whole_base, whole_candidate = complete(base, question), complete(candidate, question)
    loads = [load for load in question.loads if question.weight(load)]
    if not loads:
        empty = [side.arm.name for side in (base, candidate) if not side.trials]
        return f"nothing of {' and '.join(empty)} counts" if empty else "no load that has a weight counts in both arms"
    for side in (whole_base, whole_candidate):
        if not side.arm.launch_ids:
            return f"no launch of {side.arm.name} measured every cell of the workload"
    tables: list[Pair] = []
    for load in loads:
        found = paired(metric, load, whole_base.rows(load), whole_candidate.rows(load))
        if isinstance(found, str):
            return found
        tables.append(found)
    launches = min(len(whole_base.arm.launch_ids), len(whole_candidate.arm.launch_ids))
    launch_noise = metric not in _FREE_OF_LAUNCH_NOISE
    basis = Basis(floor=floor, levels=question.levels(launches), launch_noise=launch_noise)
    if not any(is_spread_known(pair.base, pair.candidate, basis) for pair in tables):
        return _ONE_FIGURE
    return weighted_effect(
        [pair.base for pair in tables],
        [pair.candidate for pair in tables],
        [question.weight(load) for load in loads],
        combine="sum" if metric == SECONDS else "mean",
        basis=basis,
    )


def _overall(base: Side, candidate: Side, question: Question) -> tuple[Part, ...]:
    parts = []
    for metric in question.metrics:
        found = _weighted(metric, base, candidate, question, None)
        effect, reason = (None, found) if isinstance(found, str) else (found, None)
        parts.append(Part(metric=metric, effect=effect, base=None, candidate=None, null_reason=reason))
    return tuple(parts)


def _cells(base: Side, candidate: Side, question: Question, book: NoiseBook, beside: Beside) -> tuple[CellVerdict, ...]:
    mains = [_part(question.objective, load, base, candidate, question, book) for load in question.loads]
    verdicts = controlled_verdicts([main.effect for main in mains], question.margin_ratio)
    return tuple(
        CellVerdict(
            load=load,
            weight=question.weight(load),
            verdict=verdict,
            q=q,
            seconds=main,
            parts=tuple(_part(metric, load, base, candidate, question, book) for metric in question.metrics),
            doubts=beside.cell_doubts.get(load.load_id, ()),
            smallest_visible_ratio=_cell_visible(main, question),
        )
        for load, main, (verdict, q) in zip(question.loads, mains, verdicts, strict=True)
    )


def _part(metric: str, load: LoadPoint, base: Side, candidate: Side, question: Question, book: NoiseBook) -> Part:
    launches = min(len(base.rows(load)), len(candidate.rows(load)))
    basis = Basis(
        floor=book.of_cell(load, metric),
        levels=question.levels(launches),
        launch_noise=metric not in _FREE_OF_LAUNCH_NOISE,
    )
    return part_of(metric, load, base, candidate, basis)


def _cell_visible(main: Part, question: Question) -> float | None:
    if main.effect is None or main.effect.allowance:
        return None
    launches = min(main.effect.launches)
    level = question.levels(launches).interval
    return smallest_visible_ratio(launches, main.effect.noise, margin_ratio=question.margin_ratio, level=level)


def _visible(launches: int, question: Question, book: NoiseBook) -> float | None:
    if launches < BLOCK_LAUNCHES:
        return None
    floor = book.of_total(question.objective, question.shares) or assumed_floor()
    level = question.levels(launches).interval
    return smallest_visible_ratio(launches, floor, margin_ratio=question.margin_ratio, level=level)


def _naive(base: Side, candidate: Side, question: Question) -> float | None:
    """What the field does: the first launch of each arm, the mean over requests. Shown beside, and never used."""
    if question.objective != SECONDS:
        return None
    totals = []
    for side in (complete(base, question), complete(candidate, question)):
        first = side.with_launches(1)
        total = 0.0
        for load in question.loads:
            if question.weight(load):
                tables = paired(SECONDS, load, first.rows(load), first.rows(load))
                if isinstance(tables, str):
                    return None
                total += question.weight(load) * fmean(math.exp(-value) for value in tables.base.ravel())
        totals.append(total)
    return totals[0] / totals[1] if all(totals) else None


def _breaks(one: BrokenLimit) -> str:
    return f"it breaks the limit {one.limit} {one.bound}"
