"""Which configuration to launch next, and whether any launch is still worth its minutes. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.records.observation import Observation
from harness.search.boots import boot_chances
from harness.search.model import Belief, beliefs
from harness.search.space import Space

WORTH_RATIO = 0.2  # of the margin: less expected gain than this is not worth a launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to launch next, and why."""

    configuration_id: str
    expected_gain: float  # logarithm, over the best so far: how much better on average, counting nothing below it
    belief: Belief


def next_choice(space: Space, observations: Sequence[Observation], *, taken: Collection[str] = ()) -> Choice | None:
    """Return the candidate whose launch promises most; None where every one has been launched, failed, or is taken.

    Args:
        space: what is searched.
        observations: all launches so far.
        taken: being launched by somebody else.
    """
    known = beliefs(space, observations)
    gone = {one.configuration_id for one in observations} | set(taken)
    best = max((belief.mean for belief in known.values() if belief.launches), default=0.0)
    boots = boot_chances(space, observations)
    choices = [
        Choice(configuration_id=name, expected_gain=boots[name] * expected_improvement(belief, best), belief=belief)
        for name, belief in known.items()
        if name not in gone
    ]
    return max(choices, key=lambda one: (one.expected_gain, one.belief.mean), default=None)


def expected_improvement(belief: Belief, best: float) -> float:
    """Return the expected gain over ``best``, nothing counted where there is none (Jones, Schonlau and Welch 1998)."""
    z = (belief.mean - best) / belief.sd
    below, density = (1 + math.erf(z / math.sqrt(2))) / 2, math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return (belief.mean - best) * below + belief.sd * density


def is_worth_it(choice: Choice, margin_ratio: float) -> bool:
    """Return whether another launch of the search is expected to gain enough."""
    return choice.expected_gain >= WORTH_RATIO * math.log1p(margin_ratio)


def best_launched(space: Space, observations: Sequence[Observation], count: int = 1) -> list[str]:
    """Return the best candidates among those launched, by what is believed of them, best first."""
    known = beliefs(space, observations)
    launched = [name for name, belief in known.items() if belief.launches]
    return sorted(launched, key=lambda name: -known[name].mean)[:count]
