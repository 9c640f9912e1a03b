"""The test bed of a pair: two hosts on this machine, joined by a cable, with stand-ins for what only a pair has.

A host is a set of namespaces (processes, mounts, network, host name, uptime) around a file tree of its own: `/etc`,
`/home`, `/mnt`, `/opt`, `/root`, `/run`, `/srv`, `/tmp`, `/var/tmp` and `/usr/local/sbin` are private, everything else
is this machine's. Real: bash, ssh, scp, sshd (port 22, known to each other without a prompt), ip, ss, curl, ps.
Stand-ins, first on PATH: docker, nvidia-smi, ibdev2netdev, systemctl; in a container also vllm, which serves the
simulated engine. Nothing is pinned anywhere: when the test process ends, however it ends, both hosts are gone.

    head    10.77.0.1  spark-head    enp1s0f1np1  rocep1s0f1 (RoCE v2 GID index 3)
    worker  10.77.0.2  spark-worker  enp1s0f1np1  rocep1s0f1 (RoCE v2 GID index 6)

Fixtures (conftest.py): `bed`, a fresh pair without a checkout; `checkout`, our own of the August generation on that
bed; `settings`, what every bed of the session shares. Mark tests `system`.

    bed.head, bed.worker, bed.hosts          the two `Host`s
    bed.harness(*arguments, environment={}, folder=None, timeout_s=240) -> Done(code, out, err)
                                             `python -m harness ARGUMENTS` in ~/desk of the head, to its end; its state,
                                             cache, data and configuration lie in ~/harness/{state,cache,data,config}
    bed.start_harness(*arguments, ...)       the same, `Started`: .process is the real process (signals, kill -9),
                                             .said its stderr, .wait_for_text(text), .send(signal), .end() -> Done
    bed.install_standin_checkout(generation="august" | "september", changes={}) -> Checkout
                                             our own, in ~/dspark of the head and ~/spark-worker of the worker, with the
                                             operator's files and the checkpoint in both caches; `changes` go into the
                                             head's env file
    bed.install_checkout(path, changes={}) -> Checkout
                                             a public one as it is, but for the bodies under patches/ (checkouts.py)
    bed.metrics(port=8888), bed.k(port=8888) the serving rank's /metrics, and k as its counters prove it (0: no drafts)
    bed.set_engine(speed=20, scenario="quiet", boot_s=0.3, seed=1, silence_s=5, kv_cache_tokens=None)
                                             of engines that boot from now on; silence_s: then a silent rank is lost
    bed.link_down(), bed.link_up()           the cable

    checkout.run("start" | "stop" | "status" | "smoke" | "validate" | "prepare", *arguments, environment={}, check=True)
    checkout.env_file, .head_folder, .worker_folder, .set_variables({"MTP_NUM_TOKENS": "7", "X": None})
    checkout.worker_files() -> {name: bytes} what a start overwrites on the worker

    host.run(argv, environment={}, folder=None, check=True, stdin="", timeout_s=60) -> subprocess.CompletedProcess[str]
    host.popen(argv, ...) -> subprocess.Popen[bytes]    a process of the host, with its pid on this machine
    host.root, host.path("~/dspark/x")       its tree, or a file of it, as seen from here (private folders only)
    host.write(path, text, mode=0o644), host.read(path), host.tree_hash(path)
    host.containers() -> tuple[Container]    name, status, is_up, exit_code, environment, ... (seen.py)
    host.rank(project=None) -> Container     the only one
    host.processes() -> tuple[HostProcess]   pid (here), arguments
    host.docker_calls() -> list[list[str]]   arguments of every docker command so far
    host.docker_fault(name, times=None), host.clear_faults()      the names are in standin/faults.py:
        daemon_down, image_missing, digest_differs, up_fails, stop_fails, rm_fails: what docker does wrong here;
        never_ready, head_dies_in_boot, worker_dies, chat_500, later_chat_500: what the rank on this host does wrong
    host.kill_rank(project=None), host.stop_sshd(), host.start_sshd(), host.drop_ssh()
    host.power_off(), host.power_on(docker=True), host.reboot(docker=True), host.start_docker()
    host.set_memory_available(bytes), host.set_gpu({"temperature.gpu": 88}), host.set_units({"x.service": "active"})
    checkouts.add_checkpoint(host, "org/Model", "revision")      a checkpoint in the host's model cache
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.pair import checkouts
from tests.integration.pair.checkouts import Checkout, Generation
from tests.integration.pair.host import SSHD, Host
from tests.integration.pair.standin import places
from tests.integration.pair.tree import (
    HEAD,
    HOME,
    INTERFACE,
    PORT_DOWN,
    PORT_STATE,
    PORT_UP,
    REPOSITORY,
    WORKER,
    Identity,
    make_keys,
    make_tree,
)
from tests.system.driver import PATIENCE_S, Done, Started

PORT = 8888
DESK = f"{HOME}/desk"
_PREFIX, _LOCK = "pair-bed-", ".lock"
_FONTS = "/opt/matplotlib"
_DRAFTS = re.compile(r"^vllm:spec_decode_num_(drafts|draft_tokens)_total\{[^}]*\} (\S+)$", re.MULTILINE)
_POSITION = re.compile(r'^vllm:spec_decode_num_accepted_tokens_per_pos_total\{[^}]*position="(\d+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BedSettings:
    """What every bed of a test session shares, since it takes a while to make."""

    keys: Path
    fonts: Path  # matplotlib's cache


def new_settings(folder: Path) -> BedSettings:
    """Make them in a new folder. Raises FileNotFoundError: this machine lacks a program."""
    missing = [
        name for name in ("ip", "nsenter", "ssh", "ssh-keygen", "curl", "ss", str(SSHD)) if not shutil.which(name)
    ]
    if missing or os.geteuid() != 0:
        raise FileNotFoundError(f"the pair needs root and the packages that .ci/run names; not found: {missing}")
    settings = BedSettings(keys=folder / "keys", fonts=folder / "fonts")
    settings.keys.mkdir()
    settings.fonts.mkdir()
    make_keys(settings.keys)
    return settings


class PairBed:
    """Two hosts that are on. See the top of this file."""

    def __init__(self, folder: Path, settings: BedSettings) -> None:
        """Boot both in a folder that is there, and join them."""
        self._folder = folder
        self._started: list[Started] = []
        self.head = _new_host(folder, HEAD, WORKER, settings)
        self.worker = _new_host(folder, WORKER, HEAD, settings)
        state = {name: f"{HOME}/harness/{name}" for name in ("state", "cache", "data", "config")}
        self.environment = {
            "HARNESS_STATE_DIR": state["state"],
            "HARNESS_CACHE_DIR": state["cache"],
            "HARNESS_DATA_DIR": state["data"],
            "XDG_CONFIG_HOME": state["config"],
            "MPLCONFIGDIR": _FONTS,
            "COLUMNS": "200",
        }
        self.head.path(DESK).mkdir(parents=True)
        self._boot()

    @property
    def hosts(self) -> tuple[Host, Host]:
        """Head and worker."""
        return self.head, self.worker

    # The harness.

    def start_harness(
        self, *arguments: str, environment: Mapping[str, str] | None = None, folder: str | None = None
    ) -> Started:
        """Start the harness on the head, with its state, cache, data and configuration in the head's tree."""
        number = len(self._started)
        out, err = self._folder / f"{number}.out", self._folder / f"{number}.err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = self.head.popen(
                [sys.executable, "-m", "harness", *arguments],
                environment={**self.environment, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
                folder=folder or DESK,
                stdout=stdout,
                stderr=stderr,
            )
        self._started.append(Started(process=process, out=out, err=err))
        return self._started[-1]

    def harness(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> Done:
        """Run the harness on the head to its end."""
        return self.start_harness(*arguments, environment=environment, folder=folder).end(patience_s=timeout_s)

    # Checkouts.

    def install_standin_checkout(
        self, generation: Generation = "august", changes: Mapping[str, str | None] | None = None
    ) -> Checkout:
        """Put our own checkout on both hosts, configured; ``changes`` go into the head's env file."""
        return checkouts.install_ours(self.head, self.worker, generation, changes or {})

    def install_checkout(self, path: Path, changes: Mapping[str, str | None] | None = None) -> Checkout:
        """Put a public checkout on both hosts, configured, the bodies of its patches aside."""
        return checkouts.install_public(self.head, self.worker, path, changes or {})

    # The engine.

    def set_engine(self, **settings: Any) -> None:
        """Change how engines behave that boot from now on (standin/vllm.py: DEFAULTS; kv_cache_tokens)."""
        for host in self.hosts:
            path = host.path(places.FOLDER / places.ENGINE)
            known = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps(known | settings))

    def metrics(self, port: int = PORT) -> str:
        """Return what the serving rank counts; fails the test if nothing serves."""
        return self.head.run(["curl", "-fsS", "--max-time", "5", f"http://127.0.0.1:{port}/metrics"]).stdout

    def k(self, port: int = PORT) -> int:
        """Return k as the counters prove it; 0: nothing was drafted."""
        page = self.metrics(port)
        counted = {name: float(value) for name, value in _DRAFTS.findall(page)}
        if not counted.get("drafts"):
            return 0
        k, rest = divmod(counted["draft_tokens"], counted["drafts"])
        assert rest == 0, counted
        assert k == max(map(int, _POSITION.findall(page))) + 1, page
        return int(k)

    # The cable.

    def link_down(self) -> None:
        """Pull the cable: nothing gets through, and nobody is told."""
        self._set_link("down", PORT_DOWN)

    def link_up(self) -> None:
        """Put the cable back."""
        self._set_link("up", PORT_UP)

    def _set_link(self, word: str, port_state: str) -> None:
        self.worker.run(["ip", "link", "set", INTERFACE, word])
        for host in self.hosts:
            (host.root / PORT_STATE).write_text(port_state)

    def close(self) -> None:
        """End everything."""
        for host in self.hosts:
            host.close()
        for started in self._started:
            started.process.wait(10)

    def _boot(self) -> None:
        for host in self.hosts:
            host.boot()
        side = [
            str(self.head.first_pid),
            "type",
            "veth",
            "peer",
            "name",
            INTERFACE,
            "netns",
            str(self.worker.first_pid),
        ]
        subprocess.run(["ip", "link", "add", "name", INTERFACE, "mtu", "9000", "netns", *side], check=True)
        for host in self.hosts:
            host.run(["ip", "link", "set", INTERFACE, "mtu", "9000", "up"])
            host.run(["ip", "address", "add", f"{host.address}/24", "dev", INTERFACE])
            host.start_services()


@contextmanager
def opened_bed(settings: BedSettings) -> Iterator[PairBed]:
    """A fresh pair while the context is open."""
    _remove_stale()
    lock, path = tempfile.mkstemp(prefix=_PREFIX, suffix=_LOCK)
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder = _folder_of(Path(path))
    folder.mkdir()
    try:
        bed = PairBed(folder, settings)
        try:
            yield bed
        finally:
            bed.close()
    finally:
        # Under the lock, since other test processes look for what killed ones have left.
        shutil.rmtree(folder)
        Path(path).unlink(missing_ok=True)
        os.close(lock)


def _folder_of(lock: Path) -> Path:
    return lock.with_name(lock.name.removesuffix(_LOCK))


def _new_host(folder: Path, own: Identity, other: Identity, settings: BedSettings) -> Host:
    root = folder / own.name
    make_tree(root, own, other, settings.keys)
    lent = {_FONTS: settings.fonts} if own is HEAD else {}
    return Host(own, root, lent=lent)


def _remove_stale() -> None:
    """Remove the folders of beds whose test process was killed. Their hosts have gone with it."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*{_LOCK}"):
        with suppress(OSError):
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(_folder_of(path), ignore_errors=True)
                path.unlink(missing_ok=True)
            finally:
                os.close(lock)
