"""pair.yaml: the nodes, their fabric and their files, for a launch without a checkout. Checked before anything starts.

``load_inventory(path, nodes=2)`` is the way in; ``nodes_of(inventory)`` gives the hosts to run on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from harness.engine.pair.node import Node
from harness.engine.shell import LocalShell
from harness.engine.ssh import SshShell
from harness.errors import InputError
from harness.recipe.names import looks_secret
from harness.yaml_model import FileModel, editor_schema, validated
from harness.yaml_source import Source, raise_all, read_source

LOCAL = ("localhost", "127.0.0.1", "::1")
_HCA_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}(:[1-9][0-9]?)?"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def _ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise ValueError(f"{text} is no IPv4 address") from None


def _one_line(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("a value is one line without control characters")
    return text


@dataclass(frozen=True, slots=True)
class _Form:
    """Text that fits a pattern; what has another form is told in words."""

    pattern: str
    meaning: str

    def check(self, text: str) -> str:
        """Return the text. Raises ValueError."""
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"{text!r} is not {self.meaning}")
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$"}


Address = Annotated[str, AfterValidator(_ipv4)]
Interface = Annotated[str, _Form(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,31}", "the name of a network interface")]
SshTarget = Annotated[
    str, _Form(r"[A-Za-z0-9_\[][A-Za-z0-9_.@:\[\]%-]*", "a host, user@host or a name of ~/.ssh/config")
]
Hca = Annotated[
    str, _Form(rf"=?{_HCA_NAME}(,{_HCA_NAME})*", "RDMA devices, as in rocep1s0f1 or =rocep1s0f0,roceP2p1s0f0:1")
]
Image = Annotated[
    str,
    _Form(r"[A-Za-z0-9][A-Za-z0-9._/:-]*(@sha256:[0-9a-f]{64})?", "an image, as in name:tag@sha256:... or name:tag"),
]
Checkpoint = Annotated[
    str,
    _Form(
        r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+@[A-Za-z0-9][A-Za-z0-9._-]*", "a checkpoint, repository@revision"
    ),
]
Folder = Annotated[str, _Form(r"(/|~/)[^\x00-\x1f\x7f]+", "a whole path, or one after ~/")]
Text = Annotated[str, AfterValidator(_one_line)]
Environment = dict[str, Text | int | float]


class Interfaces(FileModel):
    """Network interfaces of a node by which the ranks find each other."""

    socket: Interface = Field(description="NCCL_SOCKET_IFNAME.")
    tp: Interface | None = Field(default=None, description="TP_SOCKET_IFNAME; else that of socket.")
    gloo: Interface | None = Field(default=None, description="GLOO_SOCKET_IFNAME; else that of socket.")


class NodeEntry(FileModel):
    """A node."""

    ssh: SshTarget = Field(
        default="localhost",
        description="Host, user@host or a name of ~/.ssh/config; localhost is the machine that the harness runs on.",
    )
    address: Address | None = Field(default=None, description="Its IPv4 address on the fabric.")
    interfaces: Interfaces | None = Field(default=None, description="Needed on two nodes.")
    hca: Hca | None = Field(
        default=None,
        description="NCCL_IB_HCA: one device or several with commas, with or without a port; after = only exact names.",
    )
    gid_index: Annotated[int, Field(ge=0, le=65535)] | Literal["auto"] = Field(
        default="auto", description="Of RoCE v2. auto: the one that holds the address, looked up before each launch."
    )
    hf_cache: Folder = Field(
        default="~/.cache/huggingface", description="The cache of checkpoints there; also of compiled kernels."
    )
    environment: Environment = Field(default={}, description="Variables of this rank's container alone.")

    @property
    def is_local(self) -> bool:
        """It is the machine that the harness runs on."""
        return self.ssh in LOCAL

    @property
    def name(self) -> str:
        """As the user calls it."""
        return "this machine" if self.is_local else self.ssh


class WorkerEntry(NodeEntry):
    """The second node."""

    hf_nfs: bool = Field(
        default=False,
        description="Mount the head's hub folder over NFS, read-only, instead of a copy; the head must export it.",
    )


class Inventory(FileModel):
    """A pair.yaml."""

    image: Image | None = Field(
        default=None,
        description="With its digest, name:tag@sha256:...; a local build without. Else that of the recipe.",
    )
    checkpoint: Checkpoint | None = Field(
        default=None,
        description="repository@revision, both in the caches already. Else that of the recipe.",
    )
    master_port: int = Field(default=25000, ge=1024, le=65535, description="Where the ranks meet on the head.")
    environment: Environment = Field(default={}, description="Variables of both containers.")
    head: NodeEntry = Field(default=NodeEntry(), description="The node with the API.")
    worker: WorkerEntry | None = Field(default=None, description="The other node; none for a recipe of one node.")

    @property
    def entries(self) -> tuple[NodeEntry, ...]:
        """By rank: the head, and the worker where there is one."""
        return (self.head,) if self.worker is None else (self.head, self.worker)


def load_inventory(path: Path, *, nodes: int) -> Inventory:
    """Return the pair.yaml at ``path``, for a recipe of one or two nodes.

    Raises:
        InputError: it cannot be read, or something in it is wrong; names file, line and column.
    """
    return inventory_from(read_source(path), nodes=nodes)


def inventory_from(source: Source, *, nodes: int) -> Inventory:
    """Return the inventory in a source. Raises InputError."""
    inventory = validated(Inventory, source)
    raise_all([*_environment_problems(source), *_node_problems(inventory, source, nodes)])
    return inventory


def nodes_of(inventory: Inventory) -> tuple[Node, ...]:
    """Return the hosts by rank. Raises InputError for one that ssh cannot be given."""
    head = _node(inventory.head, "head")
    return (head,) if inventory.worker is None else (head, _node(inventory.worker, "worker"))


def has_digest(image: str) -> bool:
    """Whether a reference names its content, and not only a tag that can be moved."""
    return _DIGEST.search(image) is not None


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of pair.yaml."""
    return editor_schema(Inventory, title="harness pair", definitions={})


def _node(entry: NodeEntry, role: Literal["head", "worker"]) -> Node:
    shell = LocalShell() if entry.is_local else SshShell(target=entry.ssh)
    return Node(role=role, name=entry.name, shell=shell, is_local=entry.is_local)


def _environment_problems(source: Source) -> Iterator[InputError]:
    for section in ((), ("head",), ("worker",)):
        tree = source.data
        for key in section:
            tree = tree.get(key) or {}
        for name in tree.get("environment") or {}:
            path = (*section, "environment", name)
            if not _VARIABLE.fullmatch(name):
                yield source.error(path, f'"{name}" cannot be the name of an environment variable', value=False)
            elif looks_secret(name):
                hint = "Export it where the harness is started: this file may be shown, and its values are recorded."
                yield source.error(path, f"{name} looks like a secret, which has no place here", hint=hint, value=False)


def _node_problems(inventory: Inventory, source: Source, nodes: int) -> Iterator[InputError]:
    worker = inventory.worker
    if nodes == 1 and worker is not None:
        yield source.error(("worker",), "this recipe runs on one node", hint="Remove the worker.", value=False)
    elif nodes == 2 and worker is None:
        yield source.error((), '"worker" is missing', hint="The recipe runs on two nodes.", value=False)
    elif worker is not None:
        yield from _fabric_problems("head", inventory.head, source)
        yield from _fabric_problems("worker", worker, source)
        if worker.address is not None and worker.address == inventory.head.address:
            yield source.error(("worker", "address"), "head and worker have the same address")
        if worker.ssh == inventory.head.ssh:
            yield source.error(("worker", "ssh"), "head and worker are the same host")


def _fabric_problems(role: str, entry: NodeEntry, source: Source) -> Iterator[InputError]:
    for key in ("address", "interfaces", "hca"):
        if getattr(entry, key) is None:
            yield source.error((role,), f'"{key}" is missing in {role}', hint=_FABRIC, value=False)


_FABRIC = "The ranks of two nodes meet over RoCE: `ibdev2netdev` and `ip -4 -br addr` there name all three."
