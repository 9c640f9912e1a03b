"""Which GID index of RoCE v2 a rank must use: it differs between nodes and moves after a reboot or a link change.

NCCL takes one index for a whole rank, so with several devices it is one that all of them have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from harness.engine.pair.node import Node
from harness.errors import EngineError

SYSFS = "/sys/class/infiniband"
_ROCE_V2 = "RoCE v2"
# An entry that is not used cannot be read. $1: the folder of the devices. One line for each port and GID, with tabs.
_READ = r"""
for port in "$1"/*/ports/*; do
  [ -d "$port" ] || continue
  device=${port%/ports/*}; device=${device##*/}; number=${port##*/}
  state=; link=
  { read -r state < "$port/state"; } 2>/dev/null
  { read -r link < "$port/link_layer"; } 2>/dev/null
  printf 'port\t%s\t%s\t%s\t%s\n' "$device" "$number" "$state" "$link"
  for entry in "$port"/gids/*; do
    index=${entry##*/}; kind=; gid=
    { read -r kind < "$port/gid_attrs/types/$index"; } 2>/dev/null || [ -n "$kind" ] || continue
    { read -r gid < "$entry"; } 2>/dev/null || [ -n "$gid" ] || continue
    printf 'gid\t%s\t%s\t%s\n' "$index" "$kind" "$gid"
  done
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """An entry of a port's GID table."""

    index: int
    kind: str  # "RoCE v2", "IB/RoCE v1"
    address: IPv6Address

    @property
    def ipv4(self) -> IPv4Address | None:
        """The IPv4 address that a RoCE v2 GID stands for."""
        return self.address.ipv4_mapped if self.kind == _ROCE_V2 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HcaPort:
    """A port of a device, with what its GID table holds."""

    device: str
    port: int
    is_active: bool
    is_usable: bool  # its link layer is one that NCCL opens
    gids: tuple[Gid, ...] = ()

    @property
    def name(self) -> str:
        """As NCCL_IB_HCA spells it."""
        return f"{self.device}:{self.port}"


async def resolve_gid(node: Node, *, selector: str, address: str, sysfs: str = SYSFS) -> int:
    """Return the GID index for a node's rank.

    Args:
        node: the host to look on.
        selector: NCCL_IB_HCA: devices with commas, with or without a port; after ``=`` only exact names.
        address: its IPv4 address on the fabric.
        sysfs: where the devices lie there.

    Raises:
        EngineError: no index fits; says which devices and addresses there are.
        HostUnreachableError: the host did not answer.
    """
    done = await node.script(_READ, sysfs)
    return choose_gid(parse_ports(done.stdout), selector=selector, address=address, where=node.name)


def parse_ports(text: str) -> tuple[HcaPort, ...]:
    """Return the ports that the script above has printed; what is not in its form is left out."""
    ports: list[HcaPort] = []
    gids: list[list[Gid]] = []
    for line in text.splitlines():
        fields = line.split("\t")
        if fields[0] == "port" and len(fields) == 5 and fields[2].isdecimal():
            _, device, number, state, link = fields
            ports.append(
                HcaPort(
                    device=device,
                    port=int(number),
                    is_active=state.rpartition(":")[2].strip() in ("", "ACTIVE"),
                    is_usable=link in ("", "Ethernet", "InfiniBand"),
                )
            )
            gids.append([])
        elif fields[0] == "gid" and gids and (gid := _gid(fields)) is not None:
            gids[-1].append(gid)
    return tuple(_with_gids(port, found) for port, found in zip(ports, gids, strict=True))


def choose_gid(ports: Sequence[HcaPort], *, selector: str, address: str, where: str | None = None) -> int:
    """Return the lowest RoCE v2 index that all selected ports have, and that holds the address on one of them.

    Raises:
        EngineError: there is none; ``where`` is the node.
    """
    selected = [port for port in ports if port.is_active and port.is_usable and _is_selected(port, selector)]
    if not selected:
        raise _error(f"no active RDMA port fits hca {selector!r}", where, _known(ports))
    wanted = IPv4Address(address)
    usable = {port.name: {gid.index for gid in port.gids if gid.ipv4 is not None} for port in selected}
    empty = [name for name, indexes in usable.items() if not indexes]
    if empty:
        what = f"no GID of RoCE v2 with an IPv4 address on {', '.join(empty)}"
        raise _error(what, where, "Give its interface an IPv4 address, or leave the device out of hca.")
    held = {gid.index for port in selected for gid in port.gids if gid.ipv4 == wanted}
    if not held:
        raise _error(f"no GID of RoCE v2 holds {address} on {', '.join(usable)}", where, _addresses(selected))
    shared = set.intersection(*usable.values())
    if not shared & held:
        found = "; ".join(f"{name} has {_listed(indexes)}" for name, indexes in usable.items())
        what = f"the devices of hca {selector!r} share no GID index that holds {address}: {found}"
        raise _error(what, where, "NCCL takes one index for all of them: name fewer devices in hca.")
    return min(shared & held)


def _gid(fields: Sequence[str]) -> Gid | None:
    if len(fields) != 4 or not fields[1].isdecimal():
        return None
    try:
        address = IPv6Address(fields[3])
    except AddressValueError:
        return None
    return None if int(address) == 0 else Gid(index=int(fields[1]), kind=fields[2], address=address)


def _with_gids(port: HcaPort, gids: Iterable[Gid]) -> HcaPort:
    return HcaPort(
        device=port.device, port=port.port, is_active=port.is_active, is_usable=port.is_usable, gids=tuple(gids)
    )


def _is_selected(port: HcaPort, selector: str) -> bool:
    exact = selector.startswith("=")
    for token in selector.removeprefix("=").split(","):
        name, _, number = token.partition(":")
        named = port.device == name if exact else port.device.startswith(name)
        if name and named and number in ("", str(port.port)):
            return True
    return False


def _known(ports: Sequence[HcaPort]) -> str:
    if not ports:
        return f"There is none in {SYSFS}: is the RDMA driver loaded? A pinned gid_index is not looked up."
    states = (f"{port.name} ({'active' if port.is_active else 'not active'})" for port in ports)
    return f"There is: {', '.join(states)}."


def _addresses(ports: Sequence[HcaPort]) -> str:
    found = [f"{gid.ipv4} on {port.name}" for port in ports for gid in port.gids if gid.ipv4 is not None]
    return f"There is: {', '.join(found)}. Correct `address` in pair.yaml, or the interface."


def _listed(indexes: Iterable[int]) -> str:
    return ", ".join(str(index) for index in sorted(indexes))


def _error(what: str, where: str | None, hint: str) -> EngineError:
    return EngineError(what, where=where, hint=hint)
