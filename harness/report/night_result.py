"""What came of a night, whether it ran or not: the one record that every delivery is made of. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.records.manifest import SIMULATED_MARK
from harness.records.nightly import Baseline, NightVerdict
from harness.report.night_words import COULD_NOT_RUN, night_line
from harness.stats.morning import Morning

ResultVerdict = NightVerdict | Literal["could not run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightResult:
    """A night of a sweep and the exit code of its command."""

    sweep: str
    at: str  # wall clock at which the night began, ISO 8601 with zone
    exit_code: int
    mornings: tuple[tuple[str, Morning], ...] = ()  # by configuration; the first decides, the others are watched
    baseline: Baseline | None = None  # that the first was held against
    run_id: str | None = None  # None: it ended before there was a run
    report: str | None = None  # where the report lies
    reason: str | None = None  # why there is nothing to judge, or what failed beside what was judged
    took_s: float | None = None
    simulated: bool = False

    @property
    def date(self) -> str:
        """The day on which the night began."""
        return self.at[:10]

    @property
    def gate(self) -> Morning | None:
        """What is said of the configuration that decides; None where the night could not run."""
        return self.mornings[0][1] if self.mornings else None

    @property
    def verdict(self) -> ResultVerdict:
        """Of the configuration that decides."""
        return COULD_NOT_RUN if self.gate is None else self.gate.verdict

    @property
    def line(self) -> str:
        """The night in one line."""
        line = night_line(
            self.sweep, self.mornings, self.exit_code, date=self.date, report=self.report, reason=self.reason
        )
        return line if line.endswith(SIMULATED_MARK) or not self.simulated else f"{line} · {SIMULATED_MARK}"
