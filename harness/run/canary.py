"""Is this boot as fast as its like? Pure.

One boot can be 1.7 times as slow as the next for no visible reason, with the same acceptance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression, median

from harness.records.cell import NUM_SPECULATIVE_TOKENS, Configuration
from harness.records.identity import content_id
from harness.records.launch import CanaryReading

_LEAST_PEERS = 3
PREDICTION_LIMIT_RATIO = 0.2
# Boots of one configuration lie 2 to 3 % apart by themselves, two of them by 3.4 %: at the 3 % by which a canary may
# move within a boot, every fifth good boot would be given back, and what is left would look faster than it is.
LEAST_SLOW_RATIO = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryReference:
    """A reading of an earlier launch of this rig."""

    configuration_id: str
    family: str | None  # None: of another run, and no peer of other configurations
    num_speculative_tokens: int | None
    reading: CanaryReading
    at: str  # wall clock


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryVerdict:
    """How a boot compares. ``ratio`` above 1 is slower; None where there is nothing to compare with."""

    ratio: float | None
    against: str
    least_limit_ratio: float = 0.0  # of what it is compared with; the rig's own may be higher

    def is_slow(self, limit_ratio: float) -> bool:
        """The boot is slower than its like by more than the limit."""
        return self.ratio is not None and self.ratio > 1 + max(limit_ratio, self.least_limit_ratio)


def judge(configuration: Configuration, reading: CanaryReading, references: Sequence[CanaryReference]) -> CanaryVerdict:
    """Compare step times: with boots of the same configuration, else with what boots at other k predict for this one.

    Within a family a step costs a + b k seconds, so three boots at two values of k predict the others.
    """
    same = [each for each in references if each.configuration_id == configuration.configuration_id]
    if same:
        ratio = reading.step_s / median(each.reading.step_s for each in same)
        return CanaryVerdict(
            ratio=ratio, against=_named(same, "of this configuration"), least_limit_ratio=LEAST_SLOW_RATIO
        )
    peers = [each for each in references if each.family == family(configuration)]
    predicted_s = _predicted_step_s(configuration.num_speculative_tokens, peers)
    if predicted_s is None:
        return CanaryVerdict(ratio=None, against="nothing yet")
    return CanaryVerdict(
        ratio=reading.step_s / predicted_s,
        against=f"what {_named(peers, 'at other k')} predict",
        least_limit_ratio=PREDICTION_LIMIT_RATIO,
    )


def _predicted_step_s(k: int | None, peers: Sequence[CanaryReference]) -> float | None:
    known = [(each.num_speculative_tokens, each.reading.step_s) for each in peers]
    points = [(float(depth), step_s) for depth, step_s in known if depth is not None]
    if k is None or len(points) < _LEAST_PEERS or len({depth for depth, _ in points}) < 2:
        return None
    line = linear_regression([depth for depth, _ in points], [step_s for _, step_s in points])
    predicted_s = line.intercept + line.slope * k
    return predicted_s if predicted_s > 0 else None


def family(configuration: Configuration) -> str:
    """Return what configurations have in common that differ in how many tokens they draft, and in nothing else."""
    others = {name: value for name, value in configuration.knobs.items() if name != NUM_SPECULATIVE_TOKENS}
    return content_id([configuration.recipe, configuration.num_speculative_tokens == 0, others])


def _named(references: Sequence[CanaryReference], whose: str) -> str:
    boots = "1 boot" if len(references) == 1 else f"{len(references)} boots"
    return f"{boots} {whose}, the oldest of {min(each.at for each in references)[:10]}"
