"""An accepted baseline as its file holds it: what is normal now, and everything that was before."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.records.nightly import Baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """One time that somebody accepted nights under a name."""

    baseline: Baseline
    identity: dict[str, str] = field(default_factory=dict)  # what its key is made of, in words
    facts: dict[str, str] = field(default_factory=dict)  # of its last night: versions, drivers, images
    left_out: dict[str, str] = field(default_factory=dict)  # doubtful nights in its reach, by run id, and why
    mark: str | None = None  # SIMULATED, for whoever reads the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptances:
    """The file of one name. An acceptance is never taken away."""

    current: Acceptance
    earlier: tuple[Acceptance, ...] = ()  # newest first

    @property
    def all(self) -> tuple[Acceptance, ...]:
        """Newest first."""
        return (self.current, *self.earlier)
