"""Leads the launches of a search: from the study to the session and back."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from harness.cli.loading import summaries_of
from harness.engine.clock import SystemClock
from harness.errors import EngineError
from harness.records.cell import CellGroup
from harness.records.clock import Clock
from harness.records.journal import RunData
from harness.records.observation import CellObservation, Observation
from harness.records.plan import Plan, PlannedLaunch, PlannedTrial
from harness.records.summary import CellSummary
from harness.records.trial import TrialRecord
from harness.records.tune import SEARCH_ENDED, PlannedTune, TuneStep
from harness.run.session import ChosenLaunch
from harness.run.setup import PlannedSweep
from harness.run.tuning import candidates_of
from harness.search.depth import cheap_cells
from harness.search.parameters import Parameters
from harness.search.race import is_behind
from harness.search.samplers import sampler_of
from harness.search.space import Space
from harness.search.study import Place, SharedStudy
from harness.search.tuner import FAILURES_IN_A_ROW, Proposal, Search, Tuner
from harness.stats.confirm import FIRST_CONFIRMING_ROUND
from harness.stats.observe import cell_of, observation_of, search_cells
from harness.stats.paired import Measured
from harness.stats.summary import trial_metrics
from harness.store.layout import RunFolder
from harness.store.reader import read_run

STUDIES = "studies"
_SEARCH_ROUND = 1
_CAME_UP = ("measured",)


@dataclass(slots=True)
class _Pending:
    proposal: Proposal
    planned: PlannedLaunch


class LaunchChooser:
    """What to launch next; reads the journal, so that a resumed run goes on where the old one stopped."""

    def __init__(
        self, folder: RunFolder, planned: PlannedSweep, clock: Clock, *, storage: str | None, root: Path
    ) -> None:
        """Open the study.

        Raises:
            StoreError: the storage cannot be reached.
            InputError: the study is of something else, or the sampler is unknown.
        """
        assert planned.plan.tune is not None
        self._folder, self._plan, self._tune, self._clock = folder, planned.plan, planned.plan.tune, clock
        self._space = _space(planned)
        place = Place(
            url=storage_url(storage, root, self._tune),
            name=self._tune.study,
            fingerprint=self._tune.fingerprint,
            owner=f"{socket.gethostname()}:{os.getpid()}:{folder.run_id}",
            now_s=lambda: datetime.fromisoformat(SystemClock().stamp()).timestamp(),
        )
        self._study = SharedStudy(
            place, Parameters(self._space.candidates), sampler_of(self._tune.sampler, self._plan.seed)
        )
        search = Search(
            space=self._space,
            sampler=self._tune.sampler,
            max_launches=self._tune.max_launches,
            margin_ratio=self._plan.margin_ratio,
        )
        self._tuner = Tuner(self._study, search)
        self._pending: _Pending | None = None
        self._said = False
        self._tell_left(read_run(folder))

    def __call__(self) -> ChosenLaunch | str | None:
        """Return the next launch; once, why the search ended; None where its finalists are confirmed."""
        run = read_run(self._folder)
        cells = summaries_of(run)
        self._tell_pending(run, cells)
        self._require_one_that_boots(run)
        if not self._confirming(run):
            proposal = self._tuner.next()
            if proposal is not None:
                return self._searched(proposal)
            if not self._said:
                self._said = True
                return self._ended_words()
        return self._next_confirmation(run)

    # -- search --------------------------------------------------------------------------------------------------------

    def _searched(self, proposal: Proposal) -> ChosenLaunch:
        planned = self._launch(proposal.candidate.configuration_id, _SEARCH_ROUND)
        kept = {trial.load.load_id for trial in planned.trials}
        if proposal.phase == "search":
            predicted = {trial.load.load_id: trial.predicted_s for trial in planned.trials}
            kept &= set(cheap_cells(self._space.cells, predicted))
        left_out = tuple(trial.load.load_id for trial in planned.trials if trial.load.load_id not in kept)
        planned = replace(planned, trials=tuple(one for one in planned.trials if one.load.load_id in kept))
        self._pending = _Pending(proposal, planned)
        belief = proposal.belief
        step = TuneStep(
            at=self._clock.stamp(),
            launch_key=planned.launch_key,
            configuration_id=proposal.candidate.configuration_id,
            phase=proposal.phase,
            because=proposal.because,
            trial_number=proposal.trial_number,
            expected_log_gain=proposal.expected_log_gain,
            believed_log_gain=belief.mean if belief else None,
            believed_sd=belief.sd if belief else None,
            left_out=left_out,
        )
        number = proposal.trial_number
        return ChosenLaunch(
            planned=planned,
            step=step,
            abandon=self._race() if proposal.phase == "search" else _never,
            alive=lambda: self._study.renew(number),
        )

    def _race(self) -> Callable[[TrialRecord], str | None]:
        """After each trial: is the launch so far behind the incumbent that the rest would be wasted?"""
        known = (one.cells for one in self._study.observations() if one.configuration_id == self._space.reference_id)
        reference = next(known, {})
        measured: dict[str, CellObservation] = {}

        def abandon(trial: TrialRecord) -> str | None:
            cell = cell_of(trial_metrics(trial))
            if cell is not None:
                measured[trial.cell.load.load_id] = cell
            return "it is clearly behind the incumbent" if is_behind(reference, measured) else None

        return abandon

    def _tell_pending(self, run: RunData, cells: Sequence[CellSummary]) -> None:
        if self._pending is None:
            return
        number = self._pending.proposal.trial_number
        observed = self._observed(run, cells, self._pending.planned.launch_key)
        self._pending = None
        if observed is None:
            self._study.give_up(number)
        else:
            self._tuner.tell(number, observed)

    def _tell_left(self, run: RunData) -> None:
        """What an earlier process of this run measured and did not tell; what it did not finish is asked for again."""
        cells = summaries_of(run)
        running = set(self._study.running_of(self._folder.run_id))
        for step in run.tune_steps:
            if step.trial_number is None or step.trial_number not in running:
                continue
            observed = self._observed(run, cells, step.launch_key)
            if observed is None:
                self._study.release([step.trial_number])
            else:
                self._tuner.tell(step.trial_number, observed)
            running.discard(step.trial_number)
        self._study.release(sorted(running))

    def _observed(self, run: RunData, cells: Sequence[CellSummary], launch_key: str) -> Observation | None:
        """What a planned launch showed; None where it never ended."""
        ids = [start.launch_id for start in run.launch_starts if start.launch_key == launch_key]
        records = [launch for launch in run.launches if launch.launch_id in ids and launch.outcome != "interrupted"]
        if not records:
            return None
        return observation_of(records, cells, limits=self._tune.limits, measured=_measured(run, cells))

    def _require_one_that_boots(self, run: RunData) -> None:
        failed = [launch for launch in run.launches if launch.outcome != "interrupted"]
        if len(failed) >= FAILURES_IN_A_ROW and not any(launch.outcome in _CAME_UP for launch in failed):
            reasons = "; ".join(
                dict.fromkeys(launch.reason or launch.outcome for launch in failed[-FAILURES_IN_A_ROW:])
            )
            raise EngineError(
                f"the first {len(failed)} launches all failed: {reasons}",
                where=self._folder.run_id,
                hint="Look at their logs, mend what they have in common, then carry on with --resume.",
            )

    def _ended_words(self) -> str:
        shares = self._study.importances()
        knobs = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        weighed = f". What moved the objective, as far as so few launches can tell: {knobs}" if knobs else ""
        return f"{SEARCH_ENDED}: {self._tuner.ended_because}{weighed}"

    # -- confirmation --------------------------------------------------------------------------------------------------

    def _confirming(self, run: RunData) -> bool:
        return any(step.phase == "confirm" for step in run.tune_steps)

    def _next_confirmation(self, run: RunData) -> ChosenLaunch | None:
        """In turn, and back again: a rig that drifts steadily then favours none."""
        finalists = self._finalists(run)
        if not finalists:
            return None
        names = [self._space.reference_id, *finalists]
        for round_number in range(FIRST_CONFIRMING_ROUND, FIRST_CONFIRMING_ROUND + self._tune.confirm_launches):
            for name in names if round_number % 2 == 0 else reversed(names):
                if not _ended(run, name, round_number):
                    return self._confirmation(name, round_number)
        return None

    def _confirmation(self, name: str, round_number: int) -> ChosenLaunch:
        planned = self._launch(name, round_number)
        count = f"{round_number - FIRST_CONFIRMING_ROUND + 1} of {self._tune.confirm_launches}"
        who = "the incumbent" if name == self._space.reference_id else "a finalist"
        step = TuneStep(
            at=self._clock.stamp(),
            launch_key=planned.launch_key,
            configuration_id=name,
            phase="confirm",
            because=f"{who} is measured again to confirm, {count}",
        )
        return ChosenLaunch(planned=planned, step=step, abandon=_never, alive=_nobody)

    def _finalists(self, run: RunData) -> list[str]:
        """As chosen when the confirmation began: what others add to the study later changes nothing."""
        steps = [step.configuration_id for step in run.tune_steps if step.phase == "confirm"]
        begun = [name for name in dict.fromkeys(steps) if name != self._space.reference_id]
        chosen = self._tuner.finalists(self._tune.confirm_best)
        return [*begun, *(name for name in chosen if name not in begun)][: max(len(begun), self._tune.confirm_best)]

    def _launch(self, configuration_id: str, round_number: int) -> PlannedLaunch:
        return next(
            launch
            for launch in self._plan.launches
            if launch.round == round_number and launch.configuration.configuration_id == configuration_id
        )


def storage_url(storage: str | None, root: Path, tune: PlannedTune) -> str:
    """Return where a study is kept: as the user says, else a file under the results folder."""
    if storage is not None:
        return storage.replace("postgresql://", "postgresql+pg8000://", 1)
    folder = root / "results" / STUDIES
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{(folder / f'{tune.study}.db').resolve()}"


def _space(planned: PlannedSweep) -> Space:
    plan: Plan = planned.plan
    assert plan.tune is not None
    groups = [CellGroup(configuration=one, loads=()) for one in plan.configurations]
    trials: list[PlannedTrial] = [trial for launch in plan.launches for trial in launch.trials]
    loads = {trial.load.load_id: trial.load for trial in trials}
    return Space(
        candidates=candidates_of(planned.recipe.recipe, groups),
        cells=search_cells(loads.values(), plan.weights),
        reference_id=plan.tune.reference_id,
        block_tokens=planned.recipe.recipe.measuring.drafter_block_tokens,
        objective=plan.tune.objective,
    )


def _ended(run: RunData, configuration_id: str, round_number: int) -> bool:
    return any(
        launch.round == round_number
        and launch.configuration.configuration_id == configuration_id
        and launch.outcome not in ("interrupted", "slow_canary")
        for launch in run.launches
    )


def _measured(run: RunData, cells: Sequence[CellSummary]) -> dict[tuple[str, str], Measured]:
    records = {(trial.launch_id, trial.trial_id): trial for trial in run.trials}
    return {
        (trial.launch_id, cell.cell.load.load_id): Measured(
            trial=records[trial.launch_id, trial.trial_id], metrics=trial.metrics
        )
        for cell in cells
        for trial in cell.valid_trials
    }


def _never(_: TrialRecord) -> str | None:
    return None


def _nobody() -> None:
    """Nobody waits for a launch that confirms."""
