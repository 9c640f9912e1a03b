"""Can the nodes be reached without a prompt, and does docker answer there?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from harness.engine.pair.containers import Container
from harness.engine.pair.node import Node, Role
from harness.errors import HarnessError
from harness.records.finding import Finding, fail, ok

_PERMISSION = ("permission denied", "connect: permission")
_MISSING = ("not found", "no such file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The nodes that answered, and what runs there."""

    nodes: tuple[Node, ...]
    containers: Mapping[Role, tuple[Container, ...]]  # of those whose docker answers
    findings: tuple[Finding, ...]


async def reach(nodes: tuple[Node, ...]) -> Reached:
    """Look at all nodes at once. What does not answer is a finding."""
    looks = await asyncio.gather(*(_reach(node) for node in nodes))
    return Reached(
        nodes=tuple(look.node for look in looks if look.answered),
        containers={look.node.role: look.containers for look in looks if look.containers is not None},
        findings=tuple(finding for look in looks for finding in look.findings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    node: Node
    answered: bool
    containers: tuple[Container, ...] | None
    findings: tuple[Finding, ...]


async def _reach(node: Node) -> _Look:
    try:
        await node.run("true")
    except HarnessError as error:
        remedy = error.hint or "Set up a key: ssh-copy-id."
        lost = fail("ssh", "the node is not reached", node=node.role, evidence=error.what, remedy=remedy)
        return _Look(node=node, answered=False, containers=None, findings=(lost,))
    how = "is this machine" if node.is_local else "answers ssh without a prompt"
    found = [ok("ssh", how, node=node.role, evidence="" if node.is_local else node.name)]
    containers: tuple[Container, ...] | None = None
    try:
        containers = await node.containers()
        compose = await node.attempt("docker", "compose", "version")
    except HarnessError as error:
        found.append(_docker_fails(node, error.what))
    else:
        found.append(_compose(node, compose.returncode, compose.stdout))
    return _Look(node=node, answered=True, containers=containers, findings=tuple(found))


def _compose(node: Node, returncode: int, said: str) -> Finding:
    if returncode == 0:
        return ok("docker", "docker answers without sudo", node=node.role, evidence=said.strip().partition("\n")[0])
    remedy = "Install the plugin: sudo apt install docker-compose-v2 (or docker-compose-plugin)."
    return fail("docker", "docker has no `compose`", node=node.role, evidence=said.strip(), remedy=remedy)


def _docker_fails(node: Node, said: str) -> Finding:
    words = said.lower()
    remedy = "Start it: sudo systemctl start docker."
    if any(mark in words for mark in _PERMISSION):
        remedy = "Let your user use docker: sudo usermod -aG docker $USER, then log in again."
    elif any(mark in words for mark in _MISSING):
        remedy = "Install docker there, and see that `docker` is on the PATH of a login over ssh."
    return fail("docker", "docker does not answer", node=node.role, evidence=said, remedy=remedy)
