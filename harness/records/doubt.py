"""A reason not to believe a number, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """``kind`` is a stable snake_case name; ``evidence`` holds the figures; ``remedy`` is what the user can do."""

    kind: str
    evidence: str
    remedy: str
    void: bool = False  # the trial is not used at all
