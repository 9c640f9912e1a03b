"""pair.yaml: what it means, and what is wrong in one, with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from harness.engine.pair.inventory import Inventory, has_digest, inventory_from, load_inventory, nodes_of
from harness.engine.shell import LocalShell
from harness.engine.ssh import SshShell
from harness.errors import HarnessError, InputError
from harness.recipe.find import packaged
from harness.yaml_source import parse_source

HEAD = "head: {address: 10.0.0.1, interfaces: {socket: eth0}, hca: mlx5_0}\n"
WORKER = "worker: {ssh: b, address: 10.0.0.2, interfaces: {socket: eth0}, hca: mlx5_0}\n"


def read(text: str, *, nodes: int = 2) -> Inventory:
    return inventory_from(parse_source(text, name="pair.yaml"), nodes=nodes)


def wrong(text: str, *, nodes: int = 2) -> str:
    with pytest.raises(InputError) as caught:
        read(text, nodes=nodes)
    return str(caught.value)


def test_the_examples_are_read() -> None:
    two = load_inventory(packaged("recipes") / "dspark-2x-spark" / "pair.example.yaml", nodes=2)
    one = load_inventory(packaged("recipes") / "dspark-1x-spark" / "pair.example.yaml", nodes=1)
    assert [entry.ssh for entry in two.entries] == ["localhost", "spark-2"]
    assert two.image is not None
    assert has_digest(two.image)
    assert (len(one.entries), one.head.gid_index) == (1, "auto")


def test_the_hosts_by_rank() -> None:
    head, worker = nodes_of(read(HEAD + WORKER))
    assert (head.role, head.name, head.is_local) == ("head", "this machine", True)
    assert isinstance(head.shell, LocalShell)
    assert (worker.role, worker.name, worker.is_local) == ("worker", "b", False)
    assert worker.shell == SshShell(target="b")


def test_an_unknown_key_is_told_with_its_place() -> None:
    assert wrong(HEAD + WORKER.replace("hca", "hcas")) == snapshot("""\
pair.yaml:2:65: unknown key "hcas" in worker
  Did you mean "hca"? Known here: address, environment, gid_index, hca, hf_cache, hf_nfs, interfaces, ssh.\
""")


def test_what_two_nodes_need() -> None:
    assert wrong("master_port: 25000\n") == snapshot("""\
pair.yaml:1:1: "worker" is missing
  The recipe runs on two nodes.\
""")
    assert wrong("head: {}\n" + WORKER) == snapshot("""\
pair.yaml:1:1: "address" is missing in head
  The ranks of two nodes meet over RoCE: `ibdev2netdev` and `ip -4 -br addr` there name all three.
  Also: pair.yaml:1:1: "interfaces" is missing in head
    The ranks of two nodes meet over RoCE: `ibdev2netdev` and `ip -4 -br addr` there name all three.
  Also: pair.yaml:1:1: "hca" is missing in head
    The ranks of two nodes meet over RoCE: `ibdev2netdev` and `ip -4 -br addr` there name all three.\
""")


def test_two_entries_of_one_host() -> None:
    assert "pair.yaml:2:27: head and worker have the same address" in wrong(
        HEAD + WORKER.replace("10.0.0.2", "10.0.0.1")
    )
    assert "head and worker are the same host" in wrong(HEAD + WORKER.replace("ssh: b", "ssh: localhost"))


def test_one_node_has_no_worker() -> None:
    assert wrong(HEAD + WORKER, nodes=1).startswith("pair.yaml:2:1: this recipe runs on one node")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("10.0.0.1", "10.0.0.256", "pair.yaml:1:17: head.address: 10.0.0.256 is no IPv4 address"),
        ("10.0.0.1", "spark-1", "pair.yaml:1:17: head.address: spark-1 is no IPv4 address"),
        ("ssh: b", "ssh: -oProxyCommand=x", "pair.yaml:2:15: worker.ssh"),
        ("ssh: b", "ssh: 'b; reboot'", "pair.yaml:2:15: worker.ssh"),
        ("eth0}, hca: mlx5_0}\nworker", "'e$(id)'}, hca: mlx5_0}\nworker", "pair.yaml:1:48: head.interfaces.socket"),
        ("hca: mlx5_0}\nworker", "hca: ^mlx5_0}\nworker", "pair.yaml:1:60: head.hca"),
        ("hca: mlx5_0}\nworker", "hca: 'a,,b'}\nworker", "pair.yaml:1:60: head.hca"),
        ("hca: mlx5_0}\nworker", "hca: a, gid_index: none}\nworker", "pair.yaml:1:74: head.gid_index"),
        ("hca: mlx5_0}\nworker", "hca: a, hf_cache: cache}\nworker", "pair.yaml:1:73: head.hf_cache"),
        ("head:", "image: 'a b'\nhead:", "pair.yaml:1:8: image"),
        ("head:", "image: --all\nhead:", "pair.yaml:1:8: image"),
        ("head:", "image: a@sha256:12\nhead:", "pair.yaml:1:8: image"),
        ("head:", "checkpoint: org/name\nhead:", "pair.yaml:1:13: checkpoint"),
        ("head:", "checkpoint: org/name@../../x\nhead:", "pair.yaml:1:13: checkpoint"),
        ("head:", "master_port: 80\nhead:", "pair.yaml:1:14: master_port"),
        ("head:", "environment: {A: true}\nhead:", "pair.yaml:1:18: environment.A"),
        ("head:", "environment: {'A B': 1}\nhead:", 'pair.yaml:1:15: "A B" cannot be the name'),
        ("head:", "environment: {HF_TOKEN: x}\nhead:", "pair.yaml:1:15: HF_TOKEN looks like a secret"),
        ("head:", 'environment: {A: "x\\ny"}\nhead:', "pair.yaml:1:18: environment.A: a value is one line"),
    ],
)
def test_a_wrong_value_is_told_with_its_place(old: str, new: str, place: str) -> None:
    text = HEAD + WORKER
    assert old in text
    assert wrong(text.replace(old, new, 1)).startswith(place)


def test_numbers_of_the_environment_are_texts_for_the_engine() -> None:
    inventory = read("environment: {A: 1, B: 0.5, C: 'off', D: off}\n" + HEAD + WORKER)
    assert {name: str(value) for name, value in inventory.environment.items()} == {
        "A": "1",
        "B": "0.5",
        "C": "off",
        "D": "off",
    }


@given(text=st.text(max_size=80))
def test_nothing_but_an_input_error(text: str) -> None:
    try:
        read(text)
    except HarnessError as error:
        assert isinstance(error, InputError)
