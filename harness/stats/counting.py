"""Which nights of a series count: those that may be judged and may judge others. Pure.

A night whose every boot was slow by its canary is doubtful. Where that goes on for three nights, slow is what the rig
now is: these nights count, or a regression of the rig would never be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from harness.records.nightly import Night
from harness.stats.night import SLOW_BOOT

SLOW_NIGHTS = 3  # in a row


def is_slow(night: Night) -> bool:
    """Return whether slow boots are all that speaks against a night."""
    return night.is_complete and night.doubts == (SLOW_BOOT,)


def counted(nights: Sequence[Night]) -> list[Night]:
    """Return the nights that count.

    Args:
        nights: of one series, oldest first.
    """
    found: list[Night] = []
    for slow, group in groupby(nights, key=is_slow):
        run = list(group)
        found += (run if len(run) >= SLOW_NIGHTS else []) if slow else [night for night in run if night.is_valid]
    return found
