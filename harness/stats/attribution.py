"""Which of acceptance, step time and the rig moved with a regression. Pure.

Tokens per step and step time are compared across the same nights as the figure that changed. Each needs less evidence
than a verdict: that something changed is settled, and the question is what (pytorch/helion issue 2976 has the pattern).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_STANDARD_ERRORS = 2.5
_LEAST_LOG = math.log1p(0.01)
_LEAST_SHARE = 0.25  # of the larger of the two
_CANARY_SHARE = 0.5  # of the step time's move
_TOKENS, _STEP = "delivered_per_step", "step_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """One figure before and after. Logarithms, higher is better; a value a night."""

    before: Sequence[float]
    after: Sequence[float]
    before_launches: Sequence[float] = ()  # of each night; (): one each
    after_launches: Sequence[float] = ()

    @property
    def log_ratio(self) -> float | None:
        """After against before; None where either side has no night."""
        return self._difference()[0] if self.before and self.after else None

    @property
    def is_sure(self) -> bool:
        """It moved by more than its own scatter explains."""
        if not self.before or not self.after:
            return False
        difference, se = self._difference()
        return abs(difference) >= _LEAST_LOG and abs(difference) > _STANDARD_ERRORS * se

    def _difference(self) -> tuple[float, float]:
        sides = [np.asarray(side, dtype=float) for side in (self.before, self.after)]
        launches = [
            np.asarray(given, dtype=float) if given else np.ones(len(side))
            for side, given in zip(sides, (self.before_launches, self.after_launches), strict=True)
        ]
        means = [float(w @ x / w.sum()) for x, w in zip(sides, launches, strict=True)]
        squares = sum(float(w @ (x - mean) ** 2) for x, w, mean in zip(sides, launches, means, strict=True))
        degrees = sum(len(side) for side in sides) - 2
        variance = squares / degrees if degrees > 0 else 0.0
        return means[1] - means[0], math.sqrt(variance * sum(float(1 / w.sum()) for w in launches))


def cause(tokens: Sides, step: Sides, canary: Sides | None, *, slow_rig: bool = False) -> str:
    """Return what moved, and where to look.

    Args:
        tokens: tokens per step.
        step: step time, signed so that higher is better.
        canary: step time of the canary, likewise; None where it is not known.
        slow_rig: the boots of these nights were slow by their canary.
    """
    moved_tokens, moved_step = _moved(tokens, step), _moved(step, tokens)
    if slow_rig or (moved_step and _followed(canary, step)):
        also = ", and acceptance moved too" if moved_tokens else ""
        return f"the canary itself became {_word(step)}{also}: look at rig, driver and clocks, not at the workload"
    if moved_step and moved_tokens:
        return "acceptance and step time both moved: look at what changed in image or checkpoint"
    if moved_tokens:
        return "acceptance moved and step time did not: look at the prompts, the chat template, the drafter"
    if moved_step:
        return "step time moved and acceptance did not: look at clocks, drivers, kernels, the image"
    return "neither acceptance nor step time moved by itself: look at prefill and queueing (time to first token)"


def _moved(one: Sides, other: Sides) -> bool:
    largest = max(abs(side.log_ratio or 0.0) for side in (one, other))
    return one.is_sure and abs(one.log_ratio or 0.0) >= _LEAST_SHARE * largest


def _followed(canary: Sides | None, step: Sides) -> bool:
    """The canary moved with the step time: the same prompts at one stream, whatever the workload is."""
    if canary is None or canary.log_ratio is None or step.log_ratio is None:
        return False
    return canary.is_sure and canary.log_ratio / step.log_ratio >= _CANARY_SHARE


def _word(step: Sides) -> str:
    return "faster" if (step.log_ratio or 0.0) > 0 else "slower"
