"""One of the two hosts: commands, files and containers on it, the same whether it is this machine or behind ssh."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from harness.engine.pair.containers import Container, parse_containers
from harness.engine.shell import Command, Completed, Shell
from harness.engine.ssh import HostUnreachableError
from harness.errors import EngineError

Role = Literal["head", "worker"]
_TIMEOUT_S = 60.0
_NO_FILE = 44  # the exit code with which our own scripts say that there is no such file
# Written beside the target and renamed, so that a power cut leaves the old file or the new one. $1 path, $2 mode.
_WRITE = (
    'set -e; umask 077; part="$1.harness-part"; trap \'rm -f -- "$part"\' EXIT; cat > "$part"; chmod "$2" "$part"; '
    'sync "$part"; mv -fT -- "$part" "$1"'
)
_READ = f'[ -e "$1" ] || exit {_NO_FILE}; base64 < "$1"'
_MODE = f'[ -e "$1" ] || exit {_NO_FILE}; stat -c %a "$1"'
_CONTAINERS = 'ids=$(docker ps -aq --no-trunc) || exit 1; [ -z "$ids" ] || docker inspect $ids'


class NodeError(EngineError):
    """A command failed on a host that is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host of the pair."""

    role: Role
    name: str  # as the user calls it: the ssh target, or "this machine"
    shell: Shell
    is_local: bool

    async def attempt(
        self, *argv: str, environment: Mapping[str, str] | None = None, timeout_s: float = _TIMEOUT_S
    ) -> Completed:
        """Run a command, whatever its exit code.

        Raises:
            HostUnreachableError: the host did not answer, or not in time.
        """
        return await self._run(Command(argv=argv, environment=environment or {}), timeout_s)

    async def run(self, *argv: str, environment: Mapping[str, str] | None = None, timeout_s: float = _TIMEOUT_S) -> str:
        """Run a command and return its stdout.

        Raises:
            NodeError: it failed; says with what.
            HostUnreachableError: the host did not answer, or not in time.
        """
        done = await self.attempt(*argv, environment=environment, timeout_s=timeout_s)
        if done.returncode != 0:
            raise self._failed(argv, done)
        return done.stdout

    async def script(self, text: str, *arguments: str, stdin: bytes | None = None) -> Completed:
        """Run a POSIX shell script of ours with ``$1``... set; nothing of the arguments is ever parsed as code."""
        return await self._run(Command(argv=("sh", "-c", text, "sh", *arguments), stdin=stdin), _TIMEOUT_S)

    async def read_file(self, path: str) -> bytes | None:
        """Return a file's bytes; None where it does not exist. Raises NodeError, HostUnreachableError."""
        done = await self.script(_READ, path)
        if done.returncode == _NO_FILE:
            return None
        if done.returncode != 0:
            raise self._failed(("read", path), done)
        return base64.b64decode(done.stdout)

    async def file_mode(self, path: str) -> int | None:
        """Return a file's permission bits; None where it does not exist. Raises NodeError, HostUnreachableError."""
        done = await self.script(_MODE, path)
        return int(done.stdout, 8) if done.returncode == 0 else None

    async def write_file(self, path: str, content: bytes, *, mode: int) -> None:
        """Replace a file as a whole. The content travels on stdin, never on a command line.

        Raises:
            NodeError: it cannot be written.
            HostUnreachableError: the host did not answer.
        """
        done = await self.script(_WRITE, path, f"{mode:o}", stdin=content)
        if done.returncode != 0:
            raise self._failed(("write", path), done)

    async def remove_file(self, path: str) -> None:
        """Remove a file, if it is there. Raises NodeError, HostUnreachableError."""
        await self.run("rm", "-f", "--", path)

    async def sha256(self, path: str) -> str | None:
        """Return a file's hash; None where it does not exist."""
        content = await self.read_file(path)
        return None if content is None else hashlib.sha256(content).hexdigest()

    async def containers(self) -> tuple[Container, ...]:
        """Return every container, running or not.

        Raises:
            NodeError: docker does not answer; what runs there is then not known.
            HostUnreachableError: the host did not answer.
        """
        done = await self.script(_CONTAINERS)
        if done.returncode != 0:
            raise self._failed(("docker", "ps"), done)
        return parse_containers(done.stdout)

    async def _run(self, command: Command, timeout_s: float) -> Completed:
        try:
            return await self.shell.run(command, timeout_s=timeout_s)
        except TimeoutError as late:
            what = f"{self.name} did not answer `{_shown(command.argv)}` within {timeout_s:.0f} s"
            raise HostUnreachableError(what, where=self.name, hint=f"Is {self.role} up and reachable?") from late

    def _failed(self, argv: tuple[str, ...], done: Completed) -> NodeError:
        said = [line.strip() for line in done.output.splitlines() if line.strip()]
        last = said[-1] if said else "no output"
        what = f"`{_shown(argv)}` failed on {self.role} with exit code {done.returncode}: {last}"
        return NodeError(what, where=self.name)


def _shown(argv: tuple[str, ...]) -> str:
    if argv[:2] == ("sh", "-c"):
        return "docker ps" if argv[2] == _CONTAINERS else " ".join(("a script of the harness", *argv[4:]))
    return shlex.join(argv)
