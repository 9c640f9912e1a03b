"""The effect between two arms, with the launch as the unit that is repeated. Pure.

One figure of one load is a table of logarithms for each arm: a row per launch, a column per prompt, the same prompts
in every row. The model is launch + prompt + arm x prompt + rest: what prompts have in common cancels, since both arms
were asked the same. Two variances remain, and they are added (Satterthwaite 1946 for the degrees of freedom):

- launches: the variance of the rows' means within the arms, pooled with the rig's stored noise floor, times
  (1/La + 1/Lb). It holds the rest, averaged over prompts, as well.
- prompts: that an effect differs from prompt to prompt, beyond the rest, over the number of prompts: other prompts of
  the same workload would give another mean.

docs/decisions/0008 says what else was tried, and what the simulations said of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from harness.records.verdict import Effect, NoiseFloor
from harness.stats.sequential import Levels

Table = NDArray[np.float64]  # launches x prompts, logarithms, higher is better
Combine = Literal["sum", "mean"]
ASSUMED_SIGMA_RATIO = 0.03  # between launches, where nobody measured it
ASSUMED_DEGREES = 4.0  # what that assumption weighs beside launches that were measured
UNSEEN_SLOW_BOOT_RATIO = 1.5  # a boot in a slow state that no canary saw; with one launch an arm nothing averages it


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A part of the variance of an estimate."""

    variance: float
    degrees: float


ONLY_LOOK = Levels()


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What an interval rests on besides the arms themselves."""

    floor: NoiseFloor | None = None  # stored for this rig; None: assumed
    levels: Levels = ONLY_LOOK
    launch_noise: bool = True  # False for figures that hardly depend on the boot, as acceptance: nothing is assumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What an effect was measured with."""

    noise: NoiseFloor
    launches: tuple[int, int]
    prompts: int
    allowance: float  # of the half width, with one launch an arm
    levels: Levels


def effect_of(base: Table, candidate: Table, basis: Basis | None = None) -> Effect:
    """Return the effect on one figure of one load.

    Args:
        base: logarithms, launches x prompts.
        candidate: the same prompts in the same columns.
        basis: noise floor and levels.

    Raises:
        ValueError: an arm is empty, or columns do not match.
    """
    if not base.size or not candidate.size or base.shape[1] != candidate.shape[1]:
        raise ValueError("both arms need a launch and the same prompts")
    basis = basis or Basis()
    means = [base.mean(axis=1), candidate.mean(axis=1)]
    design = _design(means, base.shape[1], basis, rest=_rest_of_a_mean(base, candidate))
    components = [launch_component(design), prompt_component(base, candidate)]
    return effect_from(float(candidate.mean() - base.mean()), components, design)


def is_spread_known(base: Table, candidate: Table, basis: Basis) -> bool:
    """Return whether anything says how far an effect varies: prompts, repeated launches, or a floor."""
    launches = max(len(base), len(candidate))
    return basis.launch_noise or basis.floor is not None or launches > 1 or base.shape[1] > 1


def weighted_effect(
    base: Sequence[Table],
    candidate: Sequence[Table],
    weights: Sequence[float],
    *,
    combine: Combine = "sum",
    basis: Basis | None = None,
) -> Effect:
    """Return the effect on the whole workload.

    Args:
        base: per load: logarithms, launches x prompts; every load with the same launches.
        candidate: the same loads and prompts.
        weights: of the loads, 1 in all.
        combine: ``sum``: weighted total of what the tables hold as minus the logarithm, such as the user's seconds;
            ``mean``: weighted mean of the logarithms, for rates.
        basis: noise floor of the whole, and levels.
    """
    share = np.asarray(weights, dtype=float)
    combined = [combined_logs(arm, share, combine) for arm in (base, candidate)]
    parts = _contributions(base, candidate, share, combine)
    rest = sum(
        float(part) ** 2 * _rest_of_a_mean(one, two) for part, one, two in zip(parts, base, candidate, strict=True)
    )
    design = _design(combined, sum(table.shape[1] for table in base), basis or Basis(), rest=rest)
    components = [launch_component(design)]
    for part, one, two in zip(parts, base, candidate, strict=True):
        own = prompt_component(one, two)
        components.append(Component(variance=own.variance * float(part) ** 2, degrees=own.degrees))
    return effect_from(float(combined[1].mean() - combined[0].mean()), components, design)


def effect_from(estimate: float, components: Sequence[Component], design: Design) -> Effect:
    """Return the effect whose variance is the sum of the components, each with degrees of freedom of its own."""
    variance = sum(component.variance for component in components)
    degrees = satterthwaite(components)
    se = math.sqrt(variance)
    half = se * float(stats.t.isf(design.levels.interval / 2, degrees)) + design.allowance
    half90 = se * float(stats.t.isf(design.levels.equivalence / 2, degrees)) + design.allowance
    beyond = max(0.0, abs(estimate) - design.allowance)
    p = float(2 * stats.t.sf(beyond / se, degrees)) if se > 0 else float(beyond == 0)
    return Effect(
        log_ratio=estimate,
        se=se,
        degrees=degrees,
        low=estimate - half,
        high=estimate + half,
        low90=estimate - half90,
        high90=estimate + half90,
        p=p,
        launches=design.launches,
        prompts=design.prompts,
        noise=design.noise,
        allowance=design.allowance,
    )


def _design(arms: Sequence[NDArray[np.float64]], prompts: int, basis: Basis, *, rest: float) -> Design:
    launches = (len(arms[0]), len(arms[1]))
    alone = basis.launch_noise and min(launches) == 1
    return Design(
        noise=pooled_noise(arms, basis.floor, assume=basis.launch_noise, rest=rest),
        launches=launches,
        prompts=prompts,
        allowance=math.log(UNSEEN_SLOW_BOOT_RATIO) if alone else 0.0,
        levels=basis.levels,
    )


def launch_component(design: Design) -> Component:
    """Return what launches add to the variance of a difference between two arms."""
    share = sum(1 / count for count in design.launches)
    return Component(variance=design.noise.sigma_ratio**2 * share, degrees=design.noise.degrees)


def pooled_noise(
    arms: Sequence[NDArray[np.float64]], floor: NoiseFloor | None, *, assume: bool = True, rest: float = 0.0
) -> NoiseFloor:
    """Return the variance between launches within arms, pooled with what is known of the rig.

    Args:
        arms: a mean per launch, for each arm.
        floor: stored; None: the assumption of 3 %, with the weight of ``ASSUMED_DEGREES``.
        assume: False: the arms alone, where they can tell.
        rest: what requests add to the variance of a launch's mean. What is assumed is about boots, so it is added;
            what was measured holds it.
    """
    squares = sum(float(((arm - arm.mean()) ** 2).sum()) for arm in arms)
    degrees = float(sum(len(arm) - 1 for arm in arms))
    if floor is None and not assume:
        return NoiseFloor(sigma_ratio=math.sqrt(squares / degrees) if degrees else 0.0, degrees=degrees, source="arms")
    assumed = math.sqrt(ASSUMED_SIGMA_RATIO**2 + rest)
    prior = floor or NoiseFloor(sigma_ratio=assumed, degrees=ASSUMED_DEGREES, source="assumed")
    total = degrees + prior.degrees
    variance = (squares + prior.sigma_ratio**2 * prior.degrees) / total
    return NoiseFloor(
        sigma_ratio=math.sqrt(variance), degrees=total, source=prior.source, measured_at=prior.measured_at
    )


def prompt_component(base: Table, candidate: Table) -> Component:
    """Return how far the mean over prompts would move with other prompts, beyond what repeats of these would do.

    With one launch an arm the two cannot be told apart, and all of it counts.
    """
    prompts = base.shape[1]
    if prompts < 2:
        return Component(variance=0.0, degrees=1.0)
    differences = candidate.mean(axis=0) - base.mean(axis=0)
    rest, degrees = _rest([base, candidate])
    share = 1 / len(base) + 1 / len(candidate)
    interaction = float(differences.var(ddof=1)) - (rest * share if degrees else 0.0)
    return Component(variance=max(0.0, interaction) / prompts, degrees=float(prompts - 1))


def satterthwaite(components: Sequence[Component]) -> float:
    """Return the degrees of freedom of a sum of variances (Satterthwaite 1946)."""
    total = sum(component.variance for component in components)
    known = [component for component in components if component.variance > 0 and component.degrees > 0]
    if not total or not known:
        return max((component.degrees for component in components), default=1.0) or 1.0
    return total**2 / sum(component.variance**2 / component.degrees for component in known)


def within_sigma_ratio(arms: Sequence[Table]) -> float | None:
    """Return the standard deviation of one request within a launch, prompts and launches taken out; None if unknown."""
    rest, degrees = _rest(arms)
    return math.sqrt(rest) if degrees else None


def _rest_of_a_mean(base: Table, candidate: Table) -> float:
    """What the rest adds to the variance of a launch's mean over its prompts; 0 where it cannot be told."""
    return _rest([base, candidate])[0] / int(base.shape[1])


def _rest(arms: Sequence[Table]) -> tuple[float, int]:
    """The mean square that neither launch nor prompt explains, and its degrees of freedom."""
    squares, degrees = 0.0, 0
    for arm in arms:
        fitted = arm.mean(axis=1, keepdims=True) + arm.mean(axis=0, keepdims=True) - arm.mean()
        squares += float(((arm - fitted) ** 2).sum())
        degrees += (arm.shape[0] - 1) * (arm.shape[1] - 1)
    return (squares / degrees if degrees else 0.0), degrees


def combined_logs(arm: Sequence[Table], weights: NDArray[np.float64], combine: Combine) -> NDArray[np.float64]:
    """Return one logarithm per launch, of its weighted whole, higher is better.

    A load's own value is the geometric mean over its prompts, so that a ratio of two launches is paired by prompt.
    """
    means = np.stack([table.mean(axis=1) for table in arm])
    if combine == "mean":
        return np.asarray(weights @ means / weights.sum(), dtype=np.float64)
    return np.asarray(-np.log(weights @ np.exp(-means)), dtype=np.float64)


def _contributions(
    base: Sequence[Table], candidate: Sequence[Table], weights: NDArray[np.float64], combine: Combine
) -> NDArray[np.float64]:
    """How far the whole moves with each load (delta method): a sum moves with what the load contributes to it."""
    if combine == "mean":
        return np.asarray(weights / weights.sum(), dtype=np.float64)
    values = np.array([math.exp(-(one.mean() + two.mean()) / 2) for one, two in zip(base, candidate, strict=True)])
    return np.asarray(weights * values / float(weights @ values), dtype=np.float64)
