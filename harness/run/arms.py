"""What `ab` adds to a plan: two arms, how often they may be launched, and what is asked of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import InputError
from harness.recipe.schema import Recipe
from harness.records.cell import CellGroup, Configuration
from harness.records.plan import PlannedComparison
from harness.records.verdict import AskedLimit
from harness.stats.compare import BLOCK_LAUNCHES
from harness.sweep.arms import factors_between
from harness.sweep.load import Sweep

DEFAULT_MOST_LAUNCHES = 6  # of each arm
A_A_LAUNCHES = 3  # of each half of an A/A: six launches of one configuration, five degrees of freedom


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonWish:
    """What the command line says of a comparison."""

    same: bool = False
    max_launches: int | None = None  # of each arm; None: as the sweep says
    sequential: bool = True
    allow_factors: bool = False


def planned_comparison(
    sweep: Sweep, recipe: Recipe, groups: Sequence[CellGroup], wish: ComparisonWish | None
) -> PlannedComparison | None:
    """Return what is compared; None where nothing is.

    Raises:
        InputError: the arms are one server, or differ in more than one factor.
    """
    if wish is None:
        return None
    if recipe.launch.style == "attach":
        what = "a server that runs already is one launch, so there are no launches to compare"
        hint = "Sweep it, change it, sweep it again, then harness compare RUN RUN: it can tell acceptance, not speed."
        raise InputError(what, where=sweep.source.where(("recipe",), value=True), hint=hint)
    configurations = [group.configuration for group in groups]
    if wish.same:
        base = candidate = configurations[0]
        if len(configurations) > 1:
            raise InputError("--same needs one configuration", hint="Name it with --base.")
    else:
        base, candidate = _arms(configurations, sweep)
    factors = factors_between(recipe, base, candidate)
    if len(factors) > 1 and not wish.allow_factors:
        what = f"the arms differ in {len(factors)} factors: {', '.join(factors)}"
        hint = "Nobody could say which one it was. Change one at a time, or add --allow-factors."
        raise InputError(what, where=sweep.source.where(("compare",)), hint=hint)
    return PlannedComparison(
        base_id=base.configuration_id,
        candidate_id=candidate.configuration_id,
        base_name=base.label,
        candidate_name=candidate.label,
        factors=factors,
        max_launches=_max_launches(sweep, wish),
        sequential=wish.sequential and not wish.same,
        objective=sweep.file.objective,
        limits=asked_limits(sweep),
        checks=sweep.file.checks,
        factors_allowed=wish.allow_factors,
    )


def rounds_of(comparison: PlannedComparison) -> int:
    """Return how many rounds there are at most: an A/A has one configuration, launched as often as two arms."""
    return comparison.max_launches * (2 if comparison.same else 1)


def asked_limits(sweep: Sweep) -> tuple[AskedLimit, ...]:
    """Return the bounds of a sweep; one without a statistic is about the median."""
    found = []
    for name, limit in sweep.file.limits.items():
        metric, _, statistic = name.partition(".")
        found.append(
            AskedLimit(metric=metric, statistic=statistic or "median", at_most=limit.at_most, at_least=limit.at_least)
        )
    return tuple(found)


def _arms(configurations: Sequence[Configuration], sweep: Sweep) -> tuple[Configuration, Configuration]:
    if len(configurations) < 2:
        raise InputError(
            "both arms would be the same server",
            where=sweep.source.where(("compare",)),
            hint="Name another candidate; --same measures how far launches of one server lie apart.",
        )
    return configurations[0], configurations[1]


def _max_launches(sweep: Sweep, wish: ComparisonWish) -> int:
    """Whole blocks of A B B A: an odd launch would let a drift speak."""
    repeat = sweep.file.repeat
    if wish.same:
        asked = wish.max_launches or max(A_A_LAUNCHES, repeat.launches)
        return max(1, asked)
    asked = wish.max_launches or repeat.max_launches or max(DEFAULT_MOST_LAUNCHES, repeat.launches)
    return max(BLOCK_LAUNCHES, -(-asked // BLOCK_LAUNCHES) * BLOCK_LAUNCHES)
