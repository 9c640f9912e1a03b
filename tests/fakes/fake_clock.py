"""A clock that moves only when somebody waits on it."""

from __future__ import annotations


class FakeClock:
    """Satisfies harness.records.clock.Clock in virtual time."""

    def __init__(self, at_s: float = 100.0, stamp: str = "2026-11-30T13:28:11+00:00") -> None:
        self.at_s = at_s
        self.slept_s: list[float] = []
        self._stamp = stamp

    def now_s(self) -> float:
        return self.at_s

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.at_s += seconds

    def stamp(self) -> str:
        return self._stamp
