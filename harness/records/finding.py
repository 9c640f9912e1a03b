"""What an examination of a machine found, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]  # fail: a launch would fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. What is not ok has a remedy."""

    level: Level
    check: str  # a stable snake_case name
    what: str
    node: str | None = None  # its role; None: about all of it
    evidence: str = ""
    remedy: str = ""


def ok(check: str, what: str, *, node: str | None = None, evidence: str = "") -> Finding:
    """Return a finding that all is well."""
    return Finding(level="ok", check=check, what=what, node=node, evidence=evidence)


def warn(check: str, what: str, *, remedy: str, node: str | None = None, evidence: str = "") -> Finding:
    """Return a finding that a launch survives, and that a number may not."""
    return Finding(level="warn", check=check, what=what, node=node, evidence=evidence, remedy=remedy)


def fail(check: str, what: str, *, remedy: str, node: str | None = None, evidence: str = "") -> Finding:
    """Return a finding with which a launch would fail."""
    return Finding(level="fail", check=check, what=what, node=node, evidence=evidence, remedy=remedy)
