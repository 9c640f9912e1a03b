"""How many tokens a step brings at a depth that was never launched, from the survival curves of those that were. Pure.

For a drafter that proposes one token after the other, what survives to position i does not depend on k, so that one
launch at a large k tells every smaller one (Leviathan et al., 2211.17192, with measured survival in the place of a
constant rate). A block drafter need not keep to that: its curve is a prior, and a curve measured on the other side of
its block length is used only where there is no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_FADING = 0.97  # of the conditional acceptance, for each position beyond the last that was measured
_DEFAULT_ACCEPTANCE = 0.7  # where one position alone was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Survival by position, as measured at one depth."""

    k: int
    survival: tuple[float, ...]
    drafting_ratio: float = 1.0  # share of the steps that had a draft
    kinship: int = 0  # of the launch with the candidate that asks: 0 differs in depth alone, more is less alike

    def at(self, k: int, *, threshold: float = 0.0) -> tuple[float, ...]:
        """Survival of each position at depth ``k``: the measured positions, and faded ones beyond them.

        A confidence threshold cuts what survives less often. It is judged by averages here, and step by step by the
        engine, so what it does is a guess.
        """
        found = list(self.survival[:k])
        rate, reached = self._last_rate(), found[-1] if found else 1.0
        while len(found) < k:
            rate *= _FADING
            reached *= rate
            found.append(reached)
        return tuple(share for share in found if share >= threshold)

    def _last_rate(self) -> float:
        """Acceptance of the last measured position, given that all before it were accepted; two of them averaged."""
        before = [1.0, *self.survival]
        rates = [after / reached for reached, after in zip(before, self.survival, strict=False) if reached > 0]
        return sum(rates[-2:]) / len(rates[-2:]) if rates else _DEFAULT_ACCEPTANCE


def nearest_curve(curves: Sequence[Curve], k: int, *, block_tokens: int | None) -> Curve | None:
    """Return the curve to use at depth ``k``; None where there is none.

    A curve of the same side of the block comes first, then one of the candidate's own kind, then the nearest depth that
    is deep enough.
    """
    return min(curves, key=lambda curve: _distance(curve, k, block_tokens), default=None)


def same_side(one: int, other: int, block_tokens: int | None) -> bool:
    """Return whether two depths are both within the block, or both beyond it."""
    return block_tokens is None or (one > block_tokens) == (other > block_tokens)


def _distance(curve: Curve, wanted: int, block_tokens: int | None) -> tuple[bool, int, bool, int]:
    other_side = not same_side(curve.k, wanted, block_tokens)
    return (other_side, curve.kinship, curve.k < wanted, abs(curve.k - wanted))
