"""The link between the nodes: up, fast, of one MTU, with the RoCE v2 index that a rank will use; and their clocks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.engine.doctor.place import PairPlace
from harness.engine.pair.gid import resolve_gid
from harness.engine.pair.node import Node
from harness.errors import EngineError
from harness.records.finding import Finding, fail, ok, warn

_LEAST_MBIT_S = 100_000  # a DGX Spark's port; half of it is one of its two controllers
_MOST_OFFSET_S = 0.5
_LINK = (
    'for name in operstate mtu speed; do printf "%s=" "$name"; cat "/sys/class/net/$1/$name" 2>/dev/null || echo; done'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An interface as its node has it. None: it does not say."""

    state: str | None
    mtu: int | None
    mbit_s: int | None


async def fabric_findings(place: PairPlace) -> list[Finding]:
    """Look at the interfaces that the files name on both nodes. One node has no fabric."""
    if len(place.nodes) < 2:
        return []
    found: list[Finding] = []
    links: dict[str, Link] = {}
    for node in place.nodes:
        interface = place.names[node.role].interface
        if interface is None:
            remedy = "Set NCCL_SOCKET_IFNAME, or interfaces in pair.yaml."
            found.append(fail("link", "no interface is named", node=node.role, remedy=remedy))
            continue
        links[node.role] = parse_link((await node.script(_LINK, interface)).stdout)
        found += _link(node, interface, links[node.role])
        found += await _gid(place, node)
    return [*found, *_mtus(links), *await clock_findings(place.nodes)]


def parse_link(text: str) -> Link:
    """Return what the lines NAME=VALUE of an interface say."""
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return Link(
        state=values.get("operstate") or None, mtu=_whole(values.get("mtu")), mbit_s=_whole(values.get("speed"))
    )


async def clock_findings(nodes: Sequence[Node]) -> list[Finding]:
    """Compare the nodes' clocks: their logs and samples are laid beside each other."""
    offsets = []
    for node in nodes:
        before_s = time.monotonic()
        seconds = float((await node.run("date", "+%s.%N")).strip())
        offsets.append(seconds - (before_s + time.monotonic()) / 2)
    apart_s = max(offsets) - min(offsets)
    if apart_s > _MOST_OFFSET_S:
        remedy = "Let both follow a time server: timedatectl set-ntp true."
        return [warn("clock", f"the clocks are {apart_s:.1f} s apart", remedy=remedy)]
    return [ok("clock", f"the clocks agree within {_MOST_OFFSET_S} s")]


def _link(node: Node, interface: str, link: Link) -> list[Finding]:
    if link.state is None:
        remedy = "Correct the name: `ip -br link` lists the interfaces, ibdev2netdev which device is behind which."
        return [fail("link", f"there is no interface {interface}", node=node.role, remedy=remedy)]
    if link.state != "up":
        remedy = f"Check the cable, then: sudo ip link set {interface} up."
        return [fail("link", f"{interface} is {link.state}", node=node.role, remedy=remedy)]
    shown = f"{interface}, MTU {link.mtu}" + (f", {link.mbit_s} Mbit/s" if link.mbit_s else "")
    if link.mbit_s is not None and 0 < link.mbit_s < _LEAST_MBIT_S:
        remedy = "Check cable and port: a slower link slows every step."
        return [
            warn("link", f"{interface} runs at {link.mbit_s} Mbit/s", node=node.role, evidence=shown, remedy=remedy)
        ]
    return [ok("link", "the fabric link is up", node=node.role, evidence=shown)]


async def _gid(place: PairPlace, node: Node) -> list[Finding]:
    names = place.names[node.role]
    if names.gid_index is not None:
        remedy = "Leave it to be looked up: it moves after a reboot or a link change."
        return [warn("gid", f"the GID index is pinned to {names.gid_index}", node=node.role, remedy=remedy)]
    if names.hca is None or names.address is None:
        return []
    try:
        index = await resolve_gid(node, selector=names.hca, address=names.address)
    except EngineError as error:
        return [fail("gid", error.what, node=node.role, remedy=error.hint or "Check hca and address.")]
    return [ok("gid", f"RoCE v2 GID index {index}", node=node.role, evidence=f"{names.hca}, {names.address}")]


def _mtus(links: dict[str, Link]) -> list[Finding]:
    mtus = {role: link.mtu for role, link in links.items() if link.mtu is not None}
    if len(set(mtus.values())) < 2:
        return []
    shown = ", ".join(f"{role} {mtu}" for role, mtu in mtus.items())
    remedy = "Give both ends one MTU; 9000 only if every hop in between has it."
    return [fail("mtu", "the nodes have unlike MTUs", evidence=shown, remedy=remedy)]


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.lstrip("-").isdigit() else None
