"""What an engine counts, as /metrics shows it: totals since boot, and histograms. They may lag behind."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
_TOKENS = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
_SIZES = tuple(digit * 10.0**power for power in range(6) for digit in (1, 2, 5))
_FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_GAP_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0),
    *(40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)


@dataclass(slots=True)
class Histogram:
    """Observations by upper bound."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)  # by bound, not cumulated; the last one is above all bounds
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Add one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """All observations."""
        return sum(self.counts)


@dataclass(slots=True)
class Counters:
    """Totals since boot."""

    k: int  # that is live
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_by_position: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    running: int = 0
    waiting: int = 0
    kv_tokens: int = 0
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISH_REASONS, 0))
    iteration_tokens: Histogram = field(default_factory=lambda: Histogram(_TOKENS))
    request_prompt_tokens: Histogram = field(default_factory=lambda: Histogram(_SIZES))
    request_generation_tokens: Histogram = field(default_factory=lambda: Histogram(_SIZES))
    first_token_s: Histogram = field(default_factory=lambda: Histogram(_FIRST_TOKEN_S))
    gap_s: Histogram = field(default_factory=lambda: Histogram(_GAP_S))
    request_s: Histogram = field(default_factory=lambda: Histogram(_REQUEST_S))

    def __post_init__(self) -> None:
        self.accepted_by_position = [0] * self.k

    def count_draft(self, drafted: int, accepted: int) -> None:
        """Count one stream's draft. One of which nothing was verified is none."""
        if drafted == 0:
            return
        self.drafts += 1
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        for position in range(accepted):
            self.accepted_by_position[position] += 1


class LaggingCounters:
    """Counters as a scrape sees them: those of ``lag_s`` ago."""

    def __init__(self, counters: Counters, *, lag_s: float) -> None:
        self._counters = counters
        self._lag_s = lag_s
        self._past: deque[tuple[float, Counters]] = deque([(0.0, copy.deepcopy(counters))])

    def changed(self, now_s: float) -> None:
        """Note that the counters have just changed."""
        if self._lag_s > 0:
            self._past.append((now_s, copy.deepcopy(self._counters)))
            self._forget(now_s)

    def seen(self, now_s: float) -> Counters:
        """Return what a scrape shows."""
        if self._lag_s <= 0:
            return self._counters
        self._forget(now_s)
        return self._past[0][1]

    def _forget(self, now_s: float) -> None:
        while len(self._past) > 1 and self._past[1][0] <= now_s - self._lag_s:
            self._past.popleft()
