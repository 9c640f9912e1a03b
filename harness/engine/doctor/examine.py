"""Can this machine, or this pair, run a recipe, and in what state is it? Looks only; nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.engine.doctor.access import reach
from harness.engine.doctor.fabric import fabric_findings
from harness.engine.doctor.hardware import hardware_findings
from harness.engine.doctor.local import local_findings
from harness.engine.doctor.place import PairPlace, Wanted, checkout_place, inventory_place
from harness.engine.doctor.software import agreement_findings, neighbour_findings, port_findings, room_findings
from harness.engine.pair.inventory import load_inventory
from harness.errors import HarnessError, InputError
from harness.recipe.build import Places
from harness.recipe.load import LoadedRecipe
from harness.recipe.variables import spelled_out
from harness.records.cell import KnobValue
from harness.records.clock import Clock
from harness.records.finding import Finding, fail
from harness.sweep.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What is asked of the doctor."""

    recipe: LoadedRecipe
    site: Site
    knobs: dict[str, KnobValue]  # by neutral name
    places: Places
    clock: Clock
    stored_steps_s: tuple[float, ...] = ()  # of this rig's accepted canaries


async def examine(task: Examination) -> list[Finding]:
    """Return what was found, in the order in which one would look. Never raises on account of a host."""
    if task.recipe.recipe.pair is None:
        return await local_findings(task.recipe, task.knobs, task.places)
    place, found = await _place(task)
    if place is None:
        return found
    reached = await reach(place.nodes)
    place = replace(place, nodes=reached.nodes, containers=reached.containers)
    found += reached.findings
    if any(finding.level == "fail" for finding in reached.findings):
        return found  # what needs both nodes would only repeat it
    return found + await _findings_of(place, task)


async def place_of(task: Examination) -> PairPlace:
    """Return the pair that a checkout describes, for its site file. Raises InputError where none does."""
    if task.recipe.recipe.pair is None or task.site.checkout is None:
        raise InputError("only a checkout of a pair makes a site file", hint="Name it: --checkout DIR.")
    place, found = await _place(task)
    if place is None:
        first = next(finding for finding in found if finding.level == "fail")
        raise InputError(first.what, where=first.evidence or None, hint=first.remedy)
    return place


async def _place(task: Examination) -> tuple[PairPlace | None, list[Finding]]:
    recipe, pair, site = task.recipe.recipe, task.recipe.recipe.pair, task.site
    assert pair is not None  # checked by examine
    wanted = Wanted(
        image=spelled_out(recipe, "image", task.knobs),
        checkpoint=spelled_out(recipe, "checkpoint", task.knobs),
        recipe=recipe.recipe,
    )
    if site.checkout is not None:
        return await checkout_place(site, pair, site.checkout, wanted)
    if site.inventory_file is None:
        remedy = (
            "Name the checkout: --checkout DIR; or `inventory: pair.yaml` in the site file for a launch without one."
        )
        return None, [fail("site", "neither a checkout nor a pair.yaml is named", remedy=remedy)]
    try:
        return inventory_place(site, pair, load_inventory(site.inventory_file, nodes=pair.nodes), wanted), []
    except HarnessError as error:
        remedy = error.hint or "Correct pair.yaml."
        return None, [fail("inventory", error.what, evidence=error.where or "", remedy=remedy)]


async def _findings_of(place: PairPlace, task: Examination) -> list[Finding]:
    groups: list[Awaitable[list[Finding]]] = [_guarded("image_or_checkpoint", agreement_findings(place))]
    for node in place.nodes:
        groups += [
            _guarded("disk", room_findings(place, node)),
            _guarded("neighbours", neighbour_findings(place, node)),
        ]
    groups += [
        _guarded("fabric", fabric_findings(place)),
        _guarded("port", port_findings(place)),
        _guarded("hardware", hardware_findings(place, task.clock, task.stored_steps_s)),
    ]
    return [finding for group in await asyncio.gather(*groups) for finding in group]


async def _guarded(check: str, looking: Awaitable[list[Finding]]) -> list[Finding]:
    """A look that a host cuts short is a finding of its own."""
    try:
        return await looking
    except (HarnessError, ValueError) as error:
        what = error.what if isinstance(error, HarnessError) else str(error)
        remedy = (error.hint if isinstance(error, HarnessError) else None) or "Run it again; see that the host answers."
        return [fail(check, what, remedy=remedy)]


def site_with(site: Site, checkout: str | None) -> Site:
    """Return the site with the checkout that the command line names."""
    if checkout is None:
        return site
    local = Path(checkout).expanduser()
    return site.model_copy(update={"checkout": str(local.absolute()) if local.exists() else checkout})
