"""An engine on this machine, or one that runs already somewhere: program, room, memory, other load, does it answer?"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psutil

from harness.engine.doctor.ds4 import ds4_findings
from harness.engine.endpoint import endpoint_for
from harness.engine.shell import LocalShell
from harness.engine.ssh import SshShell
from harness.errors import HarnessError, InputError
from harness.recipe.build import Places, build_launch
from harness.recipe.load import LoadedRecipe
from harness.recipe.spec import LaunchSpec
from harness.records.cell import Configuration, KnobValue
from harness.records.finding import Finding, fail, ok, warn
from harness.units import format_bytes

_LEAST_FREE_BYTES = 6 * 10**9  # the engine of vllm-cpu-tiny takes 3.4 GB
_LEAST_MEMORY_BYTES = 4 * 2**30
_BUSY_RATIO = 0.5  # of the cores


async def local_findings(loaded: LoadedRecipe, knobs: dict[str, KnobValue], places: Places) -> list[Finding]:
    """Return what was found on this machine."""
    try:
        spec = build_launch(loaded, Configuration(recipe=loaded.recipe.recipe, knobs=knobs), places)
    except InputError as error:
        return [fail("recipe", error.what, remedy=error.hint or "Name it with --set.")]
    if spec.style == "attach":
        return [await _endpoint(spec)]
    found = [*_program(spec), *_preparation(spec), _disk(places), _memory(), _load()]
    if spec.manners.metrics != "ds4":
        return found
    if spec.over_ssh is not None:  # what is on this machine does not matter then
        return await ds4_findings(spec, SshShell(target=spec.over_ssh))
    return [*found, *await ds4_findings(spec, LocalShell())]


async def _endpoint(spec: LaunchSpec) -> Finding:
    base_url = (spec.base_url or "").rstrip("/").removesuffix("/v1")
    try:
        async with endpoint_for(spec, base_url) as endpoint:
            models = await endpoint.models()
    except HarnessError as error:
        return fail("endpoint", error.what, evidence=base_url, remedy=error.hint or "Correct the address.")
    if not models:
        return fail("endpoint", "no server answers", evidence=base_url, remedy="Start it, or correct --set url=...")
    return ok("endpoint", f"it serves {models[0].name}", evidence=base_url)


def _program(spec: LaunchSpec) -> list[Finding]:
    program = spec.argv[0] if spec.argv else ""
    if any(not step.creates.exists() for step in spec.preparation):
        return []  # it is made first
    if shutil.which(program):
        return [ok("program", "the engine's program is there", evidence=program)]
    remedy = "Install it, or name it by its path: --set command=PATH."
    return [fail("program", f"there is no program {program}", remedy=remedy)]


def _preparation(spec: LaunchSpec) -> list[Finding]:
    return [
        ok("preparation", f"{step.name} is there", evidence=str(step.creates))
        if step.creates.exists()
        else warn(
            "preparation", f"{step.name} is made before the first launch", evidence=step.says, remedy="Nothing to do."
        )
        for step in spec.preparation
    ]


def _disk(places: Places) -> Finding:
    folder = _existing(places.data_dir)
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE_BYTES:
        remedy = "Make room, or set HARNESS_DATA_DIR to a larger disk."
        return warn("disk", f"{format_bytes(free)} are free", evidence=str(folder), remedy=remedy)
    return ok("disk", f"{format_bytes(free)} are free", evidence=str(folder))


def _memory() -> Finding:
    free = psutil.virtual_memory().available
    if free < _LEAST_MEMORY_BYTES:
        return warn("memory", f"{format_bytes(free)} are free", remedy="End what holds memory.")
    return ok("memory", f"{format_bytes(free)} are free")


def _load() -> Finding:
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    if load > _BUSY_RATIO * cores:
        remedy = "Measure when it is quiet: other work on the same cores is part of every number."
        return warn("load", f"other work keeps {load:.1f} of {cores} cores busy", remedy=remedy)
    return ok("load", f"{cores} cores, quiet")


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())
