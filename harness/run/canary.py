"""Is this boot as fast as its like? Pure.

One boot can be 1.7 times as slow as the next for no visible reason, with the same acceptance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.records.cell import NUM_SPECULATIVE_TOKENS, Configuration
from harness.records.identity import content_id
from harness.records.launch import CanaryReading

_LEAST_PEERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryReference:
    """A reading of an earlier launch of this rig."""

    configuration_id: str
    family: str | None  # None: of another run, and no peer of other configurations
    reading: CanaryReading
    at: str  # wall clock


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryVerdict:
    """How a boot compares. ``ratio`` above 1 is slower; None where there is nothing to compare with."""

    ratio: float | None
    against: str

    def is_slow(self, limit_ratio: float) -> bool:
        """The boot is slower than its like by more than the limit."""
        return self.ratio is not None and self.ratio > 1 + limit_ratio


def judge(configuration: Configuration, reading: CanaryReading, references: Sequence[CanaryReference]) -> CanaryVerdict:
    """Compare with launches of the same configuration by step time, else with the other ones by time to first token.

    A step costs more with every drafted token, so step times compare only within a configuration. The time to the
    first token of one short prompt is nearly the same for all that differ in nothing else and draft, or do not.
    """
    same = [each for each in references if each.configuration_id == configuration.configuration_id]
    if same:
        ratio = reading.step_s / median(each.reading.step_s for each in same)
        return CanaryVerdict(ratio=ratio, against=_named(same, "of this configuration"))
    peers = [each for each in references if each.family == family(configuration)]
    if len(peers) < _LEAST_PEERS:
        return CanaryVerdict(ratio=None, against="nothing yet")
    ratio = reading.ttft_s / median(each.reading.ttft_s for each in peers)
    return CanaryVerdict(ratio=ratio, against=_named(peers, "of other configurations"))


def family(configuration: Configuration) -> str:
    """Return what configurations have in common whose first tokens take the same time.

    The draft reads the prompt too, however many tokens it then drafts; any other knob may change the prefill.
    """
    others = {name: value for name, value in configuration.knobs.items() if name != NUM_SPECULATIVE_TOKENS}
    return content_id([configuration.recipe, configuration.num_speculative_tokens == 0, others])


def _named(references: Sequence[CanaryReference], whose: str) -> str:
    boots = "1 boot" if len(references) == 1 else f"{len(references)} boots"
    return f"{boots} {whose}, the oldest of {min(each.at for each in references)[:10]}"
