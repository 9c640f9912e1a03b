"""What `docker inspect` says of a container, as far as a pair is concerned. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import EngineError

_PROJECT = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"
_WORKING_DIR = "com.docker.compose.project.working_dir"
_CONFIG_FILES = "com.docker.compose.project.config_files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container in whatever state. Its environment may hold keys."""

    container_id: str
    name: str
    status: str  # running, restarting, exited, created, paused, dead
    exit_code: int
    restart_count: int
    restart_policy: str
    image: str  # as it was asked for
    image_id: str
    started_at: str
    environment: Mapping[str, str]
    project: str | None  # compose's labels; None where compose did not make it
    service: str | None
    working_dir: str | None
    config_files: tuple[str, ...]

    @property
    def is_up(self) -> bool:
        """It runs now, or dockerd is about to run it again."""
        return self.status in ("running", "restarting", "paused")

    @property
    def has_failed(self) -> bool:
        """It has ended at least once since it was made."""
        return self.restart_count > 0 or self.status in ("restarting", "exited", "dead")


def parse_containers(text: str) -> tuple[Container, ...]:
    """Return the containers of a `docker inspect` document; none of an empty one.

    Raises:
        EngineError: it is no such document.
    """
    if not text.strip():
        return ()
    try:
        return tuple(_container(entry) for entry in json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(
            f"docker inspect answered something else than containers ({type(error).__name__}: {error})",
            hint="Is `docker` on that host the real one, and new enough for compose v2?",
        ) from error


def of_project(containers: tuple[Container, ...], project: str) -> tuple[Container, ...]:
    """Return those of one compose project."""
    return tuple(each for each in containers if each.project == project)


def _container(entry: dict[str, Any]) -> Container:
    state, config = entry["State"], entry["Config"]
    labels = config.get("Labels") or {}
    return Container(
        container_id=entry["Id"],
        name=entry["Name"].removeprefix("/"),
        status=state["Status"],
        exit_code=int(state.get("ExitCode") or 0),
        restart_count=int(entry.get("RestartCount") or 0),
        restart_policy=(entry.get("HostConfig") or {}).get("RestartPolicy", {}).get("Name") or "no",
        image=config.get("Image") or "",
        image_id=entry.get("Image") or "",
        started_at=state.get("StartedAt") or "",
        environment=dict(_assignment(line) for line in config.get("Env") or ()),
        project=labels.get(_PROJECT),
        service=labels.get(_SERVICE),
        working_dir=labels.get(_WORKING_DIR),
        config_files=tuple(name for name in (labels.get(_CONFIG_FILES) or "").split(",") if name),
    )


def _assignment(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name, value
