"""The file tree of a container: the host's system folders, everything else its own, and the volumes.

Built in the container's own mount namespace, so it goes with the container's last process.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.integration.pair.standin import namespaces as ns
from tests.integration.pair.standin import places

_OF_THE_HOST = ("dev", "etc", "lib", "lib32", "lib64", "libx32", "bin", "sbin", "sys", "usr")
_OWN = ("cache", "home", "mnt", "opt", "proc", "root", "run", "srv", "tmp", "var/tmp", "var/log")
_BIN = "usr/local/bin"
_PROGRAMS = "programs"  # of the stand-ins' folder: what a container has in /usr/local/bin besides


def enter(container: dict[str, Any], mount_point: Path) -> None:
    """Make the tree of a container at ``mount_point`` and live in it from now on.

    The caller is alone in its mount namespace.

    Raises:
        OSError: a volume cannot be mounted.
    """
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE)
    mount_point.mkdir(parents=True, exist_ok=True)
    ns.mount("tmpfs", str(mount_point), kind="tmpfs", options="mode=755")
    for name in _OF_THE_HOST:
        _take_over(Path("/", name), mount_point / name)
    for name in _OWN:
        (mount_point / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (mount_point / name).chmod(0o1777)
    ns.mount("proc", str(mount_point / "proc"), kind="proc")
    for path in json.loads((places.FOLDER / places.KEPT).read_text()):
        if path.split("/")[1] not in _OF_THE_HOST:
            _bind(path, mount_point / path.lstrip("/"))
    _bind(str(places.FOLDER), mount_point / str(places.IN_CONTAINER).lstrip("/"))
    _add_programs(mount_point)
    for volume in container["Volumes"]:
        _mount_volume(volume, mount_point)
    os.chroot(mount_point)
    os.chdir(container["WorkingDir"] or "/")


def _take_over(source: Path, target: Path) -> None:
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.is_dir():
        _bind(str(source), target)


def _bind(source: str, target: Path) -> None:
    if Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    ns.bind(source, str(target))


def _add_programs(mount_point: Path) -> None:
    """Put our programs into /usr/local/bin, which nobody can write to: the machine's own entries stay beside them."""
    programs = places.FOLDER / _PROGRAMS
    machine = os.open(mount_point / _BIN, os.O_PATH | os.O_DIRECTORY)
    target = mount_point / _BIN
    ours = {path.name: path for path in programs.iterdir()}
    theirs = [entry for entry in target.iterdir() if entry.name not in ours]
    copies = [(entry.name, entry.readlink() if entry.is_symlink() else None) for entry in theirs]
    ns.mount("tmpfs", str(target), kind="tmpfs", options="mode=755")
    for name, link in copies:
        if link is not None:
            (target / name).symlink_to(link)
        else:
            _bind(f"/proc/self/fd/{machine}/{name}", target / name)
    for name, path in ours.items():
        _bind(str(path), target / name)
    os.close(machine)


def _mount_volume(volume: dict[str, Any], mount_point: Path) -> None:
    source = Path(volume["source"])
    if not source.exists():
        source.mkdir(parents=True)  # docker does, which is why a wrong path shows late
    target = mount_point / volume["target"].lstrip("/")
    _bind(str(source), target)
    if volume.get("read_only"):
        flags = ns.MS_REMOUNT | ns.MS_BIND | ns.MS_RDONLY
        ns.mount("none", str(target), flags=flags)


def environment_of(container: dict[str, Any], host_name: str) -> dict[str, str]:
    """Return the variables of the container's first process."""
    assigned = (line.partition("=") for line in container["Env"])
    return {"HOSTNAME": host_name, "HOME": "/root", **{name: value for name, _, value in assigned}}


def command_of(container: dict[str, Any]) -> list[str]:
    """Return the words of the container's first process."""
    return [*(container["Entrypoint"] or ()), *(container["Cmd"] or ())]
