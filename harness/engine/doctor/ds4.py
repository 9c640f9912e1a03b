"""ds4 on this machine: does the build know DSpark, do its two files belong together, is there room, is it alone?"""

from __future__ import annotations

import re
from pathlib import Path

import psutil

from harness.engine.gguf import NotGgufError, Scalar, read_metadata
from harness.engine.shell import Command, Shell
from harness.errors import HarnessError
from harness.recipe.spec import LaunchSpec
from harness.records.finding import Finding, fail, ok, warn
from harness.units import format_bytes

_HELP_TIMEOUT_S = 10.0
_SUPPORT_FLAGS = ("--mtp-model", "--mtp")
_IDENTITY = ("deepseek4.checkpoint_variant", "general.source.revision")  # what ds4 itself compares
_OTHERS = re.compile(r"^(ds4(-server|-bench|-agent|-eval)?|VLLM::.*|vllm)$")
_KEPT_FREE_BYTES = 4 * 2**30  # for the cache of a context and the system
_BACKENDS = ("cuda", "metal", "rocm")


async def ds4_findings(spec: LaunchSpec, shell: Shell) -> list[Finding]:
    """Return what was found about a launch of ds4. Looks only; nothing is changed.

    Args:
        spec: of the launch.
        shell: runs the program's ``--help``, on the host where the engine would run.
    """
    if spec.over_ssh is not None:
        remedy = "Look there yourself: both files, free memory, and that nothing else runs."
        elsewhere = warn("files", f"files and memory of {spec.over_ssh} are not looked at", remedy=remedy)
        return [*await _build(spec, shell), elsewhere]
    model, support = _file_of(spec, ("--model", "-m")), _file_of(spec, _SUPPORT_FLAGS)
    return [
        *await _build(spec, shell),
        *_files(model, support),
        *_room([path for path in (model, support) if path is not None]),
        _alone(),
    ]


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


def _files(model: Path | None, support: Path | None) -> list[Finding]:
    heads = [(name, path, _head(path)) for name, path in (("model", model), ("support_model", support)) if path]
    found = [
        fail(name, head, evidence=str(path), remedy=f"Correct the path, or download it again: --set {name}=FILE.")
        if isinstance(head, str)
        else ok(name, f"{format_bytes(path.stat().st_size)}, {head.get('general.name', 'without a name')}")
        for name, path, head in heads
    ]
    known = [head for _, _, head in heads if not isinstance(head, str)]
    return [*found, _pair(*known)] if len(known) == 2 else found


def _head(path: Path) -> dict[str, Scalar] | str:
    """Metadata, or why there are none."""
    try:
        return read_metadata(path)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except NotGgufError as error:
        return str(error)


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


def _room(files: list[Path]) -> list[Finding]:
    sizes = [path.stat().st_size for path in files if path.is_file()]
    free = psutil.virtual_memory().available
    if not sizes:
        return []
    needed = sum(sizes) + _KEPT_FREE_BYTES
    evidence = f"{format_bytes(sum(sizes))} of files, {format_bytes(free)} available"
    if needed > free:
        remedy = "End what holds memory (on a Spark the ranks of a pair must be down), or take a smaller quant."
        return [fail("memory_for_model", "the model does not fit into memory", evidence=evidence, remedy=remedy)]
    return [ok("memory_for_model", "the model fits into memory", evidence=evidence)]


def _alone() -> Finding:
    others = [
        f"{process.info['name']} ({process.info['pid']})"
        for process in psutil.process_iter(["pid", "name"])
        if _OTHERS.match(process.info["name"] or "")
    ]
    if others:
        remedy = "Stop it first: ds4 allows one process on a machine, and another engine takes memory and speed."
        return fail("alone", "another engine runs on this machine", evidence=", ".join(others), remedy=remedy)
    return ok("alone", "no other engine runs on this machine")


def _file_of(spec: LaunchSpec, flags: tuple[str, ...]) -> Path | None:
    for flag, value in zip(spec.argv, spec.argv[1:], strict=False):
        if flag in flags:
            return Path(value)
    return None
