"""The operator's files on a node: taken as one archive before anything changes, put back and compared at the end.

A link is kept twice, as a link and as what lies behind it: some copies onto it replace it, others change its target.
"""

from __future__ import annotations

import base64
import io
import posixpath
import tarfile
from dataclasses import dataclass, field

from harness.engine.pair.node import Node, NodeError

# $1 folder, then names in it; those that are not there are none of the operator's files.
_ENTER = (
    '[ -e "$1" ] || exit 0; cd -- "$1" || exit 1; shift; '
    'for name do shift; if [ -e "$name" ] || [ -h "$name" ]; then set -- "$@" "./$name"; fi; done; '
    '[ $# -eq 0 ] || find -L "$@" >/dev/null || exit 1; '
)
_FILES = (
    'printf ".\\0"; for name do printf "%s\\0" "$(dirname -- "$name")"; done; '
    '[ $# -eq 0 ] || find -L "$@" "(" -type f -o -type d ")" -print0'
)
_LINKS = '[ $# -eq 0 ] || find -L "$@" -xtype l -print0'
# A pipe ends with the code of its last program, so that of tar goes beside it: what half an archive lacks would later
# be taken for files that came since.
_PACK = (
    "{{ code=$( {{ {{ tar {option} --null --no-recursion -T - -cf -; echo $? >&3; }} | base64 >&4; }} 3>&1 ); }} 4>&1; "
    'exit "$code"'
)
_TAKE_FILES = f"{_ENTER} {{ {_FILES}; }} | {{ {_PACK.format(option='-h')}; }}"
_TAKE_LINKS = f"{_ENTER} {{ {_LINKS}; }} | {{ {_PACK.format(option='')}; }}"
_PARTS = ("files", "links")
_OWN = 'chown -- "$2" "$1" 2>/dev/null || true; touch -d "@$3" -- "$1"'


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """One file of an archive."""

    content: bytes
    mode: int
    owner: str = field(compare=False)  # user:group, as numbers; not everybody may set it
    changed_s: int = field(compare=False)  # since the epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What an archive holds, by name in the folder."""

    files: dict[str, FileState]  # those behind links too
    links: dict[str, str]  # and what they name
    folders: dict[str, int]  # and their modes


async def take_snapshot(node: Node, folder: str, names: tuple[str, ...]) -> bytes:
    """Return an archive of those of ``names`` that exist in ``folder``; empty where the folder does not.

    Raises:
        NodeError: part of it cannot be read.
        HostUnreachableError: the host did not answer.
    """
    parts = []
    for script in (_TAKE_FILES, _TAKE_LINKS):
        done = await node.script(script, folder, *names)
        if done.returncode != 0:
            raise NodeError(
                f"cannot save the files in {folder} on {node.role}: {done.stderr.strip()}",
                where=node.name,
                hint="A launch overwrites files there, so every one must be readable.",
            )
        parts.append(base64.b64decode(done.stdout))
    return _joined(parts) if any(parts) else b""


def contents_of(archive: bytes) -> Contents:
    """Return what is in an archive. Raises ValueError where it is damaged."""
    found = Contents(files={}, links={}, folders={})
    if not archive:
        return found
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as whole:
            for part in _PARTS:
                stream = whole.extractfile(part)
                with tarfile.open(fileobj=stream) as tar:
                    for member in tar.getmembers():
                        _add(found, tar, member)
    except (tarfile.TarError, KeyError, EOFError) as error:
        raise ValueError(f"damaged archive: {error}") from error
    return found


async def put_back(
    node: Node, folder: str, names: tuple[str, ...], archive: bytes, *, aside: str | None = None
) -> tuple[str, ...]:
    """Make those files what they were; return the paths that had changed. Files that came since are removed.

    Args:
        node: the host.
        folder: as in take_snapshot.
        names: as in take_snapshot.
        archive: of take_snapshot.
        aside: what is appended to the name under which the contents of a file that had changed are kept; None: nowhere.

    Raises:
        NodeError: a file is still not what it was, or the archive is damaged.
        HostUnreachableError: the host did not answer.
    """
    try:
        wanted = contents_of(archive)
    except ValueError as error:
        raise NodeError(f"the copy of the files in {folder} on {node.role} is no use: {error}") from error
    found = contents_of(await take_snapshot(node, folder, names))
    changed = _differences(wanted, found)
    for name in set(wanted.links) & changed:
        await node.run("ln", "-sfnT", "--", wanted.links[name], _path(folder, name))
    if set(wanted.links) & changed:
        found = contents_of(await take_snapshot(node, folder, names))
    await _put_back_files(node, folder, wanted, found, aside=aside)
    for name in set(found.links) - set(wanted.links):
        await node.remove_file(_path(folder, name))
    for name in sorted(set(found.folders) - set(wanted.folders), reverse=True):
        await node.attempt("rmdir", "--", _path(folder, name))  # stays where it holds something else
    if changed and _differences(wanted, contents_of(await take_snapshot(node, folder, names))):
        raise NodeError(f"the files in {folder} on {node.role} are still not the operator's", where=node.name)
    return tuple(_path(folder, name) for name in sorted(changed))


async def _put_back_files(node: Node, folder: str, wanted: Contents, found: Contents, *, aside: str | None) -> None:
    for name in sorted(set(wanted.folders) - set(found.folders)):
        await node.run("mkdir", "-p", "-m", f"{wanted.folders[name]:o}", "--", _path(folder, name))
    for name in sorted({*wanted.files, *found.files}):
        state, now = wanted.files.get(name), found.files.get(name)
        if state == now:
            continue
        # Through links: what they name is to change, not they.
        path = (await node.run("readlink", "-m", "--", _path(folder, name))).removesuffix("\n")
        if aside is not None and now is not None:
            await node.write_file(path + aside, now.content, mode=now.mode)
        if state is None:
            await node.remove_file(path)
        else:
            await node.attempt("rmdir", "--", path)  # docker makes a folder of a file that it is to mount and misses
            await node.write_file(path, state.content, mode=state.mode)
            await node.script(_OWN, path, state.owner, str(state.changed_s))


def _path(folder: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(folder, name))


def _differences(one: Contents, other: Contents) -> set[str]:
    files = {name for name in {*one.files, *other.files} if one.files.get(name) != other.files.get(name)}
    return files | {name for name in {*one.links, *other.links} if one.links.get(name) != other.links.get(name)}


def _joined(parts: list[bytes]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for name, content in zip(_PARTS, parts, strict=True):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return whole.getvalue()


def _add(found: Contents, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    name = posixpath.normpath(member.name)
    if member.isdir():
        found.folders[name] = member.mode & 0o7777
    elif member.issym():
        found.links[name] = member.linkname
    elif file := tar.extractfile(member):  # of a second name of one file too
        found.files[name] = FileState(
            content=file.read(),
            mode=member.mode & 0o7777,
            owner=f"{member.uid}:{member.gid}",
            changed_s=int(member.mtime),
        )
