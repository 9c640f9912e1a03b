"""Before a checkout's scripts are run: whether both nodes have the image and the checkpoint of every configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.engine.pair.agreement import Wanted, read_holding, require_agreement
from harness.engine.pair.launcher import Pair
from harness.recipe.pair import PairVariables
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
