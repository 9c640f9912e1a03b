"""Carry out a planned sweep in this process: journal, signals, progress, report, exit code."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.comparing import (
    block_judge,
    keep_noise,
    require_one_factor,
    require_same_question,
    stored_comparison,
    tuned_code,
    verdict_code,
)
from harness.cli.display import LastingProgress
from harness.cli.loading import PlanOptions, plan_from, root_of, stored_run, summaries_of
from harness.cli.machines import Machines, machines_from
from harness.cli.nights import keep_nights, night_code, night_facts, night_judge, require_judgeable
from harness.cli.serving import with_known_rig
from harness.cli.signals import RunSignals
from harness.cli.site_checks import checks_of
from harness.cli.streams import shown_if_possible
from harness.cli.time_left import require_room
from harness.engine.clock import SystemClock
from harness.engine.registry import default_registry
from harness.engine.shell import LocalShell
from harness.errors import Interrupted, StoreError
from harness.recipe.find import places_for
from harness.recipe.spec import LaunchSpec
from harness.records.clock import Clock
from harness.records.journal import RunData, SessionStart
from harness.report.facts import NightFacts
from harness.report.headline import next_command
from harness.report.labels import counted
from harness.run.answer_key import AnswerChains
from harness.run.checking import Checks
from harness.run.driver import EngineDriver, RehearsalDriver
from harness.run.guest import guest_of
from harness.run.kept_texts import KeptTexts
from harness.run.outcome import exit_code
from harness.run.session import JudgeRound, SessionTask, Tools, run_session
from harness.run.setup import PlannedSweep, harness_version, launch_specs, new_manifest
from harness.simulator.loop import VirtualClock, run_virtual
from harness.stats.cells import valid_trial_ids
from harness.store.journal import open_journal
from harness.store.layout import RunFolder, create_run, unused_run_id
from harness.store.reader import read_run, write_manifest, write_plan
from harness.store.rig import add_canary, read_canaries
from harness.workload.cache import PromptCache, SessionTexts, cache_folder

if TYPE_CHECKING:
    from harness.cli.reporting import Reported
    from harness.cli.tuning import LaunchChooser


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run on disk and what is to be done for it."""

    folder: RunFolder
    root: Path
    planned: PlannedSweep
    earlier: RunData | None
    command: tuple[str, ...]
    machines: Machines
    checks: Checks
    keep_text: bool = False
    storage: str | None = None  # of a search


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What came of a run."""

    folder: RunFolder
    run: RunData
    report: Path | None
    night: NightFacts | None  # of a run of nightly
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWishes:
    """What the command line says about carrying out a sweep."""

    resume: str | None
    borrow: bool
    idle_for: str | None
    keep_text: bool
    command: tuple[str, ...]
    storage: str | None = None  # of a search: a database that others share; None: a file


def run_sweep(options: PlanOptions, wishes: RunWishes) -> int:
    """Carry out a sweep and return the exit code. Raises as carry_out does."""
    return carry_out(options, wishes).code


def carry_out(options: PlanOptions, wishes: RunWishes) -> Carried:
    """Carry out a sweep and return what came of it.

    Raises:
        Interrupted: stopped by a signal; the engine is gone and the journal is whole.
        HarnessError: the input, the disk or the preparation is at fault.
    """
    machines = machines_from(options.site, borrow=wishes.borrow, idle_for=wishes.idle_for)
    options = replace(options, keep_s=machines.keep_s)
    with RunSignals() as signals:
        run = _resumed(options, wishes, machines) if wishes.resume else _started(options, wishes, machines)
        run = replace(run, keep_text=wishes.keep_text, storage=wishes.storage, machines=_patient(run, wishes))
        try:
            run_loop = run_virtual if run.planned.scenario else asyncio.run
            run_loop(_carry_out(run, signals))
            reported = _report(run)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise _interrupted(run, launches=options.launches) from None
    return Carried(
        folder=run.folder,
        run=reported.run,
        report=reported.path,
        night=reported.night,
        code=_code(run, reported),
    )


def _code(run: _Run, reported: Reported) -> int:
    data, cells = reported.run, reported.cells
    if run.planned.plan.tune is not None:
        return tuned_code(run.folder, data, cells)
    code = exit_code(data, cells)
    if reported.night is not None:
        return night_code(reported.night, code)
    if run.planned.plan.comparison is None:
        return code
    require_one_factor(data, run.planned.plan.comparison)
    keep_noise(run.folder, data, cells)
    return verdict_code(stored_comparison(run.folder, data, cells), code)


def _report(run: _Run) -> Reported:
    # What draws takes a second to import, which a refused sweep need not wait for.
    from harness.cli.reporting import Reported, report_run

    if run.planned.plan.nightly is not None:
        data = read_run(run.folder)
        cells = summaries_of(data)
        keep_nights(run.folder, data, cells)  # before anything is drawn: history is what counts
        try:
            return report_run(run.folder, run.root)
        except StoreError as error:  # a full disk hides no regression
            with shown_if_possible():
                click.echo(f"warning: {error}", err=True)
            return Reported(run=data, cells=cells, path=None, night=night_facts(run.folder, data, cells))
    return report_run(run.folder, run.root)


def _interrupted(run: _Run, *, launches: int | None) -> Interrupted:
    measured = len(valid_trial_ids(summaries_of(read_run(run.folder))))
    return Interrupted(
        f"{counted(measured, 'measured trial')} kept in {run.folder.path}",
        hint=f"Carry on with: {next_command(run.command, run.folder.run_id, launches=launches)}",
    )


def _started(options: PlanOptions, wishes: RunWishes, machines: Machines) -> _Run:
    root, command = root_of(options.root, options.site), wishes.command
    planned = plan_from(options)
    require_room(planned, options)
    checks = checks_of(planned, machines.site)
    clock = SystemClock()
    launch_specs(planned, places_for(planned.recipe.recipe.recipe))  # a recipe that cannot launch leaves no empty run
    _require_searchable(planned, root, wishes.storage)
    if planned.plan.nightly is not None:
        require_judgeable(root, planned.plan.sweep, planned.plan.nightly)
    stamp = options.as_of or clock.stamp()
    run_id = unused_run_id(root, stamp, _run_name(planned), os.getpid())
    folder = create_run(root, run_id)
    try:
        write_manifest(folder, new_manifest(planned, run_id=run_id, started_at=stamp, command=command))
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)  # a run that never began leaves no folder
        raise
    return _Run(
        folder=folder, root=root, planned=planned, earlier=None, command=command, machines=machines, checks=checks
    )


def _resumed(options: PlanOptions, wishes: RunWishes, machines: Machines) -> _Run:
    assert wishes.resume is not None
    root, planned = root_of(options.root, options.site), plan_from(options)
    folder, earlier = stored_run(wishes.resume, root, sweep=_run_name(planned))
    earlier = with_known_rig(folder, earlier, planned.host)
    planned = plan_from(options, earlier=earlier, host=planned.host)
    require_same_question(folder, earlier, planned.plan.comparison)
    require_room(planned, options)
    return _Run(
        folder=folder,
        root=root,
        planned=planned,
        earlier=earlier,
        command=wishes.command,
        machines=machines,
        checks=checks_of(planned, machines.site),
    )


def _run_name(planned: PlannedSweep) -> str:
    """In the name of the run's folders: a rehearsal is never taken for the real thing, nor carried on with as such."""
    comparison = planned.plan.comparison
    kind = "" if comparison is None else "aa_" if comparison.same else "ab_"
    kind = "tune_" if planned.plan.tune is not None else kind
    kind = "nightly_" if planned.plan.nightly is not None else kind
    return f"{'simulated_' if planned.scenario else ''}{kind}{planned.sweep.name}"


async def _carry_out(run: _Run, signals: RunSignals) -> None:
    planned, results = run.planned, run.root / "results"
    clock: Clock = VirtualClock() if planned.scenario else SystemClock()
    rig_id = planned.host.rig_id
    chooser = _chooser(run, clock)
    task = SessionTask(
        run_id=run.folder.run_id,
        rig_id=rig_id,
        plan=planned.plan,
        specs=launch_specs(planned, places_for(planned.recipe.recipe.recipe)),
        shapes=planned.shapes,
        cell_limit_s=planned.budget.cell_s,
        time_limit_s=planned.budget.time_s,
        earlier_launches=run.earlier.launches if run.earlier else (),
        earlier_starts=run.earlier.launch_starts if run.earlier else (),
        stored_canaries=read_canaries(results, rig_id),
        keep_canaries=lambda canary: add_canary(results, rig_id, canary),
        replayed=planned.replayed,
        judge_round=_round_judge(run),
        guest=guest_of(planned, idle_for_s=run.machines.lending.idle_for_s, now_s=clock.now_s()),
        choose=chooser,
        checks=run.checks,
        earlier_checks=run.earlier.checks if run.earlier else (),
    )
    with (
        signals.cancelling(asyncio.current_task()),
        open_journal(run.folder, at=clock.stamp()) as journal,
        LastingProgress(planned.plan) as progress,
    ):
        write_plan(run.folder, planned.plan)
        journal.append(SessionStart(at=clock.stamp(), command=run.command, harness_version=harness_version()))
        tools = Tools(
            clock=clock,
            driver=_driver(run, task.specs),
            shell=LocalShell(),
            registry=default_registry(),
            journal=journal,
            folder=run.folder,
            prompt_cache=SessionTexts(PromptCache(cache_folder(os.environ))),
            on_event=progress.on_event,
            keep_texts=KeptTexts(run.folder.path).keep if run.keep_text else None,
            chain_answer=AnswerChains(run.folder.path, simulated=planned.scenario is not None).of,
        )
        try:
            await run_session(task, tools)
        finally:
            if chooser is not None:
                chooser.close()


def _patient(run: _Run, wishes: RunWishes) -> Machines:
    """The command line, then what the sweep says of its nights, then the site: how long nobody must have asked."""
    settings = run.planned.sweep.file.nightly if run.planned.plan.nightly is not None else None
    if wishes.idle_for is not None or settings is None or settings.idle_for is None:
        return run.machines
    return replace(run.machines, lending=replace(run.machines.lending, idle_for_s=settings.idle_for))


def _round_judge(run: _Run) -> JudgeRound | None:
    plan = run.planned.plan
    if plan.nightly is not None:
        return night_judge(run.folder, plan.nightly)
    return block_judge(run.folder, plan.comparison) if plan.comparison else None


# Optuna takes a second to import, which no other command waits for.


def _require_searchable(planned: PlannedSweep, root: Path, storage: str | None) -> None:
    if planned.plan.tune is not None:
        from harness.cli.studies import StudyPlace, require_searchable

        require_searchable(planned, StudyPlace(root=root, storage=storage))


def _chooser(run: _Run, clock: Clock) -> LaunchChooser | None:
    if run.planned.plan.tune is None:
        return None
    from harness.cli.studies import StudyPlace
    from harness.cli.tuning import LaunchChooser

    place = StudyPlace(root=run.root, storage=run.storage, folder=run.folder)
    return LaunchChooser(run.folder, run.planned, clock, place)


def _wait_limit_s(run: _Run) -> float | None:
    """How long a server that is in use may be waited for: what is left then has to do for one launch."""
    limit_s = run.planned.budget.time_s
    todo = [launch.predicted_s for launch in run.planned.plan.launches if not launch.done]
    return None if limit_s is None else max(0.0, limit_s - min(todo, default=0.0))


def _driver(run: _Run, specs: Mapping[str, LaunchSpec]) -> EngineDriver:
    scenario = run.planned.scenario
    if scenario is None:
        return run.machines.driver(specs, wait_limit_s=_wait_limit_s(run))
    starts = run.earlier.launch_starts if run.earlier else ()
    return RehearsalDriver(scenario, earlier_boots=Counter(start.configuration.configuration_id for start in starts))
