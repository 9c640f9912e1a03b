"""Leads the launches of a search: from the study to the session and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from harness.cli.loading import summaries_of
from harness.cli.studies import StudyPlace, now_s, open_study, space_of
from harness.cli.tuning_words import ended_words, known_words, limit_words, time_words, unlaunched_words
from harness.errors import EngineError, HarnessError
from harness.records.clock import Clock
from harness.records.journal import RunData
from harness.records.launch import LaunchRecord
from harness.records.observation import CellObservation, Observation
from harness.records.plan import PlannedLaunch
from harness.records.summary import CellSummary
from harness.records.trial import TrialRecord
from harness.records.tune import NOTHING_TO_CONFIRM, TuneStep
from harness.report.labels import counted
from harness.run.pace import TimeLeft
from harness.run.session import ChosenLaunch
from harness.run.setup import PlannedSweep
from harness.search.depth import cheap_cells
from harness.search.race import is_behind
from harness.search.storage import reached
from harness.search.tuner import FAILURES_IN_A_ROW, Proposal, Search, Tuner
from harness.stats.confirm import FIRST_CONFIRMING_ROUND
from harness.stats.observe import cell_of, observation_of
from harness.stats.paired import Measured
from harness.stats.reserve import kept_s, most_confirming
from harness.stats.summary import trial_metrics
from harness.store.layout import RunFolder
from harness.store.reader import read_run
from harness.units import format_seconds

_SEARCH_ROUND = 1
_WORKED = "measured"
_DEAD_HINT = "What was measured is kept. Once it can be reached again, carry on with --resume."


@dataclass(slots=True)
class _Pending:
    proposal: Proposal
    planned: PlannedLaunch


class LaunchChooser:
    """What to launch next; reads the journal, so that a resumed run goes on where the old one stopped."""

    def __init__(self, folder: RunFolder, planned: PlannedSweep, clock: Clock, place: StudyPlace) -> None:
        """Open the study.

        Raises:
            StoreError: the storage cannot be reached.
            InputError: the study is of something else, or the sampler is unknown.
        """
        assert planned.plan.tune is not None
        self._folder, self._plan, self._tune, self._clock = folder, planned.plan, planned.plan.tune, clock
        self._space = space_of(planned)
        self._study = open_study(planned, self._space, place)
        run = read_run(folder)
        self._begun_s = datetime.fromisoformat(run.manifest.started_at).timestamp()
        search = Search(
            space=self._space,
            sampler=self._tune.sampler,
            max_launches=self._tune.max_launches,
            margin_ratio=self._plan.margin_ratio,
            begun_s=self._begun_s,
        )
        self._tuner = Tuner(self._study, search)
        self._pending: _Pending | None = None
        self._unproven: list[tuple[int, str, Observation]] = []  # failures, while nothing has worked in this process
        self._earlier = len(run.launches)
        self._version: str | None = None
        self._words: list[str] = []
        self._said = False
        self._cut_because: str | None = None  # the time that is left is for confirming
        with reached(self._study.url):
            self._take_version(run)
            self._tell_left(run)
            self._say_known()
        self._words += time_words(self._plan, self._tune)

    def __call__(self, time: TimeLeft | None = None) -> ChosenLaunch | str | None:
        """Return the next launch; once, why the search ended; None where its finalists are confirmed.

        Args:
            time: what the budget allows; None: there is no limit.

        Raises:
            StoreError: the storage cannot be reached any more.
            EngineError: nothing works, or the incumbent does not.
        """
        with reached(self._study.url, hint=_DEAD_HINT):
            return self._next(time)

    def close(self) -> None:
        """Give back what was not finished, so that others need not wait for it. Called once, at the end."""
        with suppress(HarnessError), reached(self._study.url):
            run = read_run(self._folder)
            self._tell_pending(run, summaries_of(run))
            for number, _, _ in self._unproven:
                self._study.give_up(number)

    def _next(self, time: TimeLeft | None) -> ChosenLaunch | str | None:
        run = read_run(self._folder)
        cells = summaries_of(run)
        self._take_version(run)
        self._tell_pending(run, cells)
        self._require_what_works(run)
        if self._words:
            return self._words.pop(0)
        if not self._confirming(run):
            chosen = self._next_of_search(run, time)
            if chosen is not None:
                return chosen
            if not self._said:
                self._said = True
                self._words += self._ended_words(run)
                return self._words.pop(0)
        return self._next_confirmation(run)

    def _take_version(self, run: RunData) -> None:
        versions = [launch.live.engine_version for launch in run.launches if launch.live]
        version = next((one for one in versions if one), None)
        if version is None or version == self._version:
            return
        self._version = version
        aside = self._study.measured_on(version)
        if aside:
            launches = counted(aside, "launch", "launches")
            self._words.append(f"the engine is {version} here: {launches} of another version tell nothing of it")

    def _say_known(self) -> None:
        ages_s = [now_s() - begun_s for begun_s in self._study.begun_s() if begun_s < self._begun_s]
        self._words += known_words(ages_s, self._tune.study)

    # -- search --------------------------------------------------------------------------------------------------------

    def _next_of_search(self, run: RunData, time: TimeLeft | None) -> ChosenLaunch | None:
        """What is wanted next, as long as it leaves the time that confirming needs, if there is anything to confirm."""
        proposal = None if self._cut_because else self._tuner.next()
        if proposal is None:
            return None
        chosen = self._searched(proposal)
        kept = kept_s(self._plan, self._tune)
        if time is None or proposal.phase == "reference" or time.fits(chosen.planned.predicted_s + kept):
            return chosen
        if not self._finalists(run):
            return chosen
        self._pending = None
        self._study.give_up(proposal.trial_number)
        confirming = counted(most_confirming(self._plan, self._tune), "launch that confirms", "launches that confirm")
        self._cut_because = (
            f"{format_seconds(max(0.0, time.left_s))} of the budget are left, which are kept for the {confirming} "
            f"(about {format_seconds(time.takes_s(kept))})"
        )
        return None

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
            cell = cell_of(trial_metrics(trial), trial.cell.configuration.num_speculative_tokens or 0)
            if cell is not None:
                measured[trial.cell.load.load_id] = cell
            return "it is clearly behind the incumbent" if is_behind(reference, measured) else None

        return abandon

    def _tell_pending(self, run: RunData, cells: Sequence[CellSummary]) -> None:
        if self._pending is None:
            return
        number, key = self._pending.proposal.trial_number, self._pending.planned.launch_key
        configuration_id = self._pending.proposal.candidate.configuration_id
        self._pending = None
        observed = self._observed(run, cells, key)
        if observed is None:
            self._study.release([number])
        elif self._has_worked(run):
            self._tell(number, observed)
        else:
            self._unproven.append((number, configuration_id, observed))

    def _tell(self, number: int, observed: Observation) -> None:
        """With it go the failures that waited to know whether anything works here."""
        waiting, self._unproven = self._unproven, []
        for earlier, configuration_id, failure in waiting:
            if configuration_id == self._space.reference_id:
                self._study.give_up(earlier)  # nothing can be compared with it: mended, it is launched again
            else:
                self._tuner.tell(earlier, failure, engine_version=self._version)
        self._tuner.tell(number, observed, engine_version=self._version)

    def _tell_left(self, run: RunData) -> None:
        """What an earlier process of this run measured and did not tell; what it did not finish is asked for again."""
        cells = summaries_of(run)
        running = set(self._study.running_of(self._folder.run_id))
        for step in run.tune_steps:
            if step.trial_number is None or step.trial_number not in running:
                continue
            observed = self._observed(run, cells, step.launch_key)
            if observed is not None and observed.booted:
                self._tuner.tell(step.trial_number, observed, engine_version=self._version)
                running.discard(step.trial_number)
        self._study.release(sorted(running))

    def _observed(self, run: RunData, cells: Sequence[CellSummary], launch_key: str) -> Observation | None:
        """What a planned launch showed; None where it never ended."""
        ids = [start.launch_id for start in run.launch_starts if start.launch_key == launch_key]
        records = [launch for launch in run.launches if launch.launch_id in ids]
        if not records or records[-1].outcome == "interrupted":
            return None
        return observation_of(records, cells, limits=self._tune.limits, measured=_measured(run, cells))

    def _launches_here(self, run: RunData) -> list[LaunchRecord]:
        """Of this process: what failed before somebody resumed is mended, as far as anybody knows."""
        return [
            launch for launch in run.launches[self._earlier :] if launch.outcome not in ("interrupted", "slow_canary")
        ]

    def _has_worked(self, run: RunData) -> bool:
        return any(launch.outcome == _WORKED for launch in self._launches_here(run))

    def _require_what_works(self, run: RunData) -> None:
        launches = self._launches_here(run)
        failed = [launch for launch in launches if launch.outcome != _WORKED]
        if len(failed) == len(launches) >= FAILURES_IN_A_ROW:
            raise EngineError(
                f"the first {len(failed)} launches all failed: {_reasons(failed)}",
                where=self._folder.run_id,
                hint="Look at their logs, mend what they have in common, then carry on with --resume.",
            )
        reference = [one for one in failed if one.configuration.configuration_id == self._space.reference_id]
        working = [one for one in launches if one.outcome == _WORKED]
        confirming = any(launch.round >= FIRST_CONFIRMING_ROUND for launch in launches)
        if reference and working and not confirming:
            raise EngineError(
                f"the incumbent {reference[0].configuration.label} does not work, while "
                f"{working[0].configuration.label} does: {_reasons(reference)}",
                where=self._folder.run_id,
                hint="Name another incumbent: in the sweep, or mend this one and carry on with --resume.",
            )

    def _ended_words(self, run: RunData) -> list[str]:
        known = self._tuner.beliefs()
        launched = {one.configuration_id for one in self._study.observations()}
        broken = self._tuner.broken_limits()
        return [
            *ended_words(self._tuner.ended_because, cut_because=self._cut_because, shares=self._study.importances()),
            *unlaunched_words(self._plan, known, launched),
            *limit_words(self._plan, known, broken, reference_id=self._space.reference_id),
            *([] if self._finalists(run) else [NOTHING_TO_CONFIRM]),
        ]

    # -- confirmation --------------------------------------------------------------------------------------------------

    def _confirming(self, run: RunData) -> bool:
        """From the first finalist on. By then the engine's version is known, and what was known of it was searched."""
        return any(self._is_finalist(step) for step in run.tune_steps)

    def _is_finalist(self, step: TuneStep) -> bool:
        return step.phase == "confirm" and step.configuration_id != self._space.reference_id

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
            because=f"{who} again, {count}",
        )
        return ChosenLaunch(planned=planned, step=step, abandon=_never, alive=_nobody)

    def _finalists(self, run: RunData) -> list[str]:
        """As chosen when the confirmation began: what others add to the study later changes nothing."""
        steps = [step.configuration_id for step in run.tune_steps if step.phase == "confirm"]
        begun = [name for name in dict.fromkeys(steps) if name != self._space.reference_id]
        promising = self._tuner.finalists(len(self._space.candidates))
        chosen = [name for name in promising if name not in self._plan.control_ids]  # controls are never recommended
        return [*begun, *(name for name in chosen if name not in begun)][: max(len(begun), self._tune.confirm_best)]

    def _launch(self, configuration_id: str, round_number: int) -> PlannedLaunch:
        return next(
            launch
            for launch in self._plan.launches
            if launch.round == round_number and launch.configuration.configuration_id == configuration_id
        )


def _reasons(launches: Sequence[LaunchRecord]) -> str:
    return "; ".join(dict.fromkeys(launch.reason or launch.outcome for launch in launches))


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
