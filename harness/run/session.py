"""Follow a plan: launch after launch into the journal, until all is measured, the budget is spent, or it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.engine.launch import LaunchSetting
from harness.engine.orphans import remove_orphans
from harness.engine.preparation import PreparationPlace, prepare
from harness.engine.registry import Registry
from harness.engine.shell import Shell
from harness.recipe.spec import LaunchSpec
from harness.records.check import CheckRecord
from harness.records.clock import Clock
from harness.records.events import Event, LaunchEnded, LaunchStarted, Note, OnEvent, TrialDone
from harness.records.identity import content_id
from harness.records.journal import LaunchStart, RunNote, SessionEnd, SessionOutcome
from harness.records.launch import LaunchRecord
from harness.records.plan import Plan, PlannedLaunch
from harness.records.trial import MEASURING_VERSION, TrialRecord
from harness.records.tune import TuneStep, step_words
from harness.run.bench import Bench, ChainAnswer, KeepTexts
from harness.run.canary import CanaryReference, judge
from harness.run.checking import Checks
from harness.run.driver import EngineDriver, RunSetting
from harness.run.guest import Guest
from harness.run.known_boots import known_boots
from harness.run.launching import LaunchTask, run_launch
from harness.run.pace import Pace, TimeLeft
from harness.run.replaying import ReplayedLoads
from harness.run.streams import Prompts
from harness.store.journal import Journal
from harness.store.layout import RunFolder
from harness.store.rig import StoredCanary
from harness.units import format_change, format_seconds
from harness.workload.cache import TextStore
from harness.workload.spec import StreamShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The edges of a session: everything that touches a clock, a process or a disk."""

    clock: Clock
    driver: EngineDriver
    shell: Shell
    registry: Registry
    journal: Journal
    folder: RunFolder
    prompt_cache: TextStore | None
    on_event: OnEvent
    keep_texts: KeepTexts | None = None
    chain_answer: ChainAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTask:
    """A run to carry out, or to carry on with."""

    run_id: str
    rig_id: str
    plan: Plan
    specs: Mapping[str, LaunchSpec]  # by configuration id
    shapes: Mapping[str, StreamShape]  # by load id
    cell_limit_s: float | None
    time_limit_s: float | None
    earlier_launches: Sequence[LaunchRecord]  # of this run
    earlier_starts: Sequence[LaunchStart]  # of this run, those of a killed process too
    stored_canaries: Sequence[StoredCanary]  # of this rig
    keep_canaries: Callable[[StoredCanary], None] = field(default=lambda canary: None)
    replayed: ReplayedLoads | None = None  # where the sweep replays a trace
    checks: Checks = field(default_factory=dict)  # of each configuration, once
    earlier_checks: Sequence[CheckRecord] = ()  # of this run
    judge_round: JudgeRound | None = None  # before each further round: why it is not needed, or None
    choose: Choose | None = None  # of a search
    guest: Guest | None = None  # on a server that others use


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenLaunch:
    """A launch that a search asks for."""

    planned: PlannedLaunch
    step: TuneStep  # written down first
    abandon: Callable[[TrialRecord], str | None]  # after each trial: why the rest of the launch would be wasted
    alive: Callable[[], None]  # called after each trial: whoever shares the study sees that it goes on


# The next launch of a search, as time allows; a text is something to note before it is asked again; None: all is done.
Choose = Callable[[TimeLeft | None], ChosenLaunch | str | None]
# Is told how many rounds are done, and answers why the run may end with them. May raise HarnessError to stop it.
JudgeRound = Callable[[int], str | None]


async def run_session(task: SessionTask, tools: Tools) -> tuple[LaunchRecord, ...]:
    """Carry out the plan and return the records of the launches made now.

    Raises:
        asyncio.CancelledError: stopped from outside; everything measured is in the journal.
        HarnessError: preparation failed, or the disk did.
    """
    session = _Session(task, tools)
    outcome: SessionOutcome = "stopped"
    reason: str | None = None
    try:
        await session.run()
        outcome = "finished"
    except asyncio.CancelledError:
        outcome = "interrupted"
        raise
    except Exception as error:
        reason = str(error)
        raise
    finally:
        tools.journal.append(SessionEnd(at=tools.clock.stamp(), outcome=outcome, reason=reason))
    return tuple(session.records)


class _Session:
    def __init__(self, task: SessionTask, tools: Tools) -> None:
        self._task = task
        self._tools = tools
        self._started_s = tools.clock.now_s()
        self._pace = Pace(task.plan)
        self._attempts: dict[str, int] = {}  # by launch key
        for start in task.earlier_starts:
            self._attempts[start.launch_key] = max(start.attempt, self._attempts.get(start.launch_key, 0))
        self._chosen: ChosenLaunch | None = None
        self.records: list[LaunchRecord] = []
        self._checked = {(check.configuration_id, check.name) for check in task.earlier_checks}

    async def run(self) -> None:
        """Clean up, prepare, launch round after round."""
        task, tools = self._task, self._tools
        if not tools.driver.simulated:
            await self._remove_orphans()
        todo = self._todo()
        tools.on_event(self._pace.started(task.run_id, launches=len(todo)))
        await self._prepare(todo)
        if not todo:
            return
        setting = RunSetting(run_id=task.run_id, clock=tools.clock, on_event=self._tell)
        async with tools.driver.held(setting):
            if task.choose is not None:
                await self._launch_chosen(task.choose)
            else:
                await self._launch_all(todo)

    def _todo(self) -> list[PlannedLaunch]:
        """Launches with something left to do. One that was cut between its cells and its checks is made for those."""
        todo: list[PlannedLaunch] = []
        for launch in self._task.plan.launches:
            others = [each for each in self._task.plan.launches if each.configuration == launch.configuration]
            only_checks = launch is others[0] and all(each.done for each in others) and self._unchecked(launch)
            if launch.fits_budget and (not launch.done or only_checks):
                todo.append(launch)
        return todo

    def _unchecked(self, launch: PlannedLaunch) -> Checks:
        configuration_id = launch.configuration.configuration_id
        return {
            name: check for name, check in self._task.checks.items() if (configuration_id, name) not in self._checked
        }

    async def _launch_chosen(self, choose: Choose) -> None:
        while (chosen := choose(self._time_left())) is not None:
            if isinstance(chosen, str):
                self._note(chosen)
                continue
            if not self._fits(chosen.planned):
                return
            self._chosen = chosen
            self._tools.journal.append(chosen.step)  # it says why, and is shown like a note
            self._tools.on_event(Note(text=step_words(chosen.step)))
            await self._launch_until_accepted(chosen.planned)

    async def _launch_all(self, todo: Sequence[PlannedLaunch]) -> None:
        for round_number in sorted({launch.round for launch in todo}):
            if self._is_enough(round_number - 1):
                return
            launches = [launch for launch in todo if launch.round == round_number]
            for launch in launches:
                if not self._fits(launch):
                    return
                await self._launch_until_accepted(launch)
            await self._repeat_slow(launches)

    def _is_enough(self, rounds: int) -> bool:
        """Whether what was measured by then, now or before a resume, answers the question."""
        because = self._task.judge_round(rounds) if self._task.judge_round and rounds else None
        if because is not None:
            self._note(because)
        return because is not None

    async def _remove_orphans(self) -> None:
        for orphan in await remove_orphans(self._tools.registry, clock=self._tools.clock):
            self._note(f"stopped an engine that a killed run had left behind ({orphan.launch.launch_id})")

    async def _prepare(self, todo: Sequence[PlannedLaunch]) -> None:
        steps = {
            step.creates: step
            for launch in todo
            for step in self._task.specs[launch.configuration.configuration_id].preparation
        }
        place = PreparationPlace(
            shell=self._tools.shell,
            clock=self._tools.clock,
            on_event=self._tools.on_event,
            log_path=self._tools.folder.logs / "preparation.log",
            registry=self._tools.registry,
            run_id=self._task.run_id,
        )
        await prepare(tuple(steps.values()), place)

    async def _launch_until_accepted(self, launch: PlannedLaunch) -> None:
        record = await self._launch(launch, may_repeat=True)
        if record.outcome == "slow_canary":
            await self._launch(launch, may_repeat=False)

    async def _repeat_slow(self, launches: Sequence[PlannedLaunch]) -> None:
        """Boots that were accepted before there was anything to compare them with are judged at the end of a round."""
        for launch in launches:
            record = next((each for each in reversed(self.records) if _is_of(each, launch)), None)
            if record is None or record.outcome != "measured" or record.canary_before is None:
                continue
            if record.canary_ratio is not None or self._was_slow(launch) or not self._fits(launch):
                continue
            references = [each for each in self._references() if each.reading is not record.canary_before]
            verdict = judge(launch.configuration, record.canary_before, references)
            if verdict.is_slow(self._spec(launch).canary_limit_ratio):
                change = format_change(verdict.ratio)
                self._note(
                    f"{launch.configuration.label}: its boot was slow ({change} against {verdict.against}); "
                    "measured again, and the second boot counts"
                )
                again = replace(launch, trials=tuple(replace(trial, done=False) for trial in launch.trials))
                second = await self._launch(again, may_repeat=False)
                if second.outcome == "measured":
                    self._void(record, f"its canary was {change} against {verdict.against}; launched again")

    async def _launch(self, launch: PlannedLaunch, *, may_repeat: bool) -> LaunchRecord:
        # Every boot has an id of its own, also after a process that was killed in the middle of one.
        attempt = self._attempts[launch.launch_key] = self._attempts.get(launch.launch_key, 0) + 1
        # Heads of prompts follow from the launch id: a rehearsal with the same seed sends the same bytes.
        unique = ["simulated", self._task.plan.seed] if self._tools.driver.simulated else [self._task.run_id]
        launch_id = content_id([*unique, launch.launch_key, attempt])
        self._announce(launch, launch_id, attempt)
        self._pace.launch_begins(self._tools.clock.now_s(), launch)
        launch_task = LaunchTask(
            planned=launch,
            attempt=attempt,
            spec=self._spec(launch),
            driver=self._tools.driver,
            setting=self._setting(launch, launch_id),
            seed=self._task.plan.seed,
            shapes=self._task.shapes,
            cell_limit_s=self._task.cell_limit_s,
            references=self._references(),
            may_repeat=may_repeat,
            engine_version=self._engine_version(),
            prompts_for=self._prompts,
            on_trial=self._write_trial,
            trials_before=self._pace.done_trials,
            trials_in_all=self._pace.trials,
            keep_texts=self._tools.keep_texts,
            chain_answer=self._tools.chain_answer,
            checks=self._unchecked(launch),
            on_check=self._write_check,
            abandon=self._chosen.abandon if self._chosen else None,
            guest=self._task.guest,
            note=self._note,
        )
        return await run_launch(launch_task, self._write_launch)

    def _announce(self, launch: PlannedLaunch, launch_id: str, attempt: int) -> None:
        tools = self._tools
        start = LaunchStart(
            launch_id=launch_id,
            launch_key=launch.launch_key,
            ordinal=launch.ordinal,
            round=launch.round,
            attempt=attempt,
            configuration=launch.configuration,
            started_at=tools.clock.stamp(),
        )
        tools.journal.append(start)
        tools.on_event(
            LaunchStarted(
                ordinal=len(self._attempts) if self._chosen else launch.ordinal,
                launches=self._pace.launches,
                configuration=launch.configuration,
                expected_s=self._spec(launch).expected_launch_s,
            )
        )

    def _setting(self, launch: PlannedLaunch, launch_id: str) -> LaunchSetting:
        tools = self._tools
        return LaunchSetting(
            run_id=self._task.run_id,
            launch_id=launch_id,
            log_path=tools.folder.logs / f"{launch.ordinal:02d}-{launch_id}.log",
            shell=tools.shell,
            clock=tools.clock,
            on_event=tools.on_event,
            registry=tools.registry,
        )

    def _spec(self, launch: PlannedLaunch) -> LaunchSpec:
        return self._task.specs[launch.configuration.configuration_id]

    def _prompts(self, bench: Bench, launch_id: str) -> Prompts:
        return Prompts(
            bench,
            cache=self._tools.prompt_cache,
            seed=self._task.plan.seed,
            launch_id=launch_id,
            replayed=self._task.replayed,
        )

    def _write_trial(self, trial: TrialRecord) -> None:
        self._tools.journal.append(trial)
        if self._chosen is not None:
            self._chosen.alive()
        remaining_s = self._pace.trial_done(self._tools.clock.now_s(), trial.trial_id)
        self._tools.on_event(TrialDone(trial=trial, remaining_s=remaining_s))

    def _write_check(self, check: CheckRecord) -> None:
        self._tools.journal.append(check)
        self._checked.add((check.configuration_id, check.name))

    def _write_launch(self, record: LaunchRecord) -> None:
        self._tools.journal.append(record)
        self.records.append(record)
        if record.outcome == "measured" and record.canary_before is not None:
            self._task.keep_canaries(
                StoredCanary(
                    at=record.started_at,
                    configuration_id=record.configuration.configuration_id,
                    engine_version=record.live.engine_version if record.live else None,
                    measuring_version=MEASURING_VERSION,
                    reading=record.canary_before,
                )
            )
        self._tools.on_event(LaunchEnded(launch=record))

    def _void(self, record: LaunchRecord, reason: str) -> None:
        """Write the record again: the last one of a launch counts."""
        voided = replace(record, outcome="slow_canary", reason=reason)
        self._tools.journal.append(voided)
        self.records[self.records.index(record)] = voided

    def _references(self) -> list[CanaryReference]:
        records = (*self._task.earlier_launches, *self.records)
        return known_boots(records, self._task.stored_canaries, engine_version=self._engine_version())

    def _engine_version(self) -> str | None:
        records = (*self._task.earlier_launches, *self.records)
        versions = [record.live.engine_version for record in records if record.live and record.live.engine_version]
        return versions[0] if versions else None

    def _was_slow(self, launch: PlannedLaunch) -> bool:
        """An earlier boot of it was given back, and one repetition is all there is."""
        records = (*self._task.earlier_launches, *self.records)
        return any(record.outcome == "slow_canary" and _is_of(record, launch) for record in records)

    def _time_left(self) -> TimeLeft | None:
        limit_s, spent_s = self._task.time_limit_s, self._tools.clock.now_s() - self._started_s
        return None if limit_s is None else TimeLeft(limit_s=limit_s, spent_s=spent_s, pace=self._pace.scaled(1.0))

    def _fits(self, launch: PlannedLaunch) -> bool:
        time = self._time_left()
        if time is None or time.fits(launch.predicted_s) or not self.records:
            return True
        self._note(
            f"the budget of {format_seconds(time.limit_s)} ends here: {format_seconds(time.spent_s)} are spent and the "
            f"next launch needs about {format_seconds(time.takes_s(launch.predicted_s))}; resume the run for the rest"
        )
        return False

    def _tell(self, event: Event) -> None:
        """Pass on what the driver says; notes are kept, since they tell what happened to somebody's machine."""
        if isinstance(event, Note):
            self._note(event.text)
        else:
            self._tools.on_event(event)

    def _note(self, text: str) -> None:
        self._tools.journal.append(RunNote(at=self._tools.clock.stamp(), text=text))
        self._tools.on_event(Note(text=text))


def _is_of(record: LaunchRecord, launch: PlannedLaunch) -> bool:
    same = record.configuration.configuration_id == launch.configuration.configuration_id
    return same and record.round == launch.round
