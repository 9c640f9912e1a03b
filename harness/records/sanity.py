"""Greedy answers to a few fixed prompts, and what comparing them says: is the text the same with other settings?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.records.doubt import Doubt

PieceUnit = Literal["token", "word"]
AnswerSource = Literal["fixed prompts", "requests of the trace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyAnswer:
    """What one boot answered at temperature 0 to a prompt of our own, which has no nonce and is the same everywhere."""

    prompt_id: str
    pieces: tuple[int, ...]  # token ids; where the server gives none, a checksum of each word
    unit: PieceUnit
    repeated_tail_ratio: float | None = None  # as of a request


@dataclass(frozen=True, slots=True, kw_only=True)
class Sameness:
    """Whether greedy text of two arms is the same.

    Answers of two launches of one arm are compared too: what differs there owes nothing to the other arm's settings.
    """

    source: AnswerSource
    unit: PieceUnit
    compared: int  # answers, one of each arm to the same prompt
    same: int
    first_differences: tuple[int, ...]  # of the others: how many pieces they have in common, ascending
    own_compared: int  # answers of two launches of one arm
    own_same: int
    sentence: str  # what to make of it
    doubt: Doubt | None = None

    @property
    def same_ratio(self) -> float | None:
        """The share that is the same; None where nothing could be compared."""
        return self.same / self.compared if self.compared else None
