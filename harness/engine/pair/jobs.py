"""A long script on a host, detached from whoever started it: a broken connection neither ends it nor hides its end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from harness.engine.orphans import LAUNCH_ID_VARIABLE
from harness.engine.pair.node import Node, NodeError

# $1 folder, $2 working directory, $3 mark, then the command. Its own session, stdin closed; the mark is in the
# environment of all that belongs to it.
_START = (
    'set -e; folder="$1"; cd "$2"; mark="$3"; shift 3; umask 077; rm -f "$folder/rc"; '
    'setsid env "$mark" sh -c \'folder="$1"; shift; "$@" >>"$folder/out" 2>&1 </dev/null; '
    'echo $? >"$folder/rc.part"; mv "$folder/rc.part" "$folder/rc"\' sh "$folder" "$@" >/dev/null 2>&1 </dev/null & '
    'echo $! >"$folder/pid"'
)
_FOLDER = 'umask 077; mkdir -p "$1"; chmod 700 "$1"'
# Prints how it stands, how long its output is, and the output from byte $2 on.
_LOOK = (
    'alive=no; kill -0 "$(cat "$1/pid")" 2>/dev/null && alive=yes; '  # before the exit code: it is written last
    'if [ -e "$1/rc" ]; then cat "$1/rc"; elif [ "$alive" = yes ]; then echo running; else echo gone; fi; '
    'size=$(wc -c <"$1/out" 2>/dev/null || echo 0); echo "$size"; '
    'tail -c "+$2" "$1/out" 2>/dev/null | head -c "$((size - $2 + 1))"'
)
# A number may belong to another process by now: only one that carries the mark is signalled. $2 mark, $3 signal.
_SIGNAL = (
    'pid=$(cat "$1/pid" 2>/dev/null) || exit 0; '
    'tr "\\0" "\\n" <"/proc/$pid/environ" 2>/dev/null | grep -qxF -- "$2" || exit 0; '
    'kill -s "$3" -- "-$pid" 2>/dev/null || true'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """How a job stands."""

    returncode: int | None  # None while it runs
    vanished: bool  # it is gone and left no exit code: killed, or the host was rebooted
    new_output: str


@dataclass(slots=True, kw_only=True)
class Job:
    """A script that runs on a host."""

    node: Node
    folder: str  # of this job alone, 0700; holds pid, out, rc
    launch_id: str
    _read: int = 0

    async def look(self) -> JobState:
        """Return its state and what it has written since the last look. Raises NodeError, HostUnreachableError."""
        done = await self.node.script(_LOOK, self.folder, str(self._read + 1))
        state, size, output = (*done.stdout.split("\n", maxsplit=2), "", "")[:3]
        self._read = int(size) if size.strip().isdigit() else self._read
        code = int(state) if state.strip().isdigit() else None
        return JobState(returncode=code, vanished=state.strip() == "gone", new_output=output)

    async def signal(self, name: str) -> None:
        """Signal its whole process group: TERM, KILL. Does nothing once it has ended."""
        await self.node.script(_SIGNAL, self.folder, _mark(self.launch_id), name)

    async def forget(self) -> None:
        """Remove its folder."""
        await self.node.run("rm", "-rf", "--", self.folder)


async def start_job(
    node: Node,
    argv: tuple[str, ...],
    *,
    environment: Mapping[str, str],
    working_directory: str,
    folder: str,
    launch_id: str,
) -> Job:
    """Start ``argv`` on the node, detached.

    Args:
        node: the host.
        argv: the program and its arguments.
        environment: added to the login's own; no secrets.
        working_directory: on that host.
        folder: absolute; made if it is not there.
        launch_id: carried in the environment of everything that the job starts.

    Raises:
        NodeError: the folder cannot be made, or the directory does not exist.
        HostUnreachableError: the host did not answer.
    """
    made = await node.script(_FOLDER, folder)
    if made.returncode != 0:
        raise NodeError(f"cannot make {folder} on {node.role}: {made.output.strip()}", where=node.name)
    words = ("env", *(f"{name}={value}" for name, value in environment.items()), *argv)
    done = await node.script(_START, folder, working_directory, _mark(launch_id), *words)
    if done.returncode != 0:
        what = f"cannot start {shlex.join(argv)} on {node.role}: {done.output.strip()}"
        raise NodeError(what, where=node.name)
    return Job(node=node, folder=folder, launch_id=launch_id)


def _mark(launch_id: str) -> str:
    return f"{LAUNCH_ID_VARIABLE}={launch_id}"
