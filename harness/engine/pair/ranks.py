"""Ranks without a checkout: make sure of both nodes, start, stop. The interface is described in bundled.py.

Everything of ours on a node lies in ~/.cache/harness/PROJECT (0700), and every container is of that compose project.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import PurePosixPath

from harness.engine.pair.agreement import Holding, Wanted, read_holding, require_agreement, shared_image
from harness.engine.pair.bundled import (
    COMPOSE_FILE,
    KEY_FILE,
    QUIET_COMPOSE,
    BundledLaunch,
    Place,
    RankFiles,
    check_command,
    down_command,
    render,
    require_project,
    up_command,
)
from harness.engine.pair.containers import Container, of_project
from harness.engine.pair.gid import resolve_gid
from harness.engine.pair.inventory import NodeEntry, WorkerEntry
from harness.engine.pair.node import Node
from harness.engine.shell import Completed
from harness.errors import EngineError, LaunchError

_COMPOSE_S = 180.0  # up creates and starts a container; down waits for the engine's end
_FOLDER = 'printf %s "$HOME/.cache/harness/$1"'
_MAKE = 'umask 077; mkdir -p "$1" && chmod 700 "$1"'
_REMOVE = f'rm -f -- "$1/{COMPOSE_FILE}" "$1/{KEY_FILE}"; [ ! -d "$1" ] || rmdir "$1"'
_HAS_FILE = f'[ -f "$1/{COMPOSE_FILE}" ]'
_PRIVATE = 0o600


async def prepare(launch: BundledLaunch, nodes: Sequence[Node]) -> tuple[RankFiles, ...]:
    """Return the files of every rank, once it is sure that these nodes can run it. Nothing is started or written.

    Raises:
        InputError: pair.yaml or the configuration is wrong.
        EngineError: a node lacks image or checkpoint, has another one, or has no usable GID; with the remedy.
        HostUnreachableError: a host did not answer.
    """
    entries = launch.inventory.entries
    _require_as_many(launch, nodes)
    wanted = Wanted(
        image=launch.image,
        checkpoint=launch.checkpoint,
        snapshot_file=launch.data.encoder.file if launch.data.encoder else None,
    )
    holdings = await asyncio.gather(
        *(_holding(node, entry, wanted) for node, entry in zip(nodes, entries, strict=True))
    )
    require_agreement(wanted, holdings)
    indexes = await asyncio.gather(*(_gid_index(node, entry) for node, entry in zip(nodes, entries, strict=True)))
    own = all(holding.snapshot_file or holding.mounts_cache for holding in holdings)
    places = tuple(
        Place(hf_cache=holding.hf_cache, gid_index=index, encoder=holding.snapshot_file if own else None)
        for holding, index in zip(holdings, indexes, strict=True)
    )
    return render(launch, shared_image(wanted, holdings), places)


async def start(nodes: Sequence[Node], ranks: Sequence[RankFiles]) -> None:
    """Write the files and start the containers, the worker first. A rank of ours that is left over is replaced.

    Returns:
        When all containers exist; they are loading then.

    Raises:
        LaunchError: docker refused one; what was started is still there: call stop.
        HostUnreachableError: a host did not answer; likewise.
    """
    pairs = list(zip(nodes, ranks, strict=True))
    folders = [await _write(node, files) for node, files in pairs]
    for (node, files), folder in zip(pairs, folders, strict=True):
        await _compose(node, check_command(files.project, folder), "refuses the compose file")
    for (node, files), folder in reversed(list(zip(pairs, folders, strict=True))):
        await _compose(node, up_command(files.project, folder), f"could not start the {files.role} rank")


async def stop(nodes: Sequence[Node], project: str) -> None:
    """Remove every container and file of this project on every node, and make sure that they are gone.

    Raises:
        EngineError: a container is still there, or a node did not answer; the others are done all the same.
    """
    require_project(project)
    outcomes = await asyncio.gather(*(_stop(node, project) for node in nodes), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, EngineError):
            raise outcome
    failed = [outcome for outcome in outcomes if isinstance(outcome, EngineError)]
    if failed:
        first, *rest = failed
        also = "".join(f"\n  Also {each}" for each in rest)
        raise EngineError(first.what, where=first.where, hint=f"{first.hint or _BY_HAND.format(project=project)}{also}")


_BY_HAND = "On that node: docker ps -aq --filter label=com.docker.compose.project={project} | xargs -r docker rm -f"


async def containers_of(nodes: Sequence[Node], project: str) -> tuple[tuple[Container, ...], ...]:
    """Return the containers of this project by node. Raises NodeError, HostUnreachableError."""
    found = await asyncio.gather(*(node.containers() for node in nodes))
    return tuple(of_project(containers, project) for containers in found)


def _require_as_many(launch: BundledLaunch, nodes: Sequence[Node]) -> None:
    ranks = launch.pair.data.nodes
    if not len(nodes) == len(launch.inventory.entries) == ranks:
        raise EngineError(
            f"recipe {launch.spec.recipe} runs on {ranks} nodes, and pair.yaml names {len(launch.inventory.entries)}",
            hint="Correct pair.yaml, or take the recipe for that many nodes.",
        )


async def _holding(node: Node, entry: NodeEntry, wanted: Wanted) -> Holding:
    mounts = isinstance(entry, WorkerEntry) and entry.hf_nfs
    return await read_holding(node, wanted, hf_cache=entry.hf_cache, mounts_cache=mounts)


async def _gid_index(node: Node, entry: NodeEntry) -> int | None:
    if entry.hca is None or entry.address is None:
        return None
    if entry.gid_index != "auto":
        return entry.gid_index
    return await resolve_gid(node, selector=entry.hca, address=entry.address)


async def _folder(node: Node, project: str) -> PurePosixPath:
    done = await node.script(_FOLDER, project)
    if done.returncode != 0 or not done.stdout.startswith("/"):
        raise EngineError(f"{node.role} has no home folder", where=node.name, hint="Is HOME set for that user?")
    return PurePosixPath(done.stdout)


async def _write(node: Node, files: RankFiles) -> PurePosixPath:
    folder = await _folder(node, files.project)
    made = await node.script(_MAKE, str(folder))
    if made.returncode != 0:
        raise LaunchError(f"cannot make {folder} on {node.role}: {_last_line(made)}", where=node.name)
    await node.write_file(str(folder / COMPOSE_FILE), files.compose.encode(), mode=_PRIVATE)
    if files.key_file is not None:
        await node.write_file(str(folder / KEY_FILE), files.key_file.encode(), mode=_PRIVATE)
    return folder


async def _compose(node: Node, command: tuple[str, ...], complaint: str) -> None:
    done = await node.attempt(*command, environment=QUIET_COMPOSE, timeout_s=_COMPOSE_S)
    if done.returncode != 0:
        raise LaunchError(
            f"docker compose {complaint} (exit code {done.returncode}): {_last_line(done)}",
            where=node.name,
            log_tail=tuple(done.output.splitlines()[-20:]),
        )


async def _stop(node: Node, project: str) -> None:
    folder = await _folder(node, project)
    if (await node.script(_HAS_FILE, str(folder))).returncode == 0:
        # Whatever it says, what counts is what is left.
        await node.attempt(*down_command(project, folder), environment=QUIET_COMPOSE, timeout_s=_COMPOSE_S)
    left = of_project(await node.containers(), project)
    if left:
        await node.attempt("docker", "rm", "-f", *(container.container_id for container in left), timeout_s=_COMPOSE_S)
        left = of_project(await node.containers(), project)
    if left:
        names = ", ".join(container.name for container in left)
        raise EngineError(f"{names} cannot be removed on {node.role}", where=node.name)
    await node.script(_REMOVE, str(folder))


def _last_line(done: Completed) -> str:
    said = [line.strip() for line in done.output.splitlines() if line.strip()]
    return said[-1] if said else "no output"
