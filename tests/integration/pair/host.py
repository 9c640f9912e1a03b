"""One host of the pair, as a test sees and treats it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tests.integration.pair.seen import Container, HostProcess, container_of
from tests.integration.pair.standin import faults, places
from tests.integration.pair.standin.namespaces import children_in
from tests.integration.pair.standin.store import Store
from tests.integration.pair.tree import DEVICES, HOME, INTERFACE, PRIVATE, REPOSITORY, Identity, kept_paths, search_path

SSHD = Path("/usr/sbin/sshd")
_PATIENCE_S = 20.0
_POLL_S = 0.02
_UPTIME_S = 400_000.0  # of a host that has been up for days
_MEMORY_BYTES = 130_595_840_000  # of a GB10
_NO_MEMORY = (  # who reads /proc/meminfo expects these to be there
    *("Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree", "Shmem", "Slab"),
    *("SReclaimable", "SUnreclaim"),
)
_ENTER = "import sys; sys.path.insert(0, {path!r}); from tests.integration.pair.standin.host_init import main; main()"
_CODE = _ENTER.format(path=str(REPOSITORY))

Completed = subprocess.CompletedProcess[str]


class Host:
    """A machine of the pair. Everything here works whether its sshd runs or not."""

    def __init__(self, identity: Identity, root: Path, *, lent: Mapping[str, Path]) -> None:
        """A host that is off.

        Args:
            identity: its names and addresses.
            root: its tree (tree.make_tree).
            lent: folders of this machine that it sees, by their paths there.
        """
        self.identity = identity
        self.root = root
        self.environment = {
            "PATH": search_path(),
            "HOME": HOME,
            "USER": "root",
            "LOGNAME": "root",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
        }
        self._lent = {path: str(source) for path, source in lent.items()}
        self._keeper: subprocess.Popen[bytes] | None = None
        self._network: int | None = None
        self._processes: int | None = None
        self._first = 0
        self._boots = 0
        self._commands: list[subprocess.Popen[bytes]] = []  # of this boot, that may still run

    @property
    def name(self) -> str:
        """head or worker."""
        return self.identity.name

    @property
    def address(self) -> str:
        """On the cable between the hosts."""
        return self.identity.address

    @property
    def first_pid(self) -> int:
        """Of the host's first process, on this machine."""
        assert self._first, f"{self.name} is off"
        return self._first

    @property
    def is_on(self) -> bool:
        """Whether it has booted."""
        return self._first != 0

    # Commands.

    def popen(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        stdin: int | None = subprocess.DEVNULL,
        stdout: int | BinaryIO | None = None,
        stderr: int | BinaryIO | None = None,
        new_session: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Start a command on the host. What is returned is the command itself: its pid, its signals, its exit code."""
        assert self._processes is not None, f"{self.name} is off"
        enter = ["nsenter", "--target", str(self._first), "-m", "-n", "-u", "-i", "-T", "--no-fork", "--"]
        with children_in(self._processes):
            process = subprocess.Popen(
                [*enter, "env", f"--chdir={folder or HOME}", *argv],
                env={**self.environment, **(environment or {})},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=new_session,
            )
        self._commands = [each for each in self._commands if each.poll() is None] + [process]
        return process

    def run(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        check: bool = True,
        stdin: str = "",
        timeout_s: float = 60.0,
    ) -> Completed:
        """Run a command on the host to its end; fails the test if it fails and ``check`` is set."""
        pipe = subprocess.PIPE
        process = self.popen(argv, environment=environment, folder=folder, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            out, err = process.communicate(stdin.encode(), timeout_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        done = Completed(list(argv), process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
        if check:
            assert done.returncode == 0, (
                f"{self.name}: {list(argv)} ended with {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done

    # Files.

    def absolute(self, path: str | Path) -> str:
        """Return a path of the host without the ``~`` that stands for its root's home."""
        inside = str(path)
        return HOME + inside[1:] if inside == "~" or inside.startswith("~/") else inside

    def path(self, path: str | Path) -> Path:
        """Where a file of the host lies on this machine. ``~`` is the home of its root."""
        inside = self.absolute(path)
        assert any(Path(inside).is_relative_to(Path("/", each)) for each in PRIVATE), f"{path} is not the host's own"
        return self.root / inside.lstrip("/")

    def write(self, path: str | Path, content: str | bytes, *, mode: int = 0o644) -> Path:
        """Write a file of the host, and the folders that lead to it."""
        target = self.path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        target.chmod(mode)
        return target

    def read(self, path: str | Path) -> str:
        """Return a file of the host."""
        return self.path(path).read_text()

    def tree_hash(self, path: str | Path) -> str:
        """Return what is equal as long as no name, mode or byte below a folder of the host changes."""
        digest = hashlib.sha256()
        for each in sorted(self.path(path).rglob("*")):
            digest.update(f"{each.relative_to(self.root)} {each.lstat().st_mode:o}\n".encode())
            if each.is_file() and not each.is_symlink():
                digest.update(each.read_bytes())
        return digest.hexdigest()

    # Docker and what runs in it.

    @property
    def store(self) -> Store:
        """What the stand-in docker of this host knows."""
        return Store(self.path(places.FOLDER))

    def containers(self) -> tuple[Container, ...]:
        """Every container, in whatever state."""
        store = self.store
        with store.locked():
            return tuple(container_of(each, store.config(each), store.state(each)) for each in store.ids())

    def rank(self, project: str | None = None) -> Container:
        """The only container, or the only one of a project."""
        (found,) = [each for each in self.containers() if project in (None, each.project)]
        return found

    def processes(self) -> tuple[HostProcess, ...]:
        """Every process of the host, without its first one."""
        own = Path(f"/proc/{self.first_pid}/ns/net").readlink()
        around = (self.first_pid, self._keeper.pid if self._keeper else 0)
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if int(folder.name) in around or (folder / "ns/net").readlink() != own:
                    continue
                words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            except OSError:  # it has ended meanwhile
                continue
            if words != [b""]:  # a zombie has no words
                found.append(HostProcess(pid=int(folder.name), arguments=tuple(each.decode() for each in words)))
        return tuple(found)

    def docker_calls(self) -> list[list[str]]:
        """The arguments of every docker command so far."""
        path = self.path(places.FOLDER / places.CALLS)
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def docker_fault(self, name: str, times: int | None = None) -> None:
        """Let something go wrong from now on (standin/faults.py), ``times`` times or until clear_faults()."""
        faults.Faults(self.path(places.FOLDER)).set(name, times)

    def clear_faults(self) -> None:
        """Let nothing go wrong any more."""
        faults.Faults(self.path(places.FOLDER)).clear()

    def kill_rank(self, project: str | None = None) -> None:
        """Kill the container's process, as the kernel does when memory runs out."""
        self.run(["kill", "-KILL", str(self.rank(project).pid)])

    def start_docker(self) -> None:
        """Let dockerd come up: containers are started as their restart policies say."""
        if self.containers():
            self.run(["dockerd-standin"])
        else:
            self.path(places.DAEMON).touch()

    # sshd.

    def start_sshd(self) -> None:
        """Let the host take ssh connections."""
        self.path("/run/sshd").mkdir(exist_ok=True)
        self.run([str(SSHD)])
        self.wait_until(lambda: self.path("/run/sshd.pid").exists(), "sshd did not start")

    def stop_sshd(self) -> None:
        """Refuse new ssh connections; open ones live on."""
        pid_file = self.path("/run/sshd.pid")
        self.run(["kill", pid_file.read_text().strip()])
        self.wait_until(lambda: not pid_file.exists(), "sshd did not end")

    def drop_ssh(self) -> None:
        """Cut every open ssh connection to this host."""
        for process in self.processes():
            if process.arguments[0].startswith(("sshd:", "sshd-session:")) and "listener" not in process.arguments[0]:
                os.kill(process.pid, signal.SIGKILL)

    # Power.

    def boot(self) -> None:
        """Switch on; nothing runs yet."""
        assert not self.is_on, f"{self.name} is on"
        self._boot()
        self.run(["ip", "link", "set", "lo", "up"])

    def start_services(self, *, docker: bool = True) -> None:
        """Let sshd come up, and dockerd if ``docker`` is set."""
        self.start_sshd()
        if docker:
            self.start_docker()

    def power_on(self, *, docker: bool = True) -> None:
        """Boot after a power cut: the cable works again, services come up."""
        self.boot()
        self.run(["ip", "link", "set", INTERFACE, "up"])
        self.start_services(docker=docker)

    def power_off(self) -> None:
        """Cut the power: every process is gone, and nobody is told."""
        self.run(["ip", "link", "set", INTERFACE, "down"])
        self._end()
        for folder in ("run", "tmp"):
            for each in (self.root / folder).iterdir():
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()

    def reboot(self, *, docker: bool = True) -> None:
        """Cut the power and boot."""
        self.power_off()
        self.power_on(docker=docker)

    def close(self) -> None:
        """End the host for good."""
        self._end()
        if self._network is not None:
            os.close(self._network)
            self._network = None

    # What the machine says of itself.

    def set_memory_available(self, available_bytes: int) -> None:
        """Let /proc/meminfo say so."""
        lines = (("MemTotal", _MEMORY_BYTES), ("MemFree", available_bytes), ("MemAvailable", available_bytes))
        text = "".join(f"{name + ':':<16}{size // 1024:>8} kB\n" for name, size in lines)
        rest = "".join(f"{name + ':':<16}       0 kB\n" for name in _NO_MEMORY)
        (self.root / ".meminfo").write_text(text + rest)

    def set_gpu(self, values: Mapping[str, Any]) -> None:
        """Let nvidia-smi say so: its own names of fields, ``tenants`` for other processes (standin/nvidia_smi.py)."""
        self.write(places.FOLDER / places.GPU, json.dumps(dict(values)))

    def set_units(self, states: Mapping[str, str]) -> None:
        """Let systemctl know these units, name -> active, inactive, failed."""
        self.write(places.FOLDER / places.UNITS, json.dumps(dict(states)))

    def wait_until(self, reached: Callable[[], bool], otherwise: str, *, patience_s: float = _PATIENCE_S) -> None:
        """Return once ``reached``; fail the test after a while."""
        until_s = time.monotonic() + patience_s
        while not reached():
            assert time.monotonic() < until_s, f"{self.name}: {otherwise}"
            time.sleep(_POLL_S)

    def _boot(self) -> None:
        self._boots += 1
        (self.root / ".boot_id").write_text(f"{uuid.uuid4()}\n")
        if not (self.root / ".meminfo").exists():
            self.set_memory_available(_MEMORY_BYTES - 6 * 2**30)
        settings = {
            "root": str(self.root),
            "network": self._network,
            "uptime_s": _UPTIME_S if self._boots == 1 else 20.0,
            "host_name": self.identity.host_name,
            "private": PRIVATE,
            "kept": kept_paths(),
            "lent": self._lent,
            "devices": DEVICES,
            "files": {"/proc/sys/kernel/random/boot_id": ".boot_id", "/proc/meminfo": ".meminfo"},
        }
        path = self.root / ".settings.json"
        path.write_text(json.dumps(settings))
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CODE, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[] if self._network is None else [self._network],
        )
        assert self._keeper.stdout is not None
        self._first = int(self._keeper.stdout.readline() or 0)
        assert self._first, f"{self.name} does not boot"
        self._processes = os.open(f"/proc/{self._first}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        if self._network is None:
            self._network = os.open(f"/proc/{self._first}/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def _end(self) -> None:
        keeper, self._keeper, self._first = self._keeper, None, 0
        if keeper is not None:
            assert keeper.stdin is not None and keeper.stdout is not None
            keeper.stdin.close()
            # The host's first process ends when all others are reaped, and these are children of this process.
            for command in self._commands:
                command.wait(_PATIENCE_S)
            keeper.wait(_PATIENCE_S)
            keeper.stdout.close()
        if self._processes is not None:
            os.close(self._processes)
            self._processes = None
