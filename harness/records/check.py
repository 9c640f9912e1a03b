"""What a check of the site said of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.units import format_seconds

CheckOutcome = Literal["passed", "failed", "not_run"]
SIMULATED = "simulated"  # why a rehearsal runs no command


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord:
    """One command of the site file, run once for a configuration while its engine still answered."""

    name: str
    configuration_id: str
    launch_id: str
    started_at: str
    outcome: CheckOutcome
    exit_code: int | None = None  # None where it did not end by itself; negative: the signal that ended it
    took_s: float = 0.0
    reason: str | None = None  # why it failed without a word of its own, or was not run
    tail: tuple[str, ...] = ()  # of its output; redacted

    @property
    def passed(self) -> bool:
        """It ended with 0."""
        return self.outcome == "passed"


def check_words(check: CheckRecord) -> str:
    """Return what a check said in one line."""
    if check.outcome == "not_run":
        return f"check {check.name} was not run: {check.reason}"
    took = format_seconds(check.took_s)
    if check.passed:
        return f"check {check.name} passed in {took}"
    return f"check {check.name} failed after {took}: {check.reason or f'exit code {check.exit_code}'}"


def vetoes(checks: Sequence[CheckRecord], configuration_id: str) -> tuple[str, ...]:
    """Return the checks that a configuration failed, by their last run: while there is one, it is not "better"."""
    last = {check.name: check for check in checks if check.configuration_id == configuration_id}
    return tuple(name for name, check in last.items() if check.outcome == "failed")
