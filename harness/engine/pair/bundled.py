"""The launch without a checkout: configuration and pair.yaml -> one compose document per rank. Pure.

For a driver, with ``nodes`` the hosts by rank (inventory.nodes_of, or its own):

    inventory = load_inventory(path, nodes=spec.pair.data.nodes)             # inventory.py
    launch = BundledLaunch(spec=spec, inventory=inventory, project="harness-trial", host="127.0.0.1", port=18888)
    ranks = await prepare(launch, nodes)     # ranks.py: compares both nodes, finds GID indexes, renders
    await start(nodes, ranks)                # worker first, then head; returns when both containers exist
    ...                                      # wait, prove, measure: the driver's
    await stop(nodes, project)               # whatever happened before; idempotent, verified

``ranks[n].argv`` and ``ranks[n].environment`` are what rank n runs with, without keys, for the record of the launch.
A key goes in as ``key``; it reaches the head through a file of mode 0600 on stdin, never text, command line or record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from harness.engine.pair.documents import compose_text, filled, names_of
from harness.engine.pair.inventory import Inventory, NodeEntry, WorkerEntry
from harness.engine.pair.node import Role
from harness.errors import InputError
from harness.recipe.pair import Bundled
from harness.recipe.spec import LaunchSpec, PairSpec
from harness.yaml_source import read_source

COMPOSE_FILE = "compose.yaml"
KEY_FILE = "key.env"
QUIET_COMPOSE = {"COMPOSE_DISABLE_ENV_FILE": "1"}  # for every command below: no .env of that folder is read
_PROJECT = re.compile(r"[a-z0-9][a-z0-9_-]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9._~+/=:@-]+")
_QUOTED_KEY = re.compile(r"[ -&(-\[\]-~]+")  # printable ASCII but ' and \


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key that requests need, in the variable by which the engine takes it."""

    variable: str
    value: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class BundledLaunch:
    """One launch on the nodes of a pair.yaml."""

    spec: LaunchSpec  # of style two_node_bundled
    inventory: Inventory
    project: str  # of compose; ours alone
    host: str  # that the API listens on
    port: int
    key: ApiKey | None = None

    @cached_property
    def pair(self) -> PairSpec:
        """The recipe's part of it. Raises InputError where the recipe has none."""
        if self.spec.pair is None:
            raise InputError(f"recipe {self.spec.recipe} starts no containers", where=self.spec.recipe)
        return self.spec.pair

    @cached_property
    def data(self) -> Bundled:
        """The recipe's description of this way. Raises InputError where it needs a checkout."""
        if self.pair.data.bundled is None:
            raise InputError(f"recipe {self.spec.recipe} needs a checkout", where=self.spec.recipe)
        return self.pair.data.bundled

    @property
    def image(self) -> str:
        """The image that is asked for: by the sweep, else by pair.yaml, else by the recipe."""
        asked = self.pair.image
        known = self.inventory.image or self.data.image
        if asked is None:
            return known
        return known if known.partition("@")[0] == asked else asked  # a tag, and pair.yaml knows its digest

    @property
    def checkpoint(self) -> str:
        """The weights that are asked for, repository@revision, likewise. Raises InputError, also without a revision."""
        asked = self.pair.checkpoint or self.inventory.checkpoint or self.data.checkpoint
        if not asked:
            hint = "Write `checkpoint` in pair.yaml, or name it in the sweep."
            raise InputError("no checkpoint is named", where=self.spec.recipe, hint=hint)
        if "@" not in asked:
            hint = "Name it as repository@revision: every node must have the same one."
            raise InputError(f"no revision in checkpoint {asked}", where=self.spec.recipe, hint=hint)
        return asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What was found on the node of a rank."""

    hf_cache: str  # absolute
    gid_index: int | None = None  # of RoCE v2; None on one node
    encoder: str | None = None  # absolute: the checkpoint's own, where it has one and the recipe wants it


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFiles:
    """What is written to the node of a rank."""

    rank: int
    role: Role
    project: str
    service: str
    document: Mapping[str, Any]
    compose: str
    key_file: str | None = field(default=None, repr=False)  # its content

    @property
    def argv(self) -> tuple[str, ...]:
        """The engine's whole command line. No key is in it."""
        service = self.document["services"][self.service]
        return (*service["entrypoint"], *service["command"])

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the container besides those of the image and the key."""
        return dict(self.document["services"][self.service]["environment"])

    @property
    def has_volumes(self) -> bool:
        """Compose makes a volume, to be removed with it."""
        return "volumes" in self.document


def render(launch: BundledLaunch, image: str, places: Sequence[Place]) -> tuple[RankFiles, ...]:
    """Return the files of every rank, the head first.

    Args:
        launch: what to launch.
        image: the reference by which both nodes have the same image.
        places: what was found on the nodes, by rank.

    Raises:
        InputError: a value is missing, is not what the template needs, or is set in pair.yaml but is a knob.
    """
    require_project(launch.project)
    template = read_source(launch.pair.folder / launch.data.compose).data
    return tuple(_rank(launch, image, template, places, rank) for rank in range(len(places)))


def up_command(project: str, folder: PurePosixPath) -> tuple[str, ...]:
    """Create and start the rank whose files lie in ``folder``; one that is left over is replaced, logs and all."""
    return (*_compose(project, folder), "up", "-d", "--force-recreate")


def check_command(project: str, folder: PurePosixPath) -> tuple[str, ...]:
    """Let docker compose read the file, before anything is started."""
    return (*_compose(project, folder), "config", "--quiet")


def down_command(project: str, folder: PurePosixPath) -> tuple[str, ...]:
    """Stop and remove the rank, and the volume of ours that it may have."""
    return (*_compose(project, folder), "down", "--volumes")


def _compose(project: str, folder: PurePosixPath) -> tuple[str, ...]:
    return ("docker", "compose", "-p", project, "-f", str(folder / COMPOSE_FILE))


def _rank(launch: BundledLaunch, image: str, template: Any, places: Sequence[Place], rank: int) -> RankFiles:
    entry, place = launch.inventory.entries[rank], places[rank]
    names = frozenset(name for name in names_of(template) if _is_variable(name))
    variables = _variables(launch, entry, names)
    texts = {**_texts(launch, place, variables), **_fabric(launch.inventory, entry, place)}
    texts |= {"image": image, "rank": str(rank), "nfs_device": f":{places[0].hf_cache}/hub"}
    conditions = {
        "speculation": launch.spec.num_speculative_tokens != 0,
        "worker": rank > 0,
        "hf_nfs": isinstance(entry, WorkerEntry) and entry.hf_nfs,
        "encoder": place.encoder is not None,
        "key_file": launch.key is not None and rank == 0,
    }
    try:
        document = filled(template, texts, conditions)
    except ValueError as problem:
        where = f"{launch.pair.folder / launch.data.compose}"
        raise InputError(f"a value is missing: {problem}", where=where, hint="Name it in the sweep.") from problem
    service = launch.pair.data.service
    document["services"][service]["environment"] |= {
        name: text for name, text in variables.items() if name not in names
    }
    return RankFiles(
        rank=rank,
        role="head" if rank == 0 else "worker",
        project=launch.project,
        service=service,
        document=document,
        compose=compose_text(document),
        key_file=_key_file(launch.key) if launch.key is not None and rank == 0 else None,
    )


def _variables(launch: BundledLaunch, entry: NodeEntry, names: frozenset[str]) -> dict[str, str]:
    """The engine's variables: the recipe's, then pair.yaml's for all and for this node, then the configuration's."""
    site = {name: str(value) for name, value in {**launch.inventory.environment, **entry.environment}.items()}
    for name in site:
        if name in names or name == launch.data.depth:
            hint = "Remove it there and name the knob in the sweep, so that the rules see it."
            raise InputError(f"{name} in `environment` of pair.yaml is a knob", where=launch.spec.recipe, hint=hint)
    variables = {**launch.pair.defaults, **site, **launch.spec.environment}
    if launch.spec.num_speculative_tokens == 0:
        variables[launch.data.depth] = "0"
    return variables


def _texts(launch: BundledLaunch, place: Place, variables: Mapping[str, str]) -> dict[str, str]:
    data = launch.data
    repository, _, revision = launch.checkpoint.partition("@")
    sequences, depth = _whole(variables, data.sequences), _whole(variables, data.depth)
    config = {
        "method": data.speculative_method,
        "num_speculative_tokens": depth,
        "draft_sample_method": variables.get(data.sample_method),
    }
    texts = {
        **{name: text for name, text in variables.items() if _is_variable(name)},
        "model": repository,
        "revision": revision,
        "served_model": repository.rpartition("/")[2].lower(),
        "host": launch.host,
        "port": str(launch.port),
        "hf_cache": place.hf_cache,
        "capture_size": str(_rounded_up(sequences * (depth + 1), data.capture_multiple)),
        "speculative_config": json.dumps(config),
    }
    if place.encoder is not None and data.encoder is not None:
        texts |= {"encoder": place.encoder, "encoder_target": data.encoder.takes_the_place_of}
    for name, lookup in data.lookups.items():
        text = lookup.texts.get(variables.get(lookup.of, ""))
        if text is not None:
            texts[name] = text
    return texts


def _fabric(inventory: Inventory, entry: NodeEntry, place: Place) -> dict[str, str]:
    """What only two nodes have; what is not known is left out."""
    interfaces = entry.interfaces
    known = {
        "address": entry.address,
        "master_address": inventory.head.address,
        "master_port": str(inventory.master_port),
        "nfs_options": f"addr={inventory.head.address},nfsvers=4,ro",
        "socket_interface": interfaces.socket if interfaces else None,
        "tp_interface": (interfaces.tp or interfaces.socket) if interfaces else None,
        "gloo_interface": (interfaces.gloo or interfaces.socket) if interfaces else None,
        "hca": entry.hca,
        "gid_index": None if place.gid_index is None else str(place.gid_index),
    }
    return {name: text for name, text in known.items() if text is not None}


def _is_variable(name: str) -> bool:
    """In a template: a variable of the engine, and no text of the launch."""
    return name == name.upper()


def _whole(variables: Mapping[str, str], name: str) -> int:
    text = variables.get(name, "")
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"{name} is no whole number: {text!r}", hint="Name its knob in the sweep.")
    return int(text)


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def require_project(project: str) -> None:
    """Raise InputError for what cannot be the name of a compose project."""
    if not _PROJECT.fullmatch(project):
        hint = "Small letters, digits, - and _; the first is a letter or a digit."
        raise InputError(f"not the name of a compose project: {project!r}", hint=hint)


def _key_file(key: ApiKey) -> str:
    """One line of an env file. Compose expands what is not in single quotes, and nothing else can be escaped there."""
    if _BARE_KEY.fullmatch(key.value):
        return f"{key.variable}={key.value}\n"
    if _QUOTED_KEY.fullmatch(key.value):
        return f"{key.variable}='{key.value}'\n"
    what = f"the key in {key.variable} cannot be passed on: it holds ' or \\, or is no line of ASCII"
    raise InputError(what, hint="Take a key of letters, digits and - _ . only.")
