"""Asks for one launch after the other: the incumbent, no speculation, then whatever promises most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.records.observation import Candidate, Observation, Phase
from harness.search.choice import best_launched, is_worth_it, next_choice
from harness.search.model import Belief, beliefs, value_of
from harness.search.parameters import Parameters
from harness.search.samplers import AUTO, GRID
from harness.search.space import Space
from harness.search.step_time import LAUNCH_SD
from harness.search.study import Asked, SharedStudy
from harness.units import format_change, format_ratio

FAILURES_IN_A_ROW = 3
_SURE_SDS = 2.0  # of the difference between two launches
_MOST_ASKS = 200  # of a sampler, for something that may be launched and was not yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What to launch next."""

    candidate: Candidate
    trial_number: int
    phase: Phase
    because: str
    expected_log_gain: float | None = None
    belief: Belief | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How a search is led."""

    space: Space
    sampler: str
    max_launches: int
    margin_ratio: float
    begun_s: float = 0.0  # wall clock: launches from then on count towards the most, those that were known do not


class Tuner:
    """Leads a search in a study that others may share."""

    def __init__(self, study: SharedStudy, search: Search) -> None:
        self._study = study
        self._search = search
        self._parameters = Parameters(search.space.candidates)
        self.ended_because: str | None = None

    def next(self) -> Proposal | None:
        """Return the next launch of the search; None where it has ended, and ``ended_because`` says why."""
        self._study.release_expired()
        for _ in range(_MOST_ASKS):
            if self._study.launches_since(self._search.begun_s) >= self._search.max_launches:
                return self._end(f"{self._search.max_launches} launches are the most that were asked for")
            proposal = self._propose(self._study.observations())
            if proposal is None:
                return None
            if self._study.claim(proposal.trial_number, proposal.candidate.configuration_id):
                return proposal
            self._study.give_up(proposal.trial_number)
        return self._end("the sampler asks for nothing new any more")

    def tell(self, number: int, observation: Observation, *, engine_version: str | None = None) -> None:
        """Take what a launch showed."""
        space = self._search.space
        value = value_of(space.cells, observation.cells, space.objective)
        self._study.tell(number, observation, value, engine_version=engine_version)

    def beliefs(self) -> dict[str, Belief]:
        """Return what is believed of every candidate."""
        return beliefs(self._search.space, self._study.observations())

    def finalists(self, count: int) -> list[str]:
        """Return the best launched configurations that promise a gain over the reference, best first.

        By what is believed of them, or by what was measured where that is more than luck explains: that a model does
        not see why something is fast is no reason not to confirm it.
        """
        observed = self._study.observations()
        known = beliefs(self._search.space, observed)
        ranked = best_launched(self._search.space, observed, count=len(known))
        promises = {name: max(known[name].mean, self._surely_measured(name, observed)) for name in ranked}
        broken = self.broken_limits()
        promising = [name for name in ranked if promises[name] > 0 and name not in broken]
        promising.sort(key=lambda name: -promises[name])
        return [name for name in promising if name != self._search.space.reference_id][:count]

    def _surely_measured(self, name: str, observed: Sequence[Observation]) -> float:
        """The gain over the reference's launch that is left when both launches were as lucky as they may be."""
        space = self._search.space
        seen = {one.configuration_id: one.cells for one in observed}
        own, reference = seen.get(name, {}), seen.get(space.reference_id, {})
        both = [cell for cell in space.cells if cell.load_id in own and cell.load_id in reference]
        values = [value_of(both, cells, space.objective) for cells in (own, reference)]
        if values[0] is None or values[1] is None:
            return -math.inf
        return values[0] - values[1] - _SURE_SDS * LAUNCH_SD * math.sqrt(2)

    def broken_limits(self) -> dict[str, dict[str, float]]:
        """Return by configuration id the limits that it broke in a launch, and by how much; 0.1 is ten percent."""
        found: dict[str, dict[str, float]] = {}
        for one in self._study.observations():
            over = {name: excess for name, excess in one.slo_excess.items() if excess > 0}
            if over:
                found.setdefault(one.configuration_id, {}).update(over)
        return found

    def _propose(self, observed: Sequence[Observation]) -> Proposal | None:
        if self._study.is_left_over():
            asked = self._study.ask()
            begun = self._meant(asked)
            if begun is not None:
                return self._again(begun, asked)
            self._study.refuse(asked.number)
        gone = {one.configuration_id for one in observed} | self._study.taken()
        reference = self._reference_left(gone)
        if reference is not None:
            return self._asked(reference, "reference", "every gain is measured against it")
        if self._search.sampler == AUTO:
            return self._best_choice(observed)
        if self._search.sampler == GRID:
            left = [one for one in self._search.space.candidates if one.configuration_id not in gone]
            return self._asked(left[0], "search", "the next of the grid") if left else self._end("the grid is done")
        return self._sampled(gone)

    def _reference_left(self, gone: set[str]) -> Candidate | None:
        """The incumbent, then no speculation, otherwise as much like it as may be."""
        space = self._search.space
        reference = space.candidate(space.reference_id)
        off = [one for one in space.candidates if one.num_speculative_tokens == 0]
        alike = sorted(off, key=lambda one: len(one.knobs.items() ^ reference.knobs.items()))
        wanted = [reference, *alike[:1]]
        return next((one for one in wanted if one.configuration_id not in gone), None)

    def _best_choice(self, observed: Sequence[Observation]) -> Proposal | None:
        choice = next_choice(self._search.space, observed, taken=self._study.taken())
        if choice is None:
            return self._end("every configuration was launched")
        if not is_worth_it(choice, self._search.margin_ratio):
            little = format_ratio(math.expm1(choice.expected_gain))
            return self._end(f"another launch is expected to gain {little}, which is not worth its time")
        candidate = self._search.space.candidate(choice.configuration_id)
        gain = format_change(math.exp(choice.belief.mean))
        because = f"expected at {gain} against the incumbent, give or take {format_ratio(choice.belief.sd)}"
        proposal = self._asked(candidate, "search", because)
        if proposal.candidate is not candidate:
            return proposal
        return replace(proposal, expected_log_gain=choice.expected_gain, belief=choice.belief)

    def _asked(self, candidate: Candidate, phase: Phase, because: str) -> Proposal:
        """Through the study, so that whoever looks at it sees every launch. What was in line before comes first."""
        while True:
            self._study.put_in_line(self._parameters.of(candidate), candidate.configuration_id)
            asked = self._study.ask()
            if asked.wanted is not None:
                break
            self._study.give_up(asked.number)  # somebody else took it out of the line: this is the sampler's own idea
        found = self._meant(asked)
        if found is None or found is candidate:
            return Proposal(candidate=candidate, trial_number=asked.number, phase=phase, because=because)
        return self._again(found, asked)

    def _meant(self, asked: Asked) -> Candidate | None:
        """A configuration that lacks a knob has parameters of another: its id, where there is one, tells."""
        named = [one for one in self._search.space.candidates if one.configuration_id == asked.wanted]
        return named[0] if named else self._parameters.candidate(asked.parameters)

    def _again(self, candidate: Candidate, asked: Asked) -> Proposal:
        space = self._search.space
        fixed = candidate.configuration_id == space.reference_id or not candidate.num_speculative_tokens
        because = "it was begun before, and not finished" if asked.retries else "it was in line already"
        return Proposal(
            candidate=candidate,
            trial_number=asked.number,
            phase="reference" if fixed else "search",
            because=because,
        )

    def _sampled(self, gone: set[str]) -> Proposal | None:
        if len(gone) >= len(self._search.space.candidates):
            return self._end("every configuration was launched")
        for _ in range(_MOST_ASKS):
            asked = self._study.ask()
            candidate = self._meant(asked)
            if candidate is None:
                self._study.refuse(asked.number)
                continue
            if self._study.tell_again(asked.number, candidate.configuration_id):
                continue
            if asked.retries:
                return self._again(candidate, asked)
            because = f"{self._search.sampler} asks for it"
            return Proposal(candidate=candidate, trial_number=asked.number, phase="search", because=because)
        return self._end("the sampler asks for nothing new any more")

    def _end(self, because: str) -> Proposal | None:
        self.ended_because = because
        return None
