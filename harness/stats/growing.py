"""What a conversation should find in the cache, from the lengths that its prompts were promised. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from harness.stats.case import Case, Limits
from harness.workload.growth import LEAST_GROWTH_TOKENS, turn_tokens
from harness.workload.spec import conversation_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedReuse:
    """Which of a trial's prompt tokens earlier prompts have put into the cache."""

    prompts: int
    asked_tokens: int
    found_tokens: int

    @property
    def ratio(self) -> float:
        """The share of the prompt tokens."""
        return self.found_tokens / self.asked_tokens

    def least_ratio(self, limits: Limits) -> float:
        """Return the share of the prompt tokens below which something was not found.

        At depth a missed turn hardly moves the share that is found, so the tokens that are not found have a limit too.
        """
        lost = limits.block_tokens * self.prompts
        least = limits.promised_ratio * (self.found_tokens - lost)
        most_new = limits.added_ratio * (self.asked_tokens - self.found_tokens) + lost
        return max(0.0, least, self.asked_tokens - most_new) / self.asked_tokens


def promised_reuse(case: Case) -> PromisedReuse | None:
    """Return the reuse of a cell whose streams are conversations; None for other cells, and where nothing was sent.

    The first turn of a conversation finds its prefix, each later one the whole prompt before it. Turns that do not grow
    are first ones: trials from before prompts grew have no others.
    """
    load = case.trial.cell.load
    if conversation_of(load) is None:
        return None
    lengths = {
        (request.stream, request.turn): request.expected_prompt_tokens
        for request in case.trial.requests
        if request.expected_prompt_tokens is not None
    }
    asked = sum(lengths.values())
    if not asked:
        return None
    found = 0
    for (stream, turn), tokens in lengths.items():
        former = lengths.get((stream, turn - 1), tokens)
        # An exact length may be off by some tokens, a growth is never that small.
        grew = tokens - former > LEAST_GROWTH_TOKENS // 2
        found += former if grew else tokens - turn_tokens(load.context_tokens)
    return PromisedReuse(prompts=len(lengths), asked_tokens=asked, found_tokens=found)
