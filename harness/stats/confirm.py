"""What the confirmation says: launches of their own, so that the luck which made a finalist is not counted. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.records.verdict import Arm, Comparison
from harness.stats.arms import (
    Stored,
    Wanted,
    common_loads,
    comparison_doubts,
    doubts_by_load,
    failed_checks,
    launch_order,
    sameness_of,
    side_of,
    weights_over,
)
from harness.stats.compare import Beside, Question, Side, compare
from harness.stats.noise import NoiseBook

FIRST_CONFIRMING_ROUND = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """The finalists against the incumbent, best first. ``pick`` is None where the incumbent stays."""

    comparisons: tuple[Comparison, ...]
    pick: Comparison | None


def confirmed(stored: Stored, book: NoiseBook) -> Confirmed | None:
    """Return what a run of ``tune`` confirmed; None for another run, and before anything was confirmed.

    With several finalists the false-alarm allowance is shared among them.
    """
    plan = stored.run.plan
    if plan is None or plan.tune is None:
        return None
    steps = [step for step in stored.run.tune_steps if step.phase == "confirm"]
    reference_id = plan.tune.reference_id
    finalists = [name for name in dict.fromkeys(step.configuration_id for step in steps) if name != reference_id]
    measured = {launch.configuration.configuration_id for launch in stored.run.launches}
    finalists = [name for name in finalists if name in measured]
    if not finalists or reference_id not in measured:
        return None
    found = [_compared(stored, book, reference_id, name, finalists=len(finalists)) for name in finalists]
    ordered = tuple(sorted(found, key=lambda one: -one.effect.log_ratio if one.effect else 1.0))
    better = [one for one in ordered if one.verdict == "better"]
    return Confirmed(comparisons=ordered, pick=better[0] if better else None)


def _compared(stored: Stored, book: NoiseBook, base_id: str, candidate_id: str, *, finalists: int) -> Comparison:
    plan = stored.run.plan
    assert plan is not None and plan.tune is not None
    base, candidate = (_confirming(stored, name) for name in (base_id, candidate_id))
    loads = common_loads(base, candidate)
    question = Question(
        loads=loads,
        weights=weights_over(plan.weights, loads),
        objective=plan.tune.objective,
        margin_ratio=plan.margin_ratio,
        limits=plan.tune.limits,
        comparisons=finalists,
    )
    order = launch_order(stored.run.launches)
    beside = Beside(
        factors=_factors(base.arm, candidate.arm),
        vetoes=failed_checks(stored.run, candidate_id),
        doubts=comparison_doubts(base, candidate, question, book, order=order),
        cell_doubts=doubts_by_load(stored.cells, (base_id, candidate_id)),
        sameness=sameness_of(stored.run, base, candidate),
        simulated=stored.run.manifest.simulated,
    )
    return compare(base, candidate, question, book, beside)


def _confirming(stored: Stored, configuration_id: str) -> Side:
    """An arm without the launches of the search."""
    labels = {launch.configuration.configuration_id: launch.configuration.label for launch in stored.run.launches}
    side = side_of(stored, Wanted(name=labels[configuration_id], configuration_id=configuration_id))
    rounds = {launch.launch_id: launch.round for launch in stored.run.launches}
    kept = tuple(one for one in side.arm.launch_ids if rounds[one] >= FIRST_CONFIRMING_ROUND)
    return replace(side, arm=replace(side.arm, launch_ids=kept))


def _factors(base: Arm, candidate: Arm) -> tuple[str, ...]:
    left, right = base.configuration.knobs, candidate.configuration.knobs
    return tuple(name for name in dict.fromkeys((*left, *right)) if left.get(name) != right.get(name))
