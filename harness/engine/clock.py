"""Real time: the one Clock that is not a test's."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime


class SystemClock:
    """The machine's monotonic clock and its wall clock."""

    def now_s(self) -> float:
        """Monotonic seconds; the origin means nothing."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait in real time."""
        await asyncio.sleep(seconds)

    def stamp(self) -> str:
        """The wall clock as ISO 8601 with zone, to the second."""
        return datetime.now().astimezone().isoformat(timespec="seconds")
