"""What is searched: configurations that may be launched, and the loads that they are judged by. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.records.observation import Candidate, SearchCell


@dataclass(frozen=True, kw_only=True)  # without slots: its index is asked for often, and kept
class Space:
    """What is searched."""

    candidates: tuple[Candidate, ...]
    cells: tuple[SearchCell, ...]
    reference_id: str
    block_tokens: int | None = None  # of the drafter; None: not known
    objective: str = "seconds"

    def candidate(self, configuration_id: str) -> Candidate:
        """Return a candidate by its id. Raises KeyError."""
        return self._by_id[configuration_id]

    @cached_property
    def _by_id(self) -> dict[str, Candidate]:
        return {one.configuration_id: one for one in self.candidates}

    def is_beyond(self, candidate: Candidate) -> bool:
        """Whether it drafts deeper than the drafter's block, or, where none is known, than the reference does."""
        if not candidate.num_speculative_tokens:
            return False
        reference = self.candidate(self.reference_id).num_speculative_tokens
        return candidate.num_speculative_tokens > (self.block_tokens or reference)
