"""What a test sees on a host: containers and processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.integration.pair.standin import lifecycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container in whatever state."""

    container_id: str
    name: str
    status: str  # created, running, restarting, exited
    exit_code: int
    restart_count: int
    restart_policy: str
    pid: int  # on the host; 0: it does not run
    image: str
    image_id: str
    started_at: str
    environment: Mapping[str, str]
    labels: Mapping[str, str]

    @property
    def is_up(self) -> bool:
        """It runs, or docker is about to run it again."""
        return self.status in lifecycle.UP

    @property
    def project(self) -> str | None:
        """Compose's project."""
        return self.labels.get(f"{lifecycle.LABEL}project")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProcess:
    """A process of a host, in a container or not."""

    pid: int  # on this machine
    arguments: tuple[str, ...]


def container_of(container_id: str, config: dict[str, Any], state: dict[str, Any]) -> Container:
    """Return a container that the stand-in docker knows."""
    return Container(
        container_id=container_id,
        name=config["Name"],
        status=state["Status"],
        exit_code=state["ExitCode"],
        restart_count=state["RestartCount"],
        restart_policy=config["RestartPolicy"]["Name"],
        pid=state["Pid"],
        image=config["Image"],
        image_id=config["ImageId"],
        started_at=state["StartedAt"],
        environment=dict(line.split("=", 1) for line in config["Env"]),
        labels=config["Labels"],
    )
