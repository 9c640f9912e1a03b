"""Nights that are as fast as the test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from harness.records.nightly import Baseline, Night
from harness.stats.baseline import baseline_of

FIGURES = ("seconds", "delivered_per_step", "step_s")
FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)
NEW_DRIVER_FROM = 25


def night(
    number: int, *, moved: Mapping[str, float] | None = None, launches: int = 1, sd: float = 0.01, **changes: Any
) -> Night:
    """A night of a quiet rig; ``moved`` shifts logarithms of its figures."""
    rng = np.random.default_rng([number, 3])
    shifts = moved or {}
    fields: dict[str, Any] = {
        "run_id": f"run-{number:03}",
        "sweep": "small",
        "at": (FIRST + timedelta(days=number)).isoformat(),
        "key": "k",
        "figures": {
            name: tuple(shifts.get(name, 0.0) + sd * float(rng.standard_normal()) for _ in range(launches))
            for name in FIGURES
        },
        "facts": {"driver": "580" if number < NEW_DRIVER_FROM else "590", "kernel": "6.14"},
    }
    return Night(**(fields | changes))


def nights(first: int, end: int, **changes: Any) -> list[Night]:
    """Nights from ``first`` up to before ``end``."""
    return [night(number, **changes) for number in range(first, end)]


def accepted(of: Sequence[Night], **changes: Any) -> Baseline:
    """Nights as an accepted baseline."""
    fields = {"name": "shipped", "author": "operator", "reason": "as shipped", "accepted_at": of[-1].at, **changes}
    return baseline_of(of, **fields)
