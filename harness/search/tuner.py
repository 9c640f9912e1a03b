"""Asks for one launch after the other: the incumbent, no speculation, then whatever promises most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.observation import Candidate, Observation, Phase
from harness.search.choice import best_launched, is_worth_it, next_choice
from harness.search.model import Belief, beliefs, value_of
from harness.search.parameters import Parameters
from harness.search.samplers import AUTO, GRID
from harness.search.space import Space
from harness.search.study import SharedStudy

FAILURES_IN_A_ROW = 3
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
        observed = self._study.observations()
        if len(observed) + len(self._study.taken()) >= self._search.max_launches:
            return self._end(f"{self._search.max_launches} launches were asked for")
        for _ in range(_MOST_ASKS):
            proposal = self._propose(self._study.observations())
            if proposal is None:
                return None
            if self._study.claim(proposal.trial_number, proposal.candidate.configuration_id):
                return proposal
            self._study.give_up(proposal.trial_number)
        return self._end("the sampler asks for nothing new any more")

    def tell(self, number: int, observation: Observation) -> None:
        """Take what a launch showed."""
        space = self._search.space
        self._study.tell(number, observation, value_of(space.cells, observation.cells, space.objective))

    def beliefs(self) -> dict[str, Belief]:
        """Return what is believed of every candidate."""
        return beliefs(self._search.space, self._study.observations())

    def finalists(self, count: int) -> list[str]:
        """Return the best launched configurations that promise a gain over the reference, best first."""
        observed = self._study.observations()
        known = beliefs(self._search.space, observed)
        broken = {one.configuration_id for one in observed if any(over > 0 for over in one.slo_excess.values())}
        ranked = best_launched(self._search.space, observed, count=len(known))
        promising = [name for name in ranked if known[name].mean > 0 and name not in broken]
        return [name for name in promising if name != self._search.space.reference_id][:count]

    def _propose(self, observed: Sequence[Observation]) -> Proposal | None:
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
        """The incumbent, then no speculation."""
        space = self._search.space
        off = [one for one in space.candidates if one.num_speculative_tokens == 0]
        wanted = [space.candidate(space.reference_id), *off]
        return next((one for one in wanted if one.configuration_id not in gone), None)

    def _best_choice(self, observed: Sequence[Observation]) -> Proposal | None:
        choice = next_choice(self._search.space, observed, taken=self._study.taken())
        if choice is None:
            return self._end("every configuration was launched")
        if not is_worth_it(choice, self._search.margin_ratio):
            gain = math.expm1(choice.expected_gain)
            return self._end(f"another launch is expected to gain {gain:.2%}, which is not worth its time")
        candidate = self._search.space.candidate(choice.configuration_id)
        gain, sd = math.expm1(choice.belief.mean), choice.belief.sd
        because = f"it promises {gain:+.1%} over the incumbent, give or take {sd:.1%}"
        proposal = self._asked(candidate, "search", because)
        return Proposal(
            candidate=proposal.candidate,
            trial_number=proposal.trial_number,
            phase="search",
            because=because,
            expected_log_gain=choice.expected_gain,
            belief=choice.belief,
        )

    def _asked(self, candidate: Candidate, phase: Phase, because: str) -> Proposal:
        """Through the study, so that whoever looks at it sees every launch. What was in line before comes first."""
        self._study.put_in_line(self._parameters.of(candidate))
        trial = self._study.ask()
        found = self._parameters.candidate(trial.params) or candidate
        return Proposal(candidate=found, trial_number=trial.number, phase=phase, because=because)

    def _sampled(self, gone: set[str]) -> Proposal | None:
        if len(gone) >= len(self._search.space.candidates):
            return self._end("every configuration was launched")
        for _ in range(_MOST_ASKS):
            trial = self._study.ask()
            candidate = self._parameters.candidate(trial.params)
            if candidate is None:
                self._study.refuse(trial.number)
                continue
            known = self._study.value_of(candidate.configuration_id)
            if known is not None:
                self._study.tell_known(trial.number, known)
                continue
            because = f"{self._search.sampler} asks for it"
            return Proposal(candidate=candidate, trial_number=trial.number, phase="search", because=because)
        return self._end("the sampler asks for nothing new any more")

    def _end(self, because: str) -> Proposal | None:
        self.ended_because = because
        return None
