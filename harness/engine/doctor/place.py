"""What an examination of a pair knows before it looks: the nodes, and what the operator's files say of them."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.engine.doctor.scripts import script_findings
from harness.engine.pair.containers import Container
from harness.engine.pair.envfile import normalised, parse_env, problems_of
from harness.engine.pair.inventory import Inventory, NodeEntry, nodes_of
from harness.engine.pair.node import Node, Role
from harness.engine.pair.rig import node_of
from harness.errors import HarnessError
from harness.recipe.pair import Pair, PairVariables
from harness.records.finding import Finding, fail, warn
from harness.sweep.site import Host, Site

_REVISION = "9e165c30e2704aec5d9d593cce3eebd58bbef1cb"  # what the scripts take where the file does not name one
_OFFICIAL = "deepseek-ai/DeepSeek-V4-Flash-0731"
_CACHE = "~/.cache/huggingface"
_MEMORY_RATIO = 0.835


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNames:
    """What the operator's files call things on one node."""

    interface: str | None = None
    hca: str | None = None  # NCCL's selector of RDMA devices
    address: str | None = None  # on the fabric
    gid_index: str | None = None  # None: looked up at each start
    cache: str = _CACHE  # of checkpoints; may begin with ~ or ${HOME}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPlace:
    """A pair, or a single node, as its files describe it."""

    nodes: tuple[Node, ...]  # head first; those that answered once that is known
    names: Mapping[Role, NodeNames]
    image: str | None
    repository: str | None  # of the checkpoint
    revision: str | None  # None: whatever is newest there
    offline: bool  # a missing checkpoint is not downloaded
    worker_nfs: bool  # the worker reads the head's cache
    memory_ratio: float  # that the engine takes of a node's memory
    service: str
    project: str  # of the operator's own server
    port: int  # likewise
    trial_port: int
    may_borrow: bool
    checkout: str | None
    mentions: tuple[str, ...] = ()  # what a unit that starts the server would name
    api_key: str | None = field(default=None, repr=False)
    containers: Mapping[Role, tuple[Container, ...]] = field(default_factory=dict, repr=False)

    @property
    def head(self) -> Node | None:
        """The node with the API; None where it did not answer."""
        return next((node for node in self.nodes if node.role == "head"), None)

    def of_project(self, role: Role, project: str) -> tuple[Container, ...]:
        """Return the containers of a compose project that are up on a node."""
        return tuple(each for each in self.containers.get(role, ()) if each.project == project and each.is_up)

    @property
    def serving(self) -> bool:
        """The operator's server runs on some node."""
        return any(self.of_project(role, self.project) for role in self.containers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asks for beside the files."""

    image: str | None = None
    checkpoint: str | None = None  # repository@revision
    recipe: str = ""  # its name, for remedies


async def checkout_place(
    site: Site, pair: Pair, checkout: str, wanted: Wanted
) -> tuple[PairPlace | None, list[Finding]]:
    """Return the pair that the env file of a checkout describes; None where it cannot be read, and what was found."""
    head = node_of("head", site.hosts.get("head"))
    own = pair.checkout
    if own is None:
        return None, [fail("checkout", "this recipe has no checkout", remedy="Name a pair.yaml in the site file.")]
    folder = await _under_home(head, checkout)
    path = posixpath.join(folder, own.env_file)
    try:
        content = await head.read_file(path)
    except HarnessError as error:
        return None, [_unread(error, path)]
    if content is None:
        remedy = (
            f"Copy {own.env_example or 'the example'} there to {own.env_file} and fill it in; or correct --checkout."
        )
        return None, [fail("env_file", "the checkout has no env file", node="head", evidence=path, remedy=remedy)]
    text = normalised(content.decode(errors="replace"))
    found = [
        fail(
            "env_file",
            f"line {problem.line} is more than an assignment: {problem.what}",
            node="head",
            evidence=path,
            remedy="Quote the value, or correct the line: the scripts run this file.",
        )
        for problem in problems_of(text)
    ]
    environment = parse_env(text)
    found += _file_findings(environment, pair.variables, path)
    found += await script_findings(head, own, folder, environment, recipe=wanted.recipe)
    host = site.hosts.get("worker") or _host(environment.get(pair.variables.worker or "", ""))
    if pair.nodes == 2 and host is None:
        remedy = f"Set {pair.variables.worker} in the env file, or name the worker in the site file."
        found.append(fail("env_file", "the worker is not named", node="head", evidence=path, remedy=remedy))
    try:
        nodes = (head,) if pair.nodes == 1 or host is None else (head, node_of("worker", host))
    except HarnessError as error:
        return None, [*found, fail("env_file", error.what, evidence=path, remedy=error.hint or "Correct that name.")]
    return _of_environment(environment, site, pair, folder, wanted, nodes), found


def inventory_place(site: Site, pair: Pair, inventory: Inventory, wanted: Wanted) -> PairPlace:
    """Return the pair that a pair.yaml describes. Raises InputError for a host that ssh cannot be given."""
    bundled = pair.bundled
    checkpoint = wanted.checkpoint or inventory.checkpoint or (bundled.checkpoint if bundled else "")
    repository, _, revision = checkpoint.partition("@")
    nodes = nodes_of(inventory)
    entries: dict[Role, NodeEntry] = {node.role: entry for node, entry in zip(nodes, inventory.entries, strict=True)}
    return PairPlace(
        nodes=nodes,
        names={role: _entry_names(entry) for role, entry in entries.items()},
        image=wanted.image or inventory.image or (bundled.image if bundled else None),
        repository=repository or None,
        revision=revision or None,
        offline=True,
        worker_nfs=bool(inventory.worker and inventory.worker.hf_nfs),
        memory_ratio=_ratio(inventory.environment.get("GPU_MEMORY_UTILIZATION_TEXT")),
        service=pair.service,
        project=site.project,
        port=pair.port,
        trial_port=site.trial_port,
        may_borrow=site.borrow.allowed,
        checkout=None,
    )


def _of_environment(
    environment: Mapping[str, str], site: Site, pair: Pair, folder: str, wanted: Wanted, nodes: tuple[Node, ...]
) -> PairPlace:
    names = pair.variables
    repository, revision = _checkpoint(environment, wanted)
    keys = (environment.get(name, "").split() for name in names.keys)
    scripts = pair.checkout.scripts if pair.checkout else None
    return PairPlace(
        nodes=nodes,
        names={node.role: _environment_names(environment, names, node.role) for node in nodes},
        image=wanted.image or environment.get(names.image),
        repository=repository,
        revision=revision,
        offline=environment.get("HF_HUB_OFFLINE") == "1",
        worker_nfs=environment.get(names.worker_nfs or "", "") == "1",
        memory_ratio=_ratio(environment.get("GPU_MEMORY_UTILIZATION_TEXT")),
        service=pair.service,
        project=site.project,
        port=_port(environment.get(names.port), pair.port),
        trial_port=site.trial_port,
        may_borrow=site.borrow.allowed,
        checkout=folder,
        mentions=(folder, *((scripts.start,) if scripts else ())),
        api_key=next((words[0] for words in keys if words), None),
    )


def _environment_names(environment: Mapping[str, str], names: PairVariables, role: Role) -> NodeNames:
    """What is not set for the worker is as on the head, as the scripts have it."""

    def of(name: str) -> str | None:
        own = environment.get(f"WORKER_{name}") if role == "worker" else None
        return own or environment.get(name) or None

    address = environment.get("WORKER_VLLM_HOST_IP") if role == "worker" else environment.get("VLLM_HOST_IP")
    if role == "head":
        address = address or environment.get("MASTER_ADDR")
    cache = environment.get(names.cache or "", "") or _CACHE
    if role == "worker":
        cache = environment.get(names.worker_cache or "", "") or cache
    pinned = environment.get("NCCL_IB_GID_AUTO") == "0"
    return NodeNames(
        interface=of("NCCL_SOCKET_IFNAME"),
        hca=of("NCCL_IB_HCA"),
        address=address or None,
        gid_index=of("NCCL_IB_GID_INDEX") if pinned else None,
        cache=cache,
    )


def _entry_names(entry: NodeEntry) -> NodeNames:
    return NodeNames(
        interface=entry.interfaces.socket if entry.interfaces else None,
        hca=entry.hca,
        address=entry.address,
        gid_index=None if entry.gid_index == "auto" else str(entry.gid_index),
        cache=entry.hf_cache,
    )


def _checkpoint(environment: Mapping[str, str], wanted: Wanted) -> tuple[str | None, str | None]:
    """As the scripts work it out; a September file may name the model itself."""
    if wanted.checkpoint:
        repository, _, revision = wanted.checkpoint.partition("@")
        return repository, revision or None
    if environment.get("ABLITERATED") == "1":
        return environment.get("DSPARK_MODEL_ABLITERATED"), environment.get("DSPARK_REVISION_ABLITERATED") or None
    named = environment.get("DSPARK_MODEL") or environment.get("DSPARK_MODEL_OFFICIAL")
    default = _REVISION if named in (None, _OFFICIAL) else ""
    return named or _OFFICIAL, environment.get("DSPARK_REVISION", default) or None


def _file_findings(environment: Mapping[str, str], names: PairVariables, path: str) -> list[Finding]:
    found = []
    set_keys = [name for name in names.keys if environment.get(name, "").strip()]
    if len(set_keys) > 1:
        remedy = "Keep one of them."
        found.append(
            fail("env_file", f"{' and '.join(set_keys)} are both set", node="head", evidence=path, remedy=remedy)
        )
    if not environment.get(names.image):
        what = f"{names.image} is not set"
        found.append(warn("env_file", what, node="head", evidence=path, remedy="Name the image with its digest."))
    return found


def _host(target: str) -> Host | None:
    user, at, address = target.rpartition("@")
    return Host(address=address, user=user if at else None) if address else None


async def _under_home(head: Node, path: str) -> str:
    if path.startswith(("~/", "$HOME/", "${HOME}/")):
        try:
            home = (await head.run("sh", "-c", 'printf %s "$HOME"')).strip()
        except HarnessError:
            return path  # reading the file will say why
        return posixpath.join(home, path.partition("/")[2])
    return posixpath.normpath(path)


def _unread(error: HarnessError, path: str) -> Finding:
    return fail("env_file", error.what, node="head", evidence=path, remedy=error.hint or "See that it can be read.")


def _port(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isdecimal() and 0 < int(text) < 65536 else otherwise


def _ratio(text: object) -> float:
    try:
        ratio = float(str(text))
    except ValueError:
        return _MEMORY_RATIO
    return ratio if 0 < ratio <= 1 else _MEMORY_RATIO
