"""From the site file to the hosts of a pair: who is who, where things lie, what may be overwritten there."""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from harness.engine.pair.borrow import Lender
from harness.engine.pair.checkout import operator_env
from harness.engine.pair.envfile import parse_env
from harness.engine.pair.hold import Holding, Keeping, OnNote, Restoration
from harness.engine.pair.inventory import Inventory, nodes_of
from harness.engine.pair.launcher import Pair
from harness.engine.pair.names import CheckoutNames
from harness.engine.pair.node import Node, Role
from harness.engine.pair.state import PairState, PairStates, pair_id_of
from harness.engine.shell import LocalShell
from harness.engine.ssh import SshShell
from harness.errors import InputError
from harness.records.clock import Clock
from harness.sweep.site import Host, Site

THIS_MACHINE = "this machine"
SERVICE = "vllm-dspark"  # in the compose files of both generations
_DEFAULT_PORT = 8888
_LOOPBACK = "127.0.0.1"
# What a start writes on the worker: its own files first, then those that the containers mount.
_WORKER_FILES = ("patches", "recipe/vllm", "vllm_patch_gb10", "docker-compose.vl-sidecar.yml")
_WORK_FOLDER = ".cache/harness/trials"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """A pair with what its site says of it."""

    pair: Pair
    pair_id: str
    worker_target: str
    checkout: str | None  # on the head
    environment: Mapping[str, str]  # the operator's own file, as data; empty without a checkout
    operator_port: int
    work_folder: str
    keeping: tuple[Keeping, ...]
    site: Site
    names: CheckoutNames | None  # of the checkout's files
    compose_file: str | None = None  # in the checkout: what the operator's scripts start from

    @property
    def trial_project(self) -> str:
        """The compose project of ranks under test. The operator's is never touched under this name."""
        return f"harness-{self.pair_id[:8]}"

    def lender(self, clock: Clock, on_note: OnNote) -> Lender:
        """Return what borrows the operator's server and gives it back."""
        return Lender(
            pair=self.pair,
            project=self.environment.get("PROJECT_NAME") or self.site.project,
            service=self.names.service if self.names else SERVICE,
            ours=self.trial_project,
            port=self.operator_port,
            host=_answering(self.environment),
            checkout=self.checkout,
            names=self.names,
            clock=clock,
            on_progress=on_note,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a run wants of a rig."""

    run_id: str
    recipe: str
    may_borrow: bool
    idle_for_s: float
    wait_limit_s: float | None  # for a server to be idle
    look: Callable[[], Awaitable[None]]  # raises where the configurations cannot run there


async def checkout_rig(site: Site, checkout: str, names: CheckoutNames) -> Rig:
    """Return the pair that a checkout drives.

    Raises:
        InputError: the env file does not say what is needed, or cannot be used.
        EngineError: the head does not answer.
    """
    head = node_of("head", site.hosts.get("head"))
    home = (await head.run("sh", "-c", 'printf %s "$HOME"')).strip()
    folder = _under_home(checkout, home)
    pair = Pair(head=head, worker=None)
    env_path = posixpath.join(folder, names.env_file)
    environment = parse_env(await operator_env(pair, folder, names))
    worker_host = site.hosts.get("worker")
    target = worker_host.ssh_target if worker_host else environment.get("WORKER_HOST", "")
    if not target:
        raise InputError(
            "WORKER_HOST is not set", where=env_path, hint="Fill it in, or name the worker in the site file."
        )
    worker_folder = _under_home(
        environment.get("WORKER_SCRIPT_DIR") or environment.get("WORKER_DIR") or folder, home, where=env_path
    )
    if any(character.isspace() for character in worker_folder):
        raise InputError(
            f"the worker's folder holds a space: {worker_folder!r}",
            where=env_path,
            hint="The checkout's scripts cannot copy to it: move it, or set WORKER_DIR to another one.",
        )
    return Rig(
        pair=Pair(head=head, worker=node_of("worker", worker_host or Host(address=target))),
        pair_id=pair_id_of(head.name, target),
        worker_target=target,
        checkout=folder,
        environment=environment,
        operator_port=_port(environment, env_path),
        work_folder=posixpath.join(home, _WORK_FOLDER),
        keeping=(
            Keeping(role="head", folder=folder, names=(names.env_file, names.compose_file)),
            Keeping(role="worker", folder=worker_folder, names=(names.env_file, names.compose_file, *_WORKER_FILES)),
        ),
        site=site,
        names=names,
        compose_file=operators_compose(environment, folder, home, names.compose_file, where=env_path),
    )


async def inventory_rig(site: Site, inventory: Inventory) -> Rig:
    """Return the hosts of a pair.yaml.

    Raises:
        InputError: one that ssh cannot be given.
        EngineError: the head does not answer.
    """
    head, *others = nodes_of(inventory)
    worker = others[0] if others else None
    target = worker.name if worker else ""
    home = (await head.run("sh", "-c", 'printf %s "$HOME"')).strip()
    return Rig(
        pair=Pair(head=head, worker=worker),
        pair_id=pair_id_of(head.name, target),
        worker_target=target,
        checkout=None,
        environment={},
        operator_port=_DEFAULT_PORT,
        work_folder=posixpath.join(home, _WORK_FOLDER),
        keeping=(),
        site=site,
        names=None,
    )


def holding_of(rig: Rig, back: Restoration, use: Use) -> Holding:
    """Return what a run does with a rig."""
    return Holding(
        back=back,
        run_id=use.run_id,
        recipe=use.recipe,
        checkout=rig.checkout,
        worker_target=rig.worker_target,
        trial_project=rig.trial_project,
        trial_port=rig.site.trial_port,
        work_folder=rig.work_folder,
        keeping=rig.keeping,
        may_borrow=use.may_borrow,
        idle_for_s=use.idle_for_s,
        wait_limit_s=use.wait_limit_s,
        look=use.look,
    )


def restoration_from(
    state: PairState, states: PairStates, *, clock: Clock, on_note: OnNote, accept_smoke_failure: bool = False
) -> Restoration:
    """Return how to put a pair back from its state alone: the site file may have changed since."""
    head = node_of("head", None if state.head == THIS_MACHINE else Host(address=state.head))
    worker = node_of("worker", Host(address=state.worker)) if state.worker else None
    pair = Pair(head=head, worker=worker)
    borrowed = state.borrowed
    lender = Lender(
        pair=pair,
        project=borrowed.project if borrowed else "",
        service=state.names.service if state.names else SERVICE,
        ours=state.trial_project,
        port=borrowed.port if borrowed else _DEFAULT_PORT,
        host=borrowed.host if borrowed else _LOOPBACK,
        checkout=state.checkout,
        names=state.names,
        clock=clock,
        on_progress=on_note,
    )
    return Restoration(
        pair_id=state.pair_id,
        pair=pair,
        lender=lender,
        states=states,
        on_note=on_note,
        accept_smoke_failure=accept_smoke_failure,
    )


def operators_compose(
    environment: Mapping[str, str], folder: str, home: str, default: str, *, where: str | None = None
) -> str:
    """Return the compose file that the operator's scripts start from: the checkout's own, or the one that is named.

    Args:
        environment: the operator's env file, which wins over the scripts' default.
        folder: the checkout.
        home: of the operator, on the head.
        default: the checkout's own file.
        where: the env file, for the error.

    Raises:
        InputError: it lies elsewhere: what it mounts is resolved from where it lies, so that a copy of it for a trial
            would have to lie there too.
    """
    named = environment.get("COMPOSE_FILE")
    if not named:
        return default
    path = posixpath.normpath(posixpath.join(folder, _without_variables(named, home, where=where)))
    if posixpath.dirname(path) != folder:
        raise InputError(
            f"COMPOSE_FILE names a file outside the checkout: {named}",
            where=where,
            hint=f"Move it to {folder}, where the paths in it begin on both nodes, or take COMPOSE_FILE out.",
        )
    return posixpath.basename(path)


def node_of(role: Role, host: Host | None) -> Node:
    """Return the host of a role; this machine where none is named."""
    if host is None or host.is_local:
        return Node(role=role, name=THIS_MACHINE, shell=LocalShell(), is_local=True)
    return Node(role=role, name=host.ssh_target, shell=SshShell(target=host.ssh_target), is_local=False)


def _under_home(path: str, home: str, *, where: str | None = None) -> str:
    """``~``, $HOME and ${HOME} worked out; nothing else of a shell's is."""
    path = _without_variables(path, home, where=where)
    if not posixpath.isabs(path):
        raise InputError(f"not an absolute path: {path}", where=where, hint="Write the whole path, or ~/...")
    return posixpath.normpath(path)


def _without_variables(path: str, home: str, *, where: str | None) -> str:
    for prefix in ("~/", "$HOME/", "${HOME}/"):
        if path.startswith(prefix):
            path = posixpath.join(home, path[len(prefix) :])
    if "$" in path or "`" in path:
        raise InputError(f"cannot tell which folder {path} is", where=where, hint="Write it without variables.")
    return path


def _answering(environment: Mapping[str, str]) -> str:
    """The address on which the operator's server answers on the head; as its scripts work it out."""
    host = environment.get("API_HOST") or environment.get("VLLM_HOST") or _LOOPBACK
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host if re.fullmatch(r"[A-Za-z0-9.-]+", host) else _LOOPBACK
    if address.is_unspecified:
        return _LOOPBACK
    return f"[{address}]" if address.version == 6 else str(address)


def _port(environment: Mapping[str, str], where: str) -> int:
    text = environment.get("VLLM_PORT") or environment.get("PORT") or str(_DEFAULT_PORT)
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise InputError(f"VLLM_PORT is no port: {text!r}", where=where)
    return int(text)
