"""Derived files and the report of a stored run. Everything here can be made again from the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.cli.comparing import stored_comparison, stored_confirmation
from harness.cli.loading import summaries_of
from harness.cli.nights import night_facts
from harness.cli.streams import shown_if_possible
from harness.errors import InputError
from harness.recipe.find import find_recipe
from harness.recipe.load import load_recipe
from harness.recipe.variables import engine_variables
from harness.records.cell import Configuration
from harness.records.journal import RunData
from harness.records.summary import CellSummary
from harness.report.best import EngineVariables
from harness.report.facts import NightFacts, run_facts
from harness.report.terminal import print_result, stderr_console
from harness.report.view import report_view
from harness.report.write import write_report
from harness.stats.arms import Stored
from harness.stats.floor import measured_noise
from harness.store.frames import write_derived
from harness.store.layout import RunFolder, report_directory
from harness.store.reader import read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What was read of a run, its cells, and where its report lies."""

    run: RunData
    cells: tuple[CellSummary, ...]
    path: Path | None  # None: it could not be written
    night: NightFacts | None  # of a run of nightly


def report_run(folder: RunFolder, root: Path) -> Reported:
    """Write cells.csv, cells.parquet and the report, and show the result, even where it cannot be written.

    Raises:
        InputError: the run is empty.
        StoreError: something cannot be written.
    """
    run = read_run(folder)
    searched = run.plan is not None and run.plan.tune is not None  # it may have ended by what is known already
    if not run.trials and not run.launches and not (searched and run.notes):
        raise InputError(f"run {folder.run_id} has measured nothing", hint="Resume it, or start it again.")
    cells = summaries_of(run)
    stored = Stored(run=run, cells=cells)
    comparison, tuned = stored_comparison(folder, run, cells), stored_confirmation(folder, run, cells)
    night = night_facts(folder, run, cells)
    facts = run_facts(run, cells, comparison, measured_noise(stored), tuned, night)
    view = report_view(facts, variables=_variables(run.manifest.recipe))
    directory = report_directory(
        root, date=run.manifest.started_at[:10], sweep=run.manifest.sweep, run_id=folder.run_id
    )
    written: Path | None = None
    try:
        write_derived(folder, cells)
        written = write_report(view, directory).html
    finally:
        with shown_if_possible():
            print_result(view, stderr_console(), report=written)
    return Reported(run=run, cells=cells, path=written, night=night)


def _variables(recipe_name: str) -> EngineVariables | None:
    """How the scripts of a pair read a configuration; None for other recipes, and for one that is no longer there."""
    try:
        recipe = load_recipe(find_recipe(recipe_name)).recipe
    except InputError:
        return None
    if recipe.pair is None:
        return None

    def variables(configuration: Configuration) -> Mapping[str, str]:
        return engine_variables(recipe, configuration.knobs)

    return variables
