"""The machines that serve a recipe's engine: where they are, what they are, and the identity of the rig they make.

Noise and canaries belong to the machines that serve, from wherever they are measured.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Sequence
from dataclasses import dataclass

from harness.engine.host import host_facts
from harness.engine.pair.inventory import load_inventory, nodes_of
from harness.engine.pair.names import names_of
from harness.engine.pair.node import Node
from harness.engine.pair.rig import checkout_rig
from harness.engine.ssh import SshShell
from harness.errors import EngineError
from harness.recipe.spec import LaunchSpec
from harness.records.identity import content_id
from harness.records.manifest import HostFacts
from harness.sweep.site import Site

_CHECKOUT = "checkout"
# One "name value" a line. A machine without systemd's id has its name; Arm says no processor name, so its architecture.
_LOOK = (
    'id=$(cat /etc/machine-id /var/lib/dbus/machine-id 2>/dev/null | head -n 1); echo "id ${id:-$(uname -n)}"; '
    'echo "kernel $(uname -r)"; echo "cores $(getconf _NPROCESSORS_ONLN)"; '
    'echo "memory $(sed -n "s/^MemTotal: *//p" /proc/meminfo 2>/dev/null)"; echo "processor $(uname -m)"; '
    'sed -n "s/^model name[^:]*: */model /p" /proc/cpuinfo 2>/dev/null | sort -u; '
    'nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | sed "s/^/accelerator /"; true'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What identifies a machine."""

    machine_id: str
    processor: str
    accelerators: tuple[str, ...]
    kernel: str
    cores: int
    memory_bytes: int


def serving_facts(specs: Sequence[LaunchSpec], site: Site) -> HostFacts:
    """Return the facts of the machines on which these launches serve, and the rig that they are.

    Args:
        specs: of one recipe, at least one.
        site: says where a pair is.

    Raises:
        EngineError: a machine does not answer.
        InputError: what says where they are cannot be used.
    """
    return asyncio.run(_facts(specs, site))


async def _facts(specs: Sequence[LaunchSpec], site: Site) -> HostFacts:
    recipe = specs[0].recipe
    nodes: dict[str, Node] = {}
    for spec in _one_of_each(specs):
        for node in await _nodes(spec, site):
            nodes.setdefault(node.name, node)
    if all(node.is_local for node in nodes.values()):
        return host_facts(recipe)
    return _host_facts(await asyncio.gather(*(_look(node) for node in nodes.values())), recipe)


def _one_of_each(specs: Sequence[LaunchSpec]) -> list[LaunchSpec]:
    """The configurations of a sweep are launched in a handful of places."""
    found = {(spec.style, spec.over_ssh, spec.configuration.knobs.get(_CHECKOUT)): spec for spec in specs}
    return list(found.values())


async def _nodes(spec: LaunchSpec, site: Site) -> tuple[Node, ...]:
    """Head first; empty: this machine."""
    if spec.over_ssh is not None:
        shell = SshShell(target=spec.over_ssh)
        return (Node(role="head", name=spec.over_ssh, shell=shell, is_local=False),)
    if spec.pair is None:
        return ()
    data = spec.pair.data
    checkout = spec.configuration.knobs.get(_CHECKOUT) or site.checkout
    if checkout is not None and data.checkout is not None and spec.style == "two_node_checkout":
        return (await checkout_rig(site, str(checkout), names_of(data))).pair.nodes[: data.nodes]
    if site.inventory_file is not None:
        return nodes_of(load_inventory(site.inventory_file, nodes=data.nodes))
    return ()


async def _look(node: Node) -> Machine:
    done = await node.script(_LOOK)
    machine = machine_of(done.stdout)
    if machine is None:
        raise EngineError(f"{node.name} does not say which machine it is: {done.output.strip()}", where=node.name)
    return machine


def machine_of(text: str) -> Machine | None:
    """Return the machine that the lines describe; None where they say too little."""
    said: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        said.setdefault(name, []).append(value.strip())
    machine_id = said.get("id", [""])[0]
    if not machine_id:
        return None
    cores, memory = said.get("cores", ["1"])[0], said.get("memory", [""])[0].partition(" ")[0]
    return Machine(
        machine_id=machine_id,
        processor=", ".join(said.get("model", ())) or said.get("processor", ["unknown"])[0],
        accelerators=tuple(said.get("accelerator", ())),
        kernel=said.get("kernel", [""])[0],
        cores=int(cores) if cores.isdigit() else 1,
        memory_bytes=int(memory) * 1024 if memory.isdigit() else 0,
    )


def _host_facts(machines: Sequence[Machine], recipe: str) -> HostFacts:
    head = machines[0]
    accelerators = tuple(name for machine in machines for name in machine.accelerators)
    return HostFacts(
        rig_id=rig_id_of(machines, recipe),
        processor=head.processor,
        cores=head.cores,
        memory_bytes=head.memory_bytes,
        accelerators=accelerators,
        kernel=head.kernel,
        python=platform.python_version(),
    )


def rig_id_of(machines: Sequence[Machine], recipe: str) -> str:
    """Return the identity of a rig: of one machine the same as host_facts gives it, in whatever order of several."""
    if len(machines) == 1:
        (machine,) = machines
        return content_id([machine.machine_id, machine.accelerators or machine.processor, recipe])
    known = sorted([machine.machine_id, *(machine.accelerators or (machine.processor,))] for machine in machines)
    return content_id([known, recipe])
