"""From an effect to a word: better, worse, no difference within the margin, cannot tell. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import false_discovery_control

from harness.records.verdict import Effect, Verdict

FALSE_DISCOVERY_RATIO = 0.05


def verdict_of(effect: Effect, margin_ratio: float) -> Verdict:
    """Return the verdict of design section 6.

    Equivalence comes first: an effect that is surely smaller than the margin does not matter, even where it is surely
    there. "Better" and "worse" ask for an interval off zero and for an estimate of at least the margin.
    """
    margin = math.log1p(margin_ratio)
    if -margin < effect.low90 and effect.high90 < margin:
        return "no difference"
    if effect.low > 0 and effect.log_ratio >= margin:
        return "better"
    if effect.high < 0 and effect.log_ratio <= -margin:
        return "worse"
    return "cannot tell"


def controlled_verdicts(effects: Sequence[Effect | None], margin_ratio: float) -> list[tuple[Verdict, float | None]]:
    """Return the verdict of each cell with its q: "better" and "worse" only where q allows it (Benjamini, Hochberg)."""
    known = [effect.p for effect in effects if effect is not None]
    adjusted = iter(false_discovery_control(known, method="bh").tolist() if known else ())
    found: list[tuple[Verdict, float | None]] = []
    for effect in effects:
        if effect is None:
            found.append(("cannot tell", None))
            continue
        q = float(next(adjusted))
        verdict = verdict_of(effect, margin_ratio)
        moved = verdict in ("better", "worse")
        found.append(("cannot tell" if moved and q > FALSE_DISCOVERY_RATIO else verdict, q))
    return found
