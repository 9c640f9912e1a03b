"""Where the study of a search lies, and how it is opened."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.engine.clock import SystemClock
from harness.errors import InputError, StoreError
from harness.records.cell import CellGroup
from harness.records.plan import Plan
from harness.run.setup import PlannedSweep
from harness.run.tuning import candidates_of
from harness.search.parameters import Parameters
from harness.search.samplers import sampler_of
from harness.search.space import Space
from harness.search.storage import database_url
from harness.search.study import LEASE_S, Place, SharedStudy
from harness.stats.observe import search_cells
from harness.store.layout import RESULTS, RunFolder

STUDIES = "studies"
LEASE_VARIABLE = "HARNESS_LEASE_S"
_OWN_FILE = "study.db"  # of a rehearsal, in its run's folder
_LEAST_PACE = 2.0  # a launch may take so many times as long as predicted before it counts as dead


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlace:
    """Where a study is looked for."""

    root: Path
    storage: str | None  # as the user says; None: a file
    folder: RunFolder | None = None  # None: there is no run yet


def require_searchable(planned: PlannedSweep, place: StudyPlace) -> None:
    """Refuse a search before there is a run of it.

    Raises:
        InputError: the study is of something else, or the sampler is unknown.
        StoreError: the storage cannot be reached.
    """
    tune = planned.plan.tune
    assert tune is not None
    sampler_of(tune.sampler, planned.plan.seed)
    if not _is_own(planned, place):
        open_study(planned, space_of(planned), place)


def open_study(planned: PlannedSweep, space: Space, place: StudyPlace) -> SharedStudy:
    """Return the study of a search, made if it is new. Raises as ``require_searchable``."""
    tune = planned.plan.tune
    assert tune is not None
    run_id = place.folder.run_id if place.folder else ""
    found = Place(
        url=_url(planned, place),
        name=tune.study,
        fingerprint=tune.fingerprint,
        owner=f"{socket.gethostname()}:{os.getpid()}:{run_id}",
        now_s=now_s,
        lease_s=_lease_s(planned.plan),
        limits=tuple(limit.name for limit in tune.limits),
    )
    return SharedStudy(found, Parameters(space.candidates), sampler_of(tune.sampler, planned.plan.seed))


def space_of(planned: PlannedSweep) -> Space:
    """Return what a planned search searches."""
    plan = planned.plan
    assert plan.tune is not None
    groups = [CellGroup(configuration=one, loads=()) for one in plan.configurations]
    loads = {trial.load.load_id: trial.load for launch in plan.launches for trial in launch.trials}
    return Space(
        candidates=candidates_of(planned.recipe.recipe, groups),
        cells=search_cells(loads.values(), plan.weights),
        reference_id=plan.tune.reference_id,
        block_tokens=planned.recipe.recipe.measuring.drafter_block_tokens,
        objective=plan.tune.objective,
    )


def now_s() -> float:
    """Wall clock: hosts that share a study agree about nothing else."""
    return datetime.fromisoformat(SystemClock().stamp()).timestamp()


def _is_own(planned: PlannedSweep, place: StudyPlace) -> bool:
    """A rehearsal knows nothing of others, so that it can be repeated, unless it is told to share a study."""
    tune = planned.plan.tune
    assert tune is not None
    named = not tune.study.endswith(tune.fingerprint)
    return planned.scenario is not None and place.storage is None and not named


def _url(planned: PlannedSweep, place: StudyPlace) -> str:
    assert planned.plan.tune is not None
    if place.storage is not None:
        return database_url(place.storage, os.environ)
    if _is_own(planned, place):
        assert place.folder is not None  # asked for only where there is a run
        return f"sqlite:///{(place.folder.path / _OWN_FILE).resolve()}"
    folder = place.root / RESULTS / STUDIES
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "Choose another place with --root DIR."
        raise StoreError(f"the study cannot be kept: {error.strerror}", where=str(folder), hint=hint) from error
    name = planned.plan.tune.study
    if Path(name).name != name:
        raise InputError(f"not the name of a study: {name!r}", where="--study", hint="Leave slashes out.")
    return f"sqlite:///{(folder / f'{name}.db').resolve()}"


def _lease_s(plan: Plan) -> float:
    """Long enough for the slowest launch: whoever shares the study waits so long for one that died."""
    said = os.environ.get(LEASE_VARIABLE)
    if said is None:
        return max(LEASE_S, _LEAST_PACE * max(launch.predicted_s for launch in plan.launches))
    try:
        lease_s = float(said)
    except ValueError:
        lease_s = 0.0
    if not lease_s > 0:
        raise InputError(f"not a number of seconds: {said!r}", where=LEASE_VARIABLE, hint="As in 3600.")
    return lease_s
