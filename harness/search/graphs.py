"""How many tokens a step really computes: as many as the captured CUDA graph that runs it is wide. Pure.

vLLM's boot log names the sizes that it captures; with speculation it rounds each up to a multiple of k + 1 and drops
those that are wider than the largest then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

from harness.records.observation import Candidate


class Graphs:
    """Sizes by the boot logs of what was launched. What never was has them at the same distances, as far as needed."""

    def __init__(self, sizes: Mapping[str, tuple[int, ...]]) -> None:
        """Take what logs said.

        Args:
            sizes: by configuration id; () where the log named none.
        """
        self._sizes = {name: tuple(sorted(of)) for name, of in sizes.items() if of}
        self._every = sorted({size for of in self._sizes.values() for size in of})

    def knows(self, candidate: Candidate) -> bool:
        """Return whether its own log named any."""
        return candidate.configuration_id in self._sizes

    def width(self, candidate: Candidate, tokens: int) -> int:
        """Return the width of the narrowest graph that holds so many tokens; as many as there are where none does."""
        own = self._sizes.get(candidate.configuration_id)
        sizes = own if own is not None else self._continued(tokens)
        row = candidate.num_speculative_tokens + 1
        widths = (-(-size // row) * row for size in sizes)
        limit = sizes[-1] if own is not None else math.inf
        return next((width for width in widths if tokens <= width <= limit), tokens)

    def _continued(self, tokens: int) -> list[int]:
        """Its largest size follows from its depth, which no log told yet: so it is taken to be large enough."""
        if not self._every:
            return []
        step = max((after - before for before, after in pairwise(self._every[-3:])), default=self._every[-1])
        last = self._every[-1]
        return [*self._every, *range(last + step, tokens + step, step)]
