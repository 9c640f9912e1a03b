"""How likely a configuration boots, after others did or did not. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.records.observation import Candidate, Observation
from harness.search.space import Space

_DEPTH = "num_speculative_tokens"
_SURE = 0.9  # that a value which never booted was what kept a launch from booting
_NEIGHBOUR, _NEIGHBOUR_LENGTH = 0.7, 3.0  # of a depth that failed: limits are often ranges


def boot_chances(space: Space, observations: Sequence[Observation]) -> dict[str, float]:
    """Return the chance that each candidate boots.

    A launch that failed puts its knob values under suspicion, save those that booted in another launch. A candidate
    that has a suspect value shares in it; a depth near a suspect one shares some of it.
    """
    booted = [space.candidate(one.configuration_id) for one in observations if one.booted]
    failed = [space.candidate(one.configuration_id) for one in observations if not one.booted]
    return {
        one.configuration_id: math.prod(_survives(one, each, booted) for each in failed) for one in space.candidates
    }


def _survives(one: Candidate, failed: Candidate, booted: Sequence[Candidate]) -> float:
    good = {(name, value) for each in booted for name, value in each.knobs.items()}
    suspects = {pair for pair in failed.knobs.items() if pair not in good} or set(failed.knobs.items())
    shared = sum(pair in suspects for pair in one.knobs.items()) / len(suspects)
    chance = 1 - _SURE * shared
    depths = {value for name, value in suspects if name == _DEPTH}
    if depths and (_DEPTH, one.num_speculative_tokens) not in good:
        apart = abs(one.num_speculative_tokens - failed.num_speculative_tokens)
        chance *= 1 - _NEIGHBOUR * math.exp(-apart / _NEIGHBOUR_LENGTH) / len(suspects)
    return chance
