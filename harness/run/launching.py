"""One launch: boot, proof of what runs, canary, cells, canary, stop. Whatever happens, its record says so."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from harness.engine.identity import Probes, read_identity, require_configuration
from harness.engine.launch import LaunchSetting, secrets_of
from harness.engine.logfile import LogReader
from harness.engine.redact import redacted_text
from harness.engine.running import Engine
from harness.errors import EngineError, HarnessError, LaunchError, WrongConfigurationError
from harness.metrics.session_stats import read_session_stats
from harness.recipe.spec import LaunchSpec
from harness.records.cell import Cell
from harness.records.check import CheckRecord, check_words
from harness.records.events import LaunchReady, Note, TrialStarted
from harness.records.launch import FAILED, CanaryReading, LaunchOutcome, LaunchRecord, LiveIdentity
from harness.records.plan import PlannedLaunch, PlannedTrial
from harness.records.sanity import GreedyAnswer
from harness.records.speculation import SpeculationStats
from harness.records.trial import TrialRecord
from harness.run.bench import Bench, ChainAnswer, KeepTexts, bench_for
from harness.run.canary import CanaryReference, CanaryVerdict, judge
from harness.run.canary_reading import read_canary
from harness.run.checking import CheckPlace, Checks, run_check
from harness.run.driver import EngineDriver, Reached
from harness.run.guest import Guest
from harness.run.sanity import read_greedy
from harness.run.streams import Prompts
from harness.run.trial import TrialTask, measure_trial
from harness.units import format_change
from harness.workload.spec import StreamShape

_LOG_TAIL_LINES = 25
_LOG_READ_LINES = 1000
_ACCESS_LINE = re.compile(r'"[A-Z]+ \S+ HTTP/1\.[01]" \d{3}')
_DEAD = 503  # what /health says
_LAST_BREATH_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTask:
    """A launch of the plan and all that it needs."""

    planned: PlannedLaunch
    attempt: int  # from 1
    spec: LaunchSpec
    driver: EngineDriver
    setting: LaunchSetting
    seed: int
    shapes: Mapping[str, StreamShape]  # by load id
    cell_limit_s: float | None
    references: Sequence[CanaryReference]
    may_repeat: bool  # a slow boot is given back unmeasured
    engine_version: str | None  # of the run's earlier launches; None: none yet
    prompts_for: Callable[[Bench, str], Prompts]  # by bench and launch id
    on_trial: Callable[[TrialRecord], None]  # writes it down
    trials_before: int  # of the run, for progress
    trials_in_all: int
    keep_texts: KeepTexts | None = None
    chain_answer: ChainAnswer | None = None
    checks: Checks = field(default_factory=dict)  # those that this configuration has not had yet
    on_check: Callable[[CheckRecord], None] = field(default=lambda check: None)  # writes it down
    abandon: Callable[[TrialRecord], str | None] | None = None  # why the rest of the cells would be wasted
    guest: Guest | None = None  # on a server that others use
    note: Callable[[str], None] = field(default=lambda text: None)  # keeps what the guest says


class _SlowBootError(EngineError):
    """The canary is slow and the launch may be repeated."""


async def run_launch(task: LaunchTask, on_end: Callable[[LaunchRecord], None]) -> LaunchRecord:
    """Run one launch to its end and return its record, which ``on_end`` has been given.

    A launch that fails is a result: only what the user must act on before anything else can run is raised.

    Raises:
        asyncio.CancelledError: the run was interrupted; the engine is stopped and the record written.
        HarnessError: the input or the disk is at fault, not this launch.
    """
    account = _Account(task)
    outcome: LaunchOutcome = "interrupted"
    try:
        async with task.driver.launched(task.spec, task.setting) as reached:
            account.engine = reached.engine
            outcome = await _measure(task, reached, account)
    except _SlowBootError as slow:
        outcome, account.reason = "slow_canary", slow.what
    except WrongConfigurationError as wrong:
        outcome, account.reason = "wrong_configuration", wrong.what
    except LaunchError as failed:
        outcome, account.reason, account.log_tail = "failed_to_boot", _reason(failed), failed.log_tail
    except EngineError as failed:
        # One that never came up did not die.
        outcome, account.reason = ("died" if account.engine else "failed_to_boot"), _reason(failed)
    except HarnessError as stopped:
        account.reason = f"the run was stopped: {stopped.what}"
        raise
    finally:
        if outcome == "interrupted":
            account.reason = account.reason or "the run was interrupted"
        record = account.close(outcome)
        on_end(record)
    return record


class _Account:
    """What is known of a launch so far."""

    def __init__(self, task: LaunchTask) -> None:
        self._task = task
        self._started_at = task.setting.clock.stamp()
        self._started_s = task.setting.clock.now_s()
        self.engine: Engine | None = None
        self.live: LiveIdentity | None = None
        self.before: CanaryReading | None = None
        self.after: CanaryReading | None = None
        self.verdict: CanaryVerdict | None = None
        self.reason: str | None = None
        self.log_tail: tuple[str, ...] = ()
        self.greedy: tuple[GreedyAnswer, ...] = ()

    def close(self, outcome: LaunchOutcome) -> LaunchRecord:
        """Return the record as it stands."""
        task, engine = self._task, self.engine
        if outcome in FAILED and not self.log_tail:
            self.log_tail = _log_tail(task)
        return LaunchRecord(
            launch_id=task.setting.launch_id,
            run_id=task.setting.run_id,
            round=task.planned.round,
            attempt=task.attempt,
            configuration=task.planned.configuration,
            started_at=self._started_at,
            outcome=outcome,
            ready_s=engine.ready_s if engine else None,
            total_s=task.setting.clock.now_s() - self._started_s,
            reason=self.reason,
            log_tail=self.log_tail,
            boot=engine.boot_facts() if engine else None,
            live=self.live,
            canary_before=self.before,
            canary_after=self.after,
            canary_ratio=self.verdict.ratio if self.verdict else None,
            canary_against=self.verdict.against if self.verdict else None,
            canary_slow=self.verdict is not None and self.verdict.is_slow(task.spec.canary_limit_ratio),
            command=engine.command if engine else (),
            environment=dict(engine.environment) if engine else {},
            untested=engine.untested if engine else None,
            nodes=engine.hosts.facts if engine and engine.hosts else (),
            samples=tuple(engine.hosts.samples) if engine and engine.hosts else (),
            greedy=self.greedy,
            simulated=task.driver.simulated,
            speculation=self._speculation(),
        )

    def _speculation(self) -> SpeculationStats | None:
        """What the engine said at its end: it is over by now."""
        spec = self._task.spec
        if spec.manners.metrics != "ds4" or self.engine is None:
            return None
        log = LogReader(path=self._task.setting.log_path)
        said = log.since(0, with_partial=True)
        return read_session_stats(
            said.lines, asked=spec.num_speculative_tokens != 0, whole=log.since(0).end == said.end
        )


async def _measure(task: LaunchTask, reached: Reached, account: _Account) -> LaunchOutcome:
    engine = reached.engine
    async with bench_for(
        reached, task.setting.clock, seed=task.seed, keep_texts=task.keep_texts, chain_answer=task.chain_answer
    ) as bench:
        if task.guest is not None:
            await task.guest.wait_until_idle(bench, task.note)
        account.live = await _identity(task, bench)
        task.setting.on_event(LaunchReady(ready_s=engine.ready_s, proof=account.live.proof))
        source = task.prompts_for(bench, task.setting.launch_id)
        account.before = await read_canary(bench, source, name="canary-before")
        account.verdict = _judge(task, account.before)
        for number, planned in enumerate(task.planned.trials):
            if planned.done:
                continue
            task.setting.on_event(_trial_started(task, planned, number))
            trial = await _trial(task, bench, source, planned)
            task.on_trial(trial)
            because = task.abandon(trial) if task.abandon else None
            if because is not None:
                task.setting.on_event(Note(text=f"the rest of this launch is left out: {because}"))
                break
            account.reason = await _death(bench, trial)
            if account.reason is not None:
                return "died"
        account.after = await read_canary(bench, source, name="canary-after")
        account.greedy = await read_greedy(bench)
        await _check(task, bench)
        if bench.death.is_set():
            account.reason = await engine.died()
            return "died"
    return "measured"


async def _trial(task: LaunchTask, bench: Bench, source: Prompts, planned: PlannedTrial) -> TrialRecord:
    def measure() -> Awaitable[TrialRecord]:
        return measure_trial(bench, source, _trial_task(task, planned))

    if task.guest is None:
        return await measure()
    return await task.guest.measured(bench, measure, streams=planned.load.concurrency, note=task.note)


async def _check(task: LaunchTask, bench: Bench) -> None:
    """Last of all, since nobody knows what a check does to an engine."""
    place = CheckPlace(
        launch_id=task.setting.launch_id,
        configuration_id=task.planned.configuration.configuration_id,
        log_path=task.setting.log_path,
        clock=task.setting.clock,
    )
    for name, check in task.checks.items():
        if bench.death.is_set():
            return
        record = await run_check(bench, name, check, place)
        task.on_check(record)
        task.setting.on_event(Note(text=f"{task.planned.configuration.label}: {check_words(record)}"))


async def _death(bench: Bench, trial: TrialRecord) -> str | None:
    """Why nothing more can be measured here, or None. A server outlives its engine for a moment, or for good."""
    failed = [request.error or request.outcome for request in trial.requests if not request.finished]
    if not bench.death.is_set() and (failed or trial.failure):
        async with bench.engine.endpoint() as endpoint:
            health = await endpoint.health()
        if health not in (None, _DEAD):
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_BREATH_S):
                await bench.death.wait()
        if not bench.death.is_set():
            said = "says that its engine is dead" if health == _DEAD else "no longer answers"
            return f"the server {said}: {trial.failure or failed[0]}"
    return await bench.engine.died() if bench.death.is_set() else None


async def _identity(task: LaunchTask, bench: Bench) -> LiveIdentity:
    probes = Probes(counters=bench.counters, draft=bench.draft, clock=bench.clock)
    live = await read_identity(bench.engine, probes)
    require_configuration(live, task.spec)
    if task.engine_version and live.engine_version and live.engine_version != task.engine_version:
        raise HarnessError(
            f"the engine is version {live.engine_version}, but this run was measured on {task.engine_version}",
            where=task.spec.recipe,
            hint="Start a new run: one table must not mix two engines.",
        )
    return live


def _reason(error: EngineError) -> str:
    """What happened and what to do, on one line. Where it happened is known from the record."""
    return f"{error.what.rstrip('.')}. {error.hint}" if error.hint else error.what


def _judge(task: LaunchTask, reading: CanaryReading | None) -> CanaryVerdict | None:
    if reading is None:
        return None
    verdict = judge(task.planned.configuration, reading, task.references)
    if verdict.is_slow(task.spec.canary_limit_ratio):
        slow = f"this boot is slow: its canary is {format_change(verdict.ratio)} against {verdict.against}"
        if task.may_repeat:
            raise _SlowBootError(f"{slow}; booted again once")
        task.setting.on_event(Note(text=f"{slow}, again. Its cells are measured, with a doubt."))
    return verdict


def _trial_started(task: LaunchTask, planned: PlannedTrial, number: int) -> TrialStarted:
    return TrialStarted(
        cell=Cell(configuration=task.planned.configuration, load=planned.load),
        ordinal=task.trials_before + number + 1,
        trials=task.trials_in_all,
    )


def _trial_task(task: LaunchTask, planned: PlannedTrial) -> TrialTask:
    return TrialTask(
        trial_id=planned.trial_id,
        run_id=task.setting.run_id,
        launch_id=task.setting.launch_id,
        round=task.planned.round,
        repeat=task.attempt,
        cell=Cell(configuration=task.planned.configuration, load=planned.load),
        shape=task.shapes[planned.load.load_id],
        limit_s=task.cell_limit_s,
        simulated=task.driver.simulated,
    )


def _log_tail(task: LaunchTask) -> tuple[str, ...]:
    """The end of the log without the line of each request, behind which the cause would be lost."""
    secrets = secrets_of(task.spec)
    lines = LogReader(path=task.setting.log_path).tail(_LOG_READ_LINES)
    telling = [line for line in lines if not _ACCESS_LINE.search(line)]
    return tuple(redacted_text(line, secrets) for line in telling[-_LOG_TAIL_LINES:])
