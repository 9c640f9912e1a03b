"""What an engine without counters says at its end of all drafts of one launch, warm-up and canary included."""

from __future__ import annotations

from dataclasses import dataclass, field

BYPASSED = "the engine says that it ran no draft cycle at all: this build bypassed DSpark"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationStats:
    """Facts of a launch, by the engine's own names; figures are functions over them (stats.session_figures).

    Proposals are counted behind the engine's confidence gate, so none of this is what vLLM calls acceptance.
    """

    asked: bool  # drafts were asked for
    lines: int = 0  # stats lines that were read whole; their counts and times are summed
    counts: dict[str, float] = field(default_factory=dict)
    times_s: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)  # as the engine works them out; {} for several lines
    histograms: dict[str, str] = field(default_factory=dict)
    absent_because: str | None = None  # why there are no counts
    generation_tokens_per_s: tuple[float, ...] = ()  # by the engine's own lines, one a request
    prefill_tokens_per_s: tuple[float, ...] = ()

    @property
    def bypassed(self) -> bool:
        """Drafts were asked for, and the engine says that it did not even try."""
        return self.asked and self.lines > 0 and self.counts.get("cycles") == 0
