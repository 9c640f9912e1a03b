"""What the driver of a pair asks of a way to launch: the checkout's scripts, or our own compose file."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from harness.engine.pair.containers import Container, of_project
from harness.engine.pair.node import Node, Role
from harness.engine.redact import redacted_text
from harness.errors import EngineError
from harness.recipe.spec import LaunchSpec

OnProgress = Callable[[str], None]
OnOutput = Callable[[tuple[str, ...]], None]  # lines for the launch's log, without secrets
ONE_TIME_KEY = "HARNESS_ONE_TIME_KEY"  # in the environment of a spec: our own, not the engine's


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The hosts: a head with the API, and a worker unless one node is all there is."""

    head: Node
    worker: Node | None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Head first."""
        return (self.head,) if self.worker is None else (self.head, self.worker)

    def node(self, role: Role) -> Node:
        """Return the node of a role. Raises EngineError where there is no worker."""
        if role == "head":
            return self.head
        if self.worker is None:
            raise EngineError("this rig has no worker")
        return self.worker


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLaunch:
    """One launch of a pair, whichever way it is made."""

    launch_id: str
    project: str  # compose's, of ours alone
    spec: LaunchSpec  # of a two_node style
    host: str  # address that the API listens on
    port: int
    api_key: str | None = field(default=None, repr=False)  # one-time, where the address is not the loopback
    secrets: tuple[str, ...] = field(default=(), repr=False)  # never to appear in an error

    @property
    def variables(self) -> Mapping[str, str]:
        """What the configuration sets, by the engine's own names."""
        return {name: value for name, value in self.spec.environment.items() if name != ONE_TIME_KEY}

    @property
    def overrides(self) -> tuple[str, ...]:
        """Compose files of the checkout to merge into its main one."""
        return self.spec.pair.overrides if self.spec.pair else ()

    @property
    def num_speculative_tokens(self) -> int | None:
        """0: without speculation; None: as the operator's file says."""
        return self.spec.num_speculative_tokens

    @property
    def ready_timeout_s(self) -> float:
        """Give up waiting after this."""
        return self.spec.ready_timeout_s

    @property
    def stop_timeout_s(self) -> float:
        """For the stop script."""
        return self.spec.stop_timeout_s

    @property
    def base_url(self) -> str:
        """Of the API, from here."""
        return f"http://{_bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The containers of a launch, one a node."""

    by_role: Mapping[Role, Container]

    def dead(self) -> str | None:
        """Return which ranks have ended or are being restarted, and how; None while all run."""
        return " and ".join(how for role, one in self.by_role.items() if (how := _ending(role, one))) or None


def _ending(role: Role, container: Container) -> str | None:
    if container.restart_count > 0:
        return f"the {role} rank ended {container.restart_count} times and is started again each time"
    if not container.is_up and container.status != "created":
        return f"the {role} rank {container.status} with code {container.exit_code}"
    return None


class PairLauncher(Protocol):
    """One way to bring a pair up and down."""

    async def start(self, launch: TrialLaunch, on_progress: OnProgress) -> None:
        """Bring both ranks up and wait until the API answers.

        Raises:
            LaunchError: it did not come up; the ranks may still run, so call ``stop``.
            HostError, HostUnreachableError: a host was lost; likewise.
        """

    async def smoke_test(self, launch: TrialLaunch, on_progress: OnProgress, on_output: OnOutput) -> None:
        """Send the requests by which the way to launch judges a start, if it has any.

        Raises:
            LaunchError: they were not answered.
            HostUnreachableError: a host was lost.
        """

    async def stop(self, launch: TrialLaunch) -> None:
        """Take both ranks down, whatever state they are in, and see for oneself that they are gone. Idempotent.

        Raises:
            HostError: a rank may still run.
        """


async def ranks_of(pair: Pair, project: str) -> Ranks:
    """Return the ranks of a project that exist now. Raises EngineError where a host or its docker does not answer."""
    found: dict[Role, Container] = {}
    for node in pair.nodes:
        for container in of_project(await node.containers(), project):
            found[node.role] = container
    return Ranks(by_role=found)


async def dead_ranks(pair: Pair, project: str) -> tuple[Ranks, str] | None:
    """Return the ranks of a project and what has ended of them; None while all run. Raises EngineError likewise."""
    ranks = await ranks_of(pair, project)
    if (dead := ranks.dead()) is None:
        return None
    again = await ranks_of(pair, project)  # what took this one with it may have ended after it was looked at
    return (again, later) if (later := again.dead()) is not None else (ranks, dead)


async def remove_ranks(pair: Pair, project: str) -> None:
    """Remove whatever is left of a project of ours on both hosts, and look again.

    Raises:
        EngineError: a rank is still there, or a host cannot say.
    """
    for node in pair.nodes:
        left = of_project(await node.containers(), project)
        if left:
            await node.attempt("docker", "rm", "-f", *(container.container_id for container in left))
    left_over = await ranks_of(pair, project)
    if left_over.by_role:
        roles = " and ".join(left_over.by_role)
        raise EngineError(
            f"the {roles} rank of {project} is still there after it was stopped",
            hint=f"On that host: docker rm -f $(docker ps -aq --filter label=com.docker.compose.project={project})",
        )


async def rank_tail(pair: Pair, ranks: Ranks, secrets: tuple[str, ...], *, lines: int = 15) -> tuple[str, ...]:
    """Return the last log lines of each rank, each with the rank's name; what cannot be read is left out."""
    tail: list[str] = []
    for role, container in ranks.by_role.items():
        try:
            done = await pair.node(role).attempt("docker", "logs", "--tail", str(lines), container.container_id)
        except EngineError:
            continue
        tail += [f"{role}: {redacted_text(line, secrets)}" for line in done.output.splitlines() if line.strip()]
    return tuple(tail)


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
