"""What the stand-in docker of a host knows: containers, one folder each, and images. Survives a reboot, as docker's."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.integration.pair.standin import faults, places

NEVER = "0001-01-01T00:00:00Z"
_CONFIG, _STATE, LOG = "config.json", "state.json", "log.jsonl"

Tree = dict[str, Any]


class Store:
    """The containers and images of one host."""

    def __init__(self, folder: Path = places.FOLDER) -> None:
        """``folder`` is the stand-ins' own."""
        self.folder = folder
        self.faults = faults.Faults(folder)
        self._containers = folder / places.CONTAINERS

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else changes a container meanwhile."""
        self._containers.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._containers / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def ids(self) -> list[str]:
        """Of every container, newest first."""
        if not self._containers.exists():
            return []
        names = [path.parent.name for path in self._containers.glob(f"*/{_CONFIG}")]
        made = [(self.config(name)["Created"], name) for name in names]
        return [container_id for _, container_id in sorted(made, reverse=True)]

    def path(self, container_id: str) -> Path:
        """The folder of a container."""
        return self._containers / container_id

    def exists(self, container_id: str) -> bool:
        """Whether it has not been removed."""
        return (self.path(container_id) / _CONFIG).exists()

    def config(self, container_id: str) -> Tree:
        """What it was made from."""
        return _read(self.path(container_id) / _CONFIG)

    def state(self, container_id: str) -> Tree:
        """How it is."""
        return _read(self.path(container_id) / _STATE)

    def change(self, container_id: str, **changes: Any) -> Tree:
        """Change its state, and return it. The caller has the lock."""
        state = self.state(container_id) | changes
        _write(self.path(container_id) / _STATE, state)
        return state

    def add(self, config: Tree) -> str:
        """Keep a new container, and return its id."""
        seed = f"{config['Name']} {stamp()} {os.getpid()}"
        container_id = hashlib.sha256(seed.encode()).hexdigest()
        folder = self.path(container_id)
        folder.mkdir(parents=True)
        state = {
            "Status": "created",
            "Pid": 0,
            "ExitCode": 0,
            "Error": "",
            "StartedAt": NEVER,
            "FinishedAt": NEVER,
            "RestartCount": 0,
            "StoppedByHand": False,
        }
        _write(folder / _STATE, state)
        _write(folder / _CONFIG, config | {"Created": stamp()})
        return container_id

    def remove(self, container_id: str) -> None:
        """Forget it."""
        (self.path(container_id) / _CONFIG).unlink(missing_ok=True)
        shutil.rmtree(self.path(container_id), ignore_errors=True)

    def rewrite(self, container_id: str, config: Tree) -> None:
        """Change what it is made from."""
        _write(self.path(container_id) / _CONFIG, config)

    def images(self) -> list[Tree]:
        """Every image, as `docker image inspect` has it."""
        path = self.folder / places.IMAGES
        if self.faults.happens(faults.IMAGE_MISSING) or not path.exists():
            return []
        images: list[Tree] = json.loads(path.read_text())
        if self.faults.happens(faults.DIGEST_DIFFERS):
            return [_other(image) for image in images]
        return images

    def image(self, reference: str) -> Tree | None:
        """The image of that name, digest or id."""
        return next((image for image in self.images() if _is_called(image, reference)), None)


def stamp() -> str:
    """Now, as docker writes it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "000Z")


def read_stamp(text: str) -> datetime:
    """Read it, or anything else in RFC 3339."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    plain = f"{whole}.{fraction[:6]:0<6}" if fraction else whole
    moment = datetime.fromisoformat(plain)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _is_called(image: Tree, reference: str) -> bool:
    name, at, digest = reference.partition("@")
    if at:  # docker looks at the digest alone; a tag before it says nothing
        repository, colon, tag = name.rpartition(":")
        plain = repository if colon and "/" not in tag else name
        return f"{plain}@{digest}" in image["RepoDigests"]
    tagged = reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"
    plain_id = str(image["Id"]).removeprefix("sha256:")
    is_id = len(reference) >= 12 and plain_id.startswith(reference.removeprefix("sha256:"))
    return tagged in image["RepoTags"] or is_id


def _other(image: Tree) -> Tree:
    """The same name with other bytes behind it."""

    def turned(text: str) -> str:
        before, colon, digest = text.rpartition("sha256:")
        return f"{before}{colon}{hashlib.sha256(digest.encode()).hexdigest()}"

    return image | {"Id": turned(image["Id"]), "RepoDigests": [turned(each) for each in image["RepoDigests"]]}


def _read(path: Path) -> Tree:
    tree: Tree = json.loads(path.read_text())
    return tree


def _write(path: Path, tree: Tree) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(tree, indent=1))
    part.replace(path)
