"""The operator's files on a node: taken as one archive before anything changes, put back and compared at the end."""

from __future__ import annotations

import base64
import io
import posixpath
import tarfile
from dataclasses import dataclass

from harness.engine.pair.node import Node, NodeError

# $1 folder, then names in it. A name that is not there is none of the operator's files.
_TAKE = (
    'cd "$1" 2>/dev/null || exit 0; shift; for name do shift; [ -e "$name" ] && set -- "$@" "$name"; done; '
    '[ $# -eq 0 ] || tar -cf - -- "$@" | base64'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """One file of an archive."""

    content: bytes
    mode: int


async def take_snapshot(node: Node, folder: str, names: tuple[str, ...]) -> bytes:
    """Return an archive of those of ``names`` that exist in ``folder``; empty where none does.

    Raises:
        NodeError, HostUnreachableError: it cannot be read.
    """
    done = await node.script(_TAKE, folder, *names)
    if done.returncode != 0:
        raise NodeError(f"cannot save the files in {folder} on {node.role}: {done.stderr.strip()}", where=node.name)
    return base64.b64decode(done.stdout)


def files_of(archive: bytes) -> dict[str, FileState]:
    """Return the files of an archive by their name in the folder."""
    if not archive:
        return {}
    found: dict[str, FileState] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None:
                found[posixpath.normpath(member.name)] = FileState(content=file.read(), mode=member.mode & 0o7777)
    return found


async def put_back(node: Node, folder: str, names: tuple[str, ...], archive: bytes) -> tuple[str, ...]:
    """Make those files what they were; return the paths that had changed. Files that came since are removed.

    Raises:
        NodeError: a file is still not what it was.
        HostUnreachableError: the host did not answer.
    """
    wanted = files_of(archive)
    found = files_of(await take_snapshot(node, folder, names))
    changed = tuple(name for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name))
    for name in changed:
        path, file = posixpath.join(folder, name), wanted.get(name)
        if file is None:
            await node.remove_file(path)
        else:
            await node.run("mkdir", "-p", "--", posixpath.dirname(path))
            await node.write_file(path, file.content, mode=file.mode)
    if changed and files_of(await take_snapshot(node, folder, names)) != wanted:
        raise NodeError(f"the files in {folder} on {node.role} are still not the operator's", where=node.name)
    return tuple(posixpath.join(folder, name) for name in changed)
