"""Carry out a sweep on simulated engines within this process, and keep nothing of it but its records."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from harness.engine.host import host_facts
from harness.engine.registry import Registry
from harness.engine.shell import LocalShell
from harness.recipe.find import find_recipe, places_for
from harness.recipe.load import LoadedRecipe, load_recipe
from harness.records.journal import RunData
from harness.records.launch import LaunchRecord
from harness.records.manifest import HostFacts
from harness.records.trial import TrialRecord
from harness.run.answer_key import AnswerChains
from harness.run.driver import RehearsalDriver
from harness.run.session import SessionTask, Tools, run_session
from harness.run.setup import PlannedSweep, Wishes, launch_specs, new_manifest, plan_sweep
from harness.simulator.loop import VirtualClock, run_virtual
from harness.simulator.scenario import Scenario
from harness.store.journal import Entry, Journal
from harness.store.layout import RunFolder
from harness.store.rig import StoredCanary
from harness.sweep.load import sweep_from
from harness.workload.cache import SessionTexts
from harness.workload.texts import Texts
from harness.yaml_source import parse_source

_RUN_ID = "20260101-000000-rehearsal-000000"


class _Nothing:
    """A store behind the memory's that keeps nothing."""

    def load(self, key: str) -> Texts | None:
        return None

    def store(self, key: str, texts: Texts) -> None:
        return None


class _Memory(Journal):
    """A journal that is not written down."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)


_TEXTS = SessionTexts(_Nothing())  # all rehearsals of a process share their prompts


def rehearse(
    text: str, scenario: Scenario, *, name: str = "rehearsal.yaml", canaries: Sequence[StoredCanary] = ()
) -> RunData:
    """Return the records of a sweep on simulated engines. ``scenario.seed`` decides every figure of it.

    Args:
        text: of the sweep file.
        scenario: truth, noise and faults; the truth is that of the recipe where it has its own.
        name: of the sweep file, where a trace lies beside it.
        canaries: that this rig is known to have.
    """
    sweep = sweep_from(parse_source(text, name=name))
    recipe = _recipe(sweep.file.recipe)
    planned = plan_sweep(sweep, recipe, _host(recipe.recipe.recipe), Wishes(seed=scenario.seed, scenario=scenario))
    journal = _Memory()
    with _folder() as folder:
        run_virtual(_run(planned, scenario, journal, folder, canaries))
    return _read(planned, recipe, journal)


async def _run(
    planned: PlannedSweep, scenario: Scenario, journal: _Memory, folder: RunFolder, canaries: Sequence[StoredCanary]
) -> None:
    clock = VirtualClock()
    task = SessionTask(
        run_id=_RUN_ID,
        rig_id=planned.host.rig_id,
        plan=planned.plan,
        specs=launch_specs(planned, places_for(planned.recipe.recipe.recipe)),
        shapes=planned.shapes,
        cell_limit_s=planned.budget.cell_s,
        time_limit_s=None,
        earlier_launches=(),
        earlier_starts=(),
        stored_canaries=canaries,
        replayed=planned.replayed,
    )
    tools = Tools(
        clock=clock,
        driver=RehearsalDriver(scenario, earlier_boots={}),
        shell=LocalShell(),
        registry=Registry(directory=folder.path / "launches"),
        journal=journal,
        folder=folder,
        prompt_cache=_TEXTS,
        on_event=lambda event: None,
        chain_answer=AnswerChains(folder.path, simulated=True).of,
    )
    await run_session(task, tools)


def _read(planned: PlannedSweep, recipe: LoadedRecipe, journal: _Memory) -> RunData:
    launches = {each.launch_id: each for each in journal.entries if isinstance(each, LaunchRecord)}
    return RunData(
        manifest=new_manifest(planned, run_id=_RUN_ID, started_at=VirtualClock().stamp(), command=()),
        plan=planned.plan,
        launches=tuple(launches.values()),
        trials=tuple(each for each in journal.entries if isinstance(each, TrialRecord)),
    )


@contextmanager
def _folder() -> Iterator[RunFolder]:
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(path=Path(path))
        folder.logs.mkdir()
        yield folder


@cache
def _recipe(name: str) -> LoadedRecipe:
    return load_recipe(find_recipe(name))


@cache
def _host(recipe: str) -> HostFacts:
    return host_facts(recipe)
