"""Facts of both nodes: read once for each launch, and sampled while its cells are measured.

How a driver uses it:

    facts = await read_hosts(nodes, clock)               # before the ranks are started; one command on each node
    async with sampling(nodes, clock) as samples:        # around the cells; every_s=5.0
        ...
    LaunchRecord(..., nodes=facts, samples=tuple(samples))

Neither raises: a node that does not answer makes facts whose fields are None and whose ``null_reasons`` say why, or a
sample with a ``gap``. ``samples`` is a list that grows while the context is open and may be read at any time, also
after it. Sampling costs the measuring process next to nothing: one process on each node prints readings into a file,
and a few bytes of that file are read now and then. It ends with the context; if the harness is killed it ends by
itself within ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import fields, replace

from harness.engine.pair.node import Node
from harness.engine.pair.readings import FACT_FIELDS, FACTS, facts_of
from harness.engine.pair.sampler import sampling as sampling
from harness.errors import HarnessError
from harness.records.clock import Clock
from harness.records.host import NodeFacts


async def read_hosts(nodes: Sequence[Node], clock: Clock) -> tuple[NodeFacts, ...]:
    """Return the facts of all nodes, read at the same time. Never raises on account of a node."""
    return tuple(await asyncio.gather(*(read_host_facts(node, clock) for node in nodes)))


async def read_host_facts(node: Node, clock: Clock) -> NodeFacts:
    """Return the facts of one node. Where it does not answer, every field is None and says so."""
    at = clock.stamp()
    try:
        done = await node.script(FACTS, FACT_FIELDS)
    except HarnessError as error:
        return NodeFacts(node=node.role, at=at, null_reasons=dict.fromkeys(_NULLABLE, error.what))
    facts = facts_of(done.stdout, node=node.role, at=at)
    try:
        containers = await node.containers()
    except HarnessError as error:
        return replace(facts, null_reasons={**facts.null_reasons, "images": error.what})
    return replace(facts, images={each.image: each.image_id for each in containers if each.is_up})


_NULLABLE = tuple(each.name for each in fields(NodeFacts) if each.name not in ("node", "at", "null_reasons"))
