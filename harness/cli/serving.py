"""The facts of the machines that a sweep would run on, as they stand in its plan and manifest."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from harness.engine.doctor.examine import Examination
from harness.engine.host import host_facts
from harness.engine.serving import serving_facts
from harness.errors import HarnessError, InputError
from harness.recipe.build import build_launch
from harness.recipe.find import places_for
from harness.recipe.load import LoadedRecipe
from harness.recipe.spec import LaunchSpec
from harness.records.cell import Configuration
from harness.records.journal import RunData
from harness.records.manifest import UNKNOWN_RIG, HostFacts
from harness.store.layout import RunFolder
from harness.store.reader import write_manifest
from harness.store.rig import read_canaries
from harness.sweep.cells import Expansion, expand
from harness.sweep.load import Sweep
from harness.sweep.site import load_site


def facts_for(sweep: Sweep, recipe: LoadedRecipe, site: Path | None, *, must_answer: bool) -> HostFacts:
    """Return the facts of the machines that serve.

    Args:
        sweep: as loaded.
        recipe: its own.
        site: the site file; None: the user's own.
        must_answer: of machines that do not answer say so; else they make the rig UNKNOWN_RIG, on which nothing can be
            measured, and whoever launches there says what is wrong.

    Raises:
        HarnessError: they do not answer, or cannot be told from the site file.
    """
    name = recipe.recipe.recipe
    specs = _specs(sweep, recipe)
    if not specs:
        return host_facts(name)
    try:
        return serving_facts(specs, load_site(site))
    except HarnessError:
        if must_answer:
            raise
        return replace(host_facts(name), rig_id=UNKNOWN_RIG)


def with_known_rig(folder: RunFolder, earlier: RunData, host: HostFacts) -> RunData:
    """Return a run that began while its machines did not answer, and so measured nothing, with the rig that they are.

    Raises:
        StoreError: its manifest cannot be written.
    """
    began = earlier.launches or earlier.trials
    if began or earlier.manifest.host.rig_id != UNKNOWN_RIG or host.rig_id == UNKNOWN_RIG:
        return earlier
    manifest = replace(earlier.manifest, host=host)
    write_manifest(folder, manifest)
    return replace(earlier, manifest=manifest)


def stored_steps_s(task: Examination, root: Path) -> tuple[float, ...]:
    """Return the step times of the canaries that were accepted on the machines that are examined."""
    configuration = Configuration(recipe=task.recipe.recipe.recipe, knobs=task.knobs)
    try:
        rig_id = serving_facts([build_launch(task.recipe, configuration, task.places)], task.site).rig_id
    except HarnessError:
        return ()  # what is wrong is found by looking
    return tuple(each.reading.step_s for each in read_canaries(root / "results", rig_id))


def _specs(sweep: Sweep, recipe: LoadedRecipe) -> list[LaunchSpec]:
    """What is wrong with a sweep, or keeps a configuration from being launched, is said by its plan."""
    expansion = _expansion(sweep, recipe)
    places = places_for(recipe.recipe.recipe)
    found = []
    for group in expansion.groups if expansion is not None else ():
        with suppress(InputError):
            found.append(build_launch(recipe, group.configuration, places))
    return found


def _expansion(sweep: Sweep, recipe: LoadedRecipe) -> Expansion | None:
    for arms_only in (False, True) if sweep.file.compare is not None else (False,):
        with suppress(InputError):
            return expand(sweep, recipe.recipe, arms_only=arms_only)
    return None
