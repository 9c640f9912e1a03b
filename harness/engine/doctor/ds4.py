"""ds4 where it would run: does the build know DSpark, do its files belong together, is there room, is it alone?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.engine.doctor.ds4_host import Ds4Host, FarMachine, FileHead, ThisMachine
from harness.engine.gguf import Scalar
from harness.engine.shell import Command, Shell
from harness.errors import HarnessError
from harness.recipe.spec import LaunchSpec
from harness.records.finding import Finding, fail, ok, warn
from harness.units import format_bytes

_HELP_TIMEOUT_S = 10.0
_SUPPORT_FLAGS = ("--mtp-model", "--mtp")
_IDENTITY = ("deepseek4.checkpoint_variant", "general.source.revision")  # what ds4 itself compares
_KEPT_FREE_BYTES = 4 * 2**30  # for the cache of a context and the system
_BACKENDS = ("cuda", "metal", "rocm")


async def ds4_findings(spec: LaunchSpec, shell: Shell) -> list[Finding]:
    """Return what was found about a launch of ds4. Looks only; nothing is changed.

    Args:
        spec: of the launch.
        shell: runs commands on the host where the engine would run.
    """
    host: Ds4Host = ThisMachine(shell=shell) if spec.over_ssh is None else FarMachine(shell=shell, name=spec.over_ssh)
    build = await _build(spec, shell)
    wanted = (("model", _file_of(spec, ("--model", "-m"))), ("support_model", _file_of(spec, _SUPPORT_FLAGS)))
    try:
        heads = [(name, path, await host.head(path)) for name, path in wanted if path is not None]
        return [*build, *_files(heads), *_room(heads, await host.available_bytes()), await _alone(host)]
    except HarnessError as error:
        remedy = error.hint or "See that it answers, then run this again."
        return [*build, fail("host", f"{host.name} cannot be looked at: {error.what}", remedy=remedy)]


async def _build(spec: LaunchSpec, shell: Shell) -> list[Finding]:
    """What `ds4-server --help` names: options, and with them the generation of the build."""
    program = spec.argv[: spec.argv.index("--model")] if "--model" in spec.argv else spec.argv[:1]
    try:
        done = await shell.run(Command(argv=(*program, "--help")), timeout_s=_HELP_TIMEOUT_S)
    except (HarnessError, TimeoutError) as error:
        what = error.what if isinstance(error, HarnessError) else "ds4-server --help does not end"
        return [fail("build", what, remedy="Build ds4, and name its server: --set command=PATH/ds4-server.")]
    known = set(re.findall(r"--[a-z][a-z0-9-]*", done.output))
    backends = [name for name in _BACKENDS if f"--{name}" in known or re.search(rf"\b{name}\b", done.output)]
    found = [ok("backend", "the build names its backends", evidence=", ".join(backends) or "none")]
    asked = [word for word in spec.argv if word.startswith("--")]
    missing = [word for word in dict.fromkeys(asked) if word not in known]
    if not missing:
        return [ok("build", "the build knows every option of this launch"), *found]
    return [fail("build", f"the build does not know {', '.join(missing)}", remedy=_remedy(missing, known)), *found]


def _remedy(missing: list[str], known: set[str]) -> str:
    other = next((flag for flag in _SUPPORT_FLAGS if flag in known), None)
    if other is not None and any(flag in missing for flag in _SUPPORT_FLAGS):
        return f"This build spells the support file otherwise: --set support_flag={other}."
    if any(flag.startswith("--dspark") for flag in missing):
        return "Update ds4: this build has no DSpark. Without it only --set mode=off can be measured."
    return "See `ds4-server --help` for what this build calls it."


def _files(heads: Sequence[tuple[str, Path, FileHead | str]]) -> list[Finding]:
    found = [
        fail(name, head, evidence=str(path), remedy=f"Correct the path, or download it again: --set {name}=FILE.")
        if isinstance(head, str)
        else ok(name, f"{format_bytes(head.size_bytes)}, {head.metadata.get('general.name', 'without a name')}")
        for name, path, head in heads
    ]
    known = [head.metadata for _, _, head in heads if isinstance(head, FileHead)]
    return [*found, _pair(*known)] if len(known) == 2 else found


def _pair(model: dict[str, Scalar], support: dict[str, Scalar]) -> Finding:
    told = {key: (model.get(key), support.get(key)) for key in _IDENTITY if key in model or key in support}
    unlike = [f"{key}: {mine} and {theirs}" for key, (mine, theirs) in told.items() if mine != theirs]
    if unlike:
        remedy = "Take the support file that was published with this model; ds4 refuses the pair as it is."
        return fail("pair", "model and support file are of two checkpoints", evidence="; ".join(unlike), remedy=remedy)
    if not told:
        remedy = "Nothing to do if ds4 takes them; else take both from one download."
        return warn("pair", "neither file says which checkpoint it is of", remedy=remedy)
    return ok("pair", "model and support file are of one checkpoint")


def _room(heads: Sequence[tuple[str, Path, FileHead | str]], free: int | None) -> list[Finding]:
    sizes = [head.size_bytes for _, _, head in heads if isinstance(head, FileHead)]
    if not sizes:
        return []
    if free is None:
        remedy = "See there that the model and a few GiB more are free."
        return [warn("memory_for_model", "the host does not say how much memory is free", remedy=remedy)]
    needed = sum(sizes) + _KEPT_FREE_BYTES
    evidence = f"{format_bytes(sum(sizes))} of files, {format_bytes(free)} available"
    if needed > free:
        remedy = "End what holds memory (on a Spark the ranks of a pair must be down), or take a smaller quant."
        return [fail("memory_for_model", "the model does not fit into memory", evidence=evidence, remedy=remedy)]
    return [ok("memory_for_model", "the model fits into memory", evidence=evidence)]


async def _alone(host: Ds4Host) -> Finding:
    others = await host.other_engines()
    if others:
        remedy = "Stop it first: ds4 allows one process on a machine, and another engine takes memory and speed."
        return fail("alone", f"another engine runs on {host.name}", evidence=", ".join(others), remedy=remedy)
    return ok("alone", f"no other engine runs on {host.name}")


def _file_of(spec: LaunchSpec, flags: tuple[str, ...]) -> Path | None:
    for flag, value in zip(spec.argv, spec.argv[1:], strict=False):
        if flag in flags:
            return Path(value)
    return None
