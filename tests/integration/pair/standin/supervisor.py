"""Keeps one container: starts its process, writes its log, and starts it again as its restart policy says.

One process per container, detached from the command that made it, as dockerd is. The container's process is the first
of its own process namespace: with it, everything that it started ends; SIGTERM reaches it only if it listens.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

from tests.integration.pair.standin import namespaces as ns
from tests.integration.pair.standin import places, rootfs
from tests.integration.pair.standin.store import LOG, Store, stamp

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 60.0  # docker's own
_HEALTHY_S = 10.0  # a run this long sets the pause back
_POLL_S = 0.05
_CANNOT_RUN = 127
_MOUNTS = Path("/run/standin")


def start_supervisor(store: Store, container_id: str) -> None:
    """Start a container; returns while it starts. The caller does not hold the lock."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        _detach()
        _Supervisor(store, container_id).run()
    finally:
        os._exit(0)


def _detach() -> None:
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, 256)  # the pipes of an ssh session end only when nobody holds them
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class _Supervisor:
    def __init__(self, store: Store, container_id: str) -> None:
        self._store = store
        self._id = container_id
        self._config = store.config(container_id)
        self._log = store.path(container_id) / LOG

    def run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            began_s = time.monotonic()
            code = self._one_run()
            if not self._note_end(code):
                return
            pause_s = _FIRST_PAUSE_S if time.monotonic() - began_s > _HEALTHY_S else pause_s
            if not self._waited(pause_s):
                return
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _one_run(self) -> int:
        """Run the container's process to its end, and return its exit code as docker has it."""
        out, err, about = os.pipe(), os.pipe(), os.pipe()
        starter = os.fork()
        if starter == 0:
            self._start(out[1], err[1], about[1])
        for _, writing in (out, err, about):
            os.close(writing)
        with self._store.locked():
            pid = int(os.read(about[0], 32) or 0)
            os.close(about[0])
            if not self._store.exists(self._id):
                os.kill(starter, signal.SIGKILL)
            else:
                self._store.change(self._id, Status="running", Pid=pid, StartedAt=stamp(), ExitCode=0)
        _copy_lines({out[0]: "stdout", err[0]: "stderr"}, self._log)
        _, status = os.waitpid(starter, 0)
        return os.waitstatus_to_exitcode(status)

    def _start(self, out: int, err: int, about: int) -> None:
        """In the starter: make the container's namespaces, and wait for its process."""
        ns.die_with_parent(signal.SIGKILL)
        ns.unshare(ns.NEWNS | ns.NEWPID)
        process = os.fork()
        if process == 0:
            ns.die_with_parent(signal.SIGKILL)
            self._become_container(out, err)
        os.write(about, str(process).encode())
        for descriptor in (out, err, about):
            os.close(descriptor)
        _, status = os.waitpid(process, 0)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)

    def _become_container(self, out: int, err: int) -> None:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, 256)
        try:
            rootfs.enter(self._config, _MOUNTS / self._id[:12])
            command = rootfs.command_of(self._config)
            os.execvpe(command[0], command, rootfs.environment_of(self._config, os.uname().nodename))
        except OSError as problem:
            os.write(2, f"Error response from daemon: failed to create task for container: {problem}\n".encode())
        os._exit(_CANNOT_RUN)

    def _note_end(self, code: int) -> bool:
        """Write down how it ended; whether it is to be started again."""
        with self._store.locked():
            if not self._store.exists(self._id):
                return False
            state = self._store.state(self._id)
            again = _restarts(self._config["RestartPolicy"], code, state)
            self._store.change(
                self._id,
                Status="restarting" if again else "exited",
                Pid=0,
                ExitCode=code,
                FinishedAt=stamp(),
                RestartCount=state["RestartCount"] + again,
            )
            return again

    def _waited(self, pause_s: float) -> bool:
        """Wait before the next start; whether there is to be one."""
        until_s = time.monotonic() + pause_s
        while True:
            with self._store.locked():
                if not self._store.exists(self._id):
                    return False
                if self._store.state(self._id)["StoppedByHand"]:
                    self._store.change(self._id, Status="exited")
                    return False
            if time.monotonic() >= until_s:
                return True
            time.sleep(_POLL_S)


def _restarts(policy: dict[str, Any], code: int, state: dict[str, Any]) -> bool:
    if state["StoppedByHand"]:
        return False
    if policy["Name"] == "on-failure":
        limit = policy["MaximumRetryCount"]
        return code != 0 and (not limit or state["RestartCount"] < limit)
    return policy["Name"] in ("always", "unless-stopped")


def _copy_lines(streams: dict[int, str], log: Path) -> None:
    """Write each line that comes, with its time and stream, until nobody writes any more."""
    rest = dict.fromkeys(streams, b"")
    with log.open("ab", buffering=0) as file:
        while rest:
            readable, _, _ = select.select(list(rest), [], [])
            for descriptor in readable:
                data = os.read(descriptor, 65536)
                *lines, rest[descriptor] = (rest[descriptor] + data).split(b"\n")
                if not data:
                    lines += [rest.pop(descriptor)] if rest[descriptor] else []
                    rest.pop(descriptor, None)
                    os.close(descriptor)
                for line in lines:
                    file.write(_entry(line, streams[descriptor]))


def _entry(line: bytes, stream: str) -> bytes:
    entry = {"log": line.decode(errors="replace"), "stream": stream, "time": stamp()}
    return json.dumps(entry).encode() + b"\n"


def restore_after_boot(store: Store) -> None:
    """Be dockerd that comes up after a reboot: start what the policies say."""
    places.DAEMON.touch()
    for container_id in store.ids():
        with store.locked():
            state = store.state(container_id)
            was_up = state["Status"] in ("running", "restarting")
            if was_up:
                state = store.change(container_id, Status="exited", ExitCode=255, Pid=0, FinishedAt=stamp())
        policy = store.config(container_id)["RestartPolicy"]["Name"]
        by_hand = state["StoppedByHand"]
        if policy == "always" or (policy == "unless-stopped" and not by_hand) or (policy == "on-failure" and was_up):
            with store.locked():
                store.change(container_id, StoppedByHand=False)
            start_supervisor(store, container_id)
