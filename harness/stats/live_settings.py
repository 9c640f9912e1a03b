"""Does the server run what it ran when its nights were accepted? Pure.

A launch of the harness proves what it asked for. Of a server that runs already nobody asked anything: whoever starts it
again with another depth changes every figure, and that is no regression of what was accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from harness.records.cell import NUM_SPECULATIVE_TOKENS
from harness.records.nightly import Baseline, Night

_LAST_NIGHTS = 14


def with_setting_doubts(night: Night, history: Sequence[Night], baseline: Baseline | None) -> Night:
    """Return the night, with a doubt where its server drafts more or fewer tokens than that of the nights before.

    Args:
        night: tonight.
        history: earlier nights of the sweep, oldest first.
        baseline: accepted; its nights are what counts, where they are known.
    """
    live = night.facts.get(NUM_SPECULATIVE_TOKENS)
    before = _usual(night, history, baseline)
    if live is None or before is None or live == before:
        return night
    return replace(night, doubts=(*night.doubts, f"{NUM_SPECULATIVE_TOKENS}: {before} → {live}"))


def _usual(night: Night, history: Sequence[Night], baseline: Baseline | None) -> str | None:
    same = [one for one in history if one.key == night.key and one.is_valid]
    accepted = [one for one in same if baseline is not None and one.run_id in baseline.run_ids]
    known = [one.facts[NUM_SPECULATIVE_TOKENS] for one in accepted or same if NUM_SPECULATIVE_TOKENS in one.facts]
    return Counter(known[-_LAST_NIGHTS:]).most_common(1)[0][0] if known else None
