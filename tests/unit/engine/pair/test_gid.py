"""Which GID index a rank gets, from what stands in sysfs."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from harness.engine.pair.gid import Gid, HcaPort, choose_gid, parse_ports, resolve_gid
from harness.engine.pair.node import Node
from harness.engine.shell import LocalShell
from harness.errors import EngineError

pytestmark = pytest.mark.anyio
NODE = Node(role="head", name="this machine", shell=LocalShell(), is_local=True)
V1, V2 = "IB/RoCE v1", "RoCE v2"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def mapped(address: str) -> str:
    return IPv6Address(f"::ffff:{address}").exploded


def gid(index: int, address: str, kind: str = V2) -> Gid:
    text = f"::ffff:{address}" if "." in address else address
    return Gid(index=index, kind=kind, address=IPv6Address(text))


def port(device: str, *gids: Gid, number: int = 1, active: bool = True) -> HcaPort:
    return HcaPort(device=device, port=number, is_active=active, is_usable=True, gids=gids)


def sysfs(root: Path, device: str, entries: dict[int, tuple[str, str]], *, state: str = "4: ACTIVE") -> None:
    """A device as the kernel shows it; what is not in use cannot be read there, and is missing here."""
    folder = root / device / "ports" / "1"
    (folder / "gids").mkdir(parents=True)
    (folder / "gid_attrs" / "types").mkdir(parents=True)
    (folder / "state").write_text(f"{state}\n")
    (folder / "link_layer").write_text("Ethernet\n")
    for index in range(8):
        (folder / "gids" / str(index)).write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    for index, (kind, address) in entries.items():
        (folder / "gids" / str(index)).write_text(f"{address}\n")
        (folder / "gid_attrs" / "types" / str(index)).write_text(f"{kind}\n")


async def test_the_index_is_read_from_the_node(tmp_path: Path) -> None:
    sysfs(
        tmp_path,
        "rocep1s0f1",
        {
            0: (V1, "fe80:0000:0000:0000:0a00:27ff:fe00:0001"),
            1: (V2, "fe80:0000:0000:0000:0a00:27ff:fe00:0001"),
            2: (V1, mapped("10.0.22.1")),
            3: (V2, mapped("10.0.22.1")),
        },
    )
    sysfs(tmp_path, "rocep1s0f0", {}, state="1: DOWN")
    assert await resolve_gid(NODE, selector="rocep1s0f1", address="10.0.22.1", sysfs=str(tmp_path)) == 3
    with pytest.raises(EngineError) as caught:
        await resolve_gid(NODE, selector="rocep1s0f0", address="10.0.22.1", sysfs=str(tmp_path))
    assert str(caught.value) == snapshot("""\
this machine: no active RDMA port fits hca 'rocep1s0f0'
  There is: rocep1s0f0:1 (not active), rocep1s0f1:1 (active).\
""")


async def test_a_node_without_devices(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no active RDMA port fits"):
        await resolve_gid(NODE, selector="a", address="10.0.0.1", sysfs=str(tmp_path / "none"))


def test_several_devices_share_an_index() -> None:
    one = port("roce0", gid(3, "10.0.1.1"), gid(5, "10.0.1.1"))
    two = port("roce1", gid(4, "10.0.2.1"), gid(5, "10.0.2.1"))
    assert choose_gid([one, two], selector="roce0,roce1", address="10.0.1.1") == 5
    assert choose_gid([one, two], selector="roce", address="10.0.2.1") == 5
    assert choose_gid([one, two], selector="=roce0", address="10.0.1.1") == 3
    with pytest.raises(EngineError) as caught:
        choose_gid([port("a", gid(3, "10.0.1.1")), port("b", gid(4, "10.0.2.1"))], selector="a,b", address="10.0.1.1")
    assert str(caught.value) == snapshot("""\
the devices of hca 'a,b' share no GID index that holds 10.0.1.1: a:1 has 3; b:1 has 4
  NCCL takes one index for all of them: name fewer devices in hca.\
""")


def test_names_after_an_equals_sign_are_whole() -> None:
    ports = [port("roce1", gid(3, "10.0.0.1")), port("roce10", gid(4, "10.0.0.9"))]
    assert choose_gid(ports, selector="=roce1", address="10.0.0.1") == 3
    with pytest.raises(EngineError, match="share no GID index"):
        choose_gid(ports, selector="roce1", address="10.0.0.1")


def test_a_port_can_be_named() -> None:
    ports = [port("a", gid(3, "10.0.0.1"), number=1), port("a", gid(4, "10.0.0.2"), number=2)]
    assert choose_gid(ports, selector="a:2", address="10.0.0.2") == 4


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (gid(1, "10.0.0.1", V1), "no GID of RoCE v2 with an IPv4 address on a:1"),
        (gid(1, "fe80::1"), "no GID of RoCE v2 with an IPv4 address on a:1"),
        (gid(1, "10.0.0.2"), "no GID of RoCE v2 holds 10.0.0.1 on a:1"),
    ],
)
def test_no_guess_where_nothing_fits(entry: Gid, what: str) -> None:
    with pytest.raises(EngineError) as caught:
        choose_gid([port("a", entry)], selector="a", address="10.0.0.1", where="spark-2")
    assert caught.value.what == what
    assert caught.value.where == "spark-2"
    assert caught.value.hint


ADDRESSES = st.ip_addresses(v=4).map(str)
ENTRIES = st.dictionaries(st.integers(0, 255), st.tuples(st.sampled_from([V1, V2]), ADDRESSES), max_size=6)


@given(entries=ENTRIES, wanted=ADDRESSES)
def test_the_index_always_is_one_that_holds_the_address(entries: dict[int, tuple[str, str]], wanted: str) -> None:
    text = "port\tdev\t1\t4: ACTIVE\tEthernet\n"
    text += "".join(f"gid\t{index}\t{kind}\t{mapped(address)}\n" for index, (kind, address) in entries.items())
    (found,) = parse_ports(text)
    fitting = {index for index, (kind, address) in entries.items() if kind == V2 and address == wanted}
    assert {each.index for each in found.gids if each.ipv4 == IPv4Address(wanted)} == fitting
    if fitting:
        assert choose_gid([found], selector="dev", address=wanted) == min(fitting)
    else:
        with pytest.raises(EngineError):
            choose_gid([found], selector="dev", address=wanted)


@given(text=st.text())
def test_any_text_is_ports_or_none(text: str) -> None:
    parse_ports(text)


@given(
    lines=st.lists(st.lists(st.sampled_from(["port", "gid", "", "1", "x", "4: ACTIVE", V2, "::1", "²"]), max_size=6))
)
def test_lines_of_another_form_are_left_out(lines: list[list[str]]) -> None:
    for found in parse_ports("\n".join("\t".join(fields) for fields in lines)):
        assert found.port >= 0
