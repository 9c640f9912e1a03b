"""Before a checkout's scripts are run: whether both nodes have the image and the checkpoint of every configuration."""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.engine.pair.agreement import Wanted, read_holding, require_agreement
from harness.engine.pair.launcher import Pair
from harness.engine.pair.node import Node
from harness.errors import InputError
from harness.recipe.pair import GENERATION, PairVariables, recognise
from harness.recipe.schema import ENV_PREFIX
from harness.recipe.spec import LaunchSpec

_DEFAULT_CACHE = "~/.cache/huggingface"
_NO_REVISION = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointVariables:
    """Of the env file: which checkpoint the scripts serve where the configuration names none."""

    repository: str = "DSPARK_MODEL_OFFICIAL"
    revision: str = "DSPARK_REVISION"


async def require_same_on_both(
    pair: Pair, specs: Iterable[LaunchSpec], environment: Mapping[str, str], variables: PairVariables
) -> None:
    """Refuse to start ranks of two images or checkpoints: they may come up and answer nonsense.

    Args:
        pair: the hosts.
        specs: every configuration of the run.
        environment: the operator's env file, for what a configuration does not name.
        variables: their names.

    Raises:
        EngineError: a node lacks one or has another one; with the remedy.
        HostUnreachableError: a host did not answer.
    """
    for wanted in sorted({_wanted(spec, environment, variables) for spec in specs}, key=str):
        holdings = await asyncio.gather(
            *(
                read_holding(
                    node,
                    wanted,
                    hf_cache=_cache(environment, variables, worker=node.role == "worker"),
                    mounts_cache=node.role == "worker" and environment.get(variables.worker_nfs or "") == "1",
                )
                for node in pair.nodes
            )
        )
        require_agreement(wanted, holdings)


async def require_generation(head: Node, folder: str, specs: Sequence[LaunchSpec]) -> str | None:
    """Refuse rules of another state of the checkout than the one that is there.

    Args:
        head: where the checkout lies.
        folder: the checkout.
        specs: every configuration of the run.

    Returns:
        What to say of scripts that are of no generation known to the recipe; None where they are.

    Raises:
        InputError: the sweep was planned by the rules of another generation.
        HostUnreachableError: the host did not answer.
    """
    checkout = specs[0].pair.data.checkout if specs[0].pair else None
    if checkout is None:
        return None
    path = posixpath.join(folder, checkout.scripts.start)
    content = await head.read_file(path)
    if content is None:
        raise InputError("the checkout has no start script", where=path, hint="Is `checkout` the recipe's folder?")
    found = recognise(checkout.generations, content.decode(errors="replace"))
    if found is None:
        return f"untested generation: {checkout.scripts.start} is of no state of the recipe that was tested"
    planned = {spec.pair.generation for spec in specs if spec.pair} - {found, None}
    if planned:
        raise InputError(
            f"the checkout is of the {found} generation, and the sweep was planned by the rules of {planned.pop()}",
            where=path,
            hint=f"Add --set {GENERATION}={found}.",
        )
    return None


async def require_passed_on(head: Node, folder: str, specs: Sequence[LaunchSpec], *, compose_file: str) -> None:
    """Refuse a variable that neither the start script nor the compose file reads: every arm would be the same server.

    Args:
        head: where the checkout lies.
        folder: the checkout.
        specs: every configuration of the run.
        compose_file: in that folder; what the launches start from.

    Raises:
        InputError: names the variable.
        HostUnreachableError: the host did not answer.
    """
    texts: dict[str, str] = {}
    for spec in specs:
        checkout = spec.pair.data.checkout if spec.pair else None
        if checkout is None:
            continue
        files = (checkout.scripts.start, compose_file, *(spec.pair.overrides if spec.pair else ()))
        for name in files:
            if name not in texts:
                content = await head.read_file(posixpath.join(folder, name))
                texts[name] = (content or b"").decode(errors="replace")
        free = (name.removeprefix(ENV_PREFIX) for name in spec.configuration.knobs if name.startswith(ENV_PREFIX))
        for variable in free:
            if not any(re.search(rf"\b{re.escape(variable)}\b", texts[name]) for name in files):
                raise InputError(
                    f"{variable} reaches no container: neither {files[0]} nor {files[1]} reads it, so every value "
                    "would be the same server",
                    where=folder,
                    hint="Take it out of the sweep, or let the compose file of the checkout pass it on.",
                )


def _wanted(spec: LaunchSpec, environment: Mapping[str, str], variables: PairVariables) -> Wanted:
    known = {**environment, **spec.environment}
    names = CheckpointVariables()
    repository, revision = known.get(names.repository, ""), known.get(names.revision) or _NO_REVISION
    return Wanted(image=known.get(variables.image, ""), checkpoint=f"{repository}@{revision}")


def _cache(environment: Mapping[str, str], variables: PairVariables, *, worker: bool) -> str:
    own = environment.get(variables.worker_cache or "") if worker else None
    path = own or environment.get(variables.cache or "") or _DEFAULT_CACHE
    for home in ("${HOME}/", "$HOME/"):
        path = path.replace(home, "~/", 1) if path.startswith(home) else path
    return path
