"""Time as an argument, so that tests and the simulator can pass their own."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """A monotonic clock, a way to wait on it, and the one wall-clock stamp that a record carries."""

    def now_s(self) -> float:
        """Monotonic seconds; the origin means nothing."""

    async def sleep(self, seconds: float) -> None:
        """Wait on this clock."""

    def stamp(self) -> str:
        """The wall clock as ISO 8601 with zone, to the second."""
