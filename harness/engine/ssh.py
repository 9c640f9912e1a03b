"""Another host behind the Shell protocol, through the user's own OpenSSH: its config, agent and jump hosts apply.

No password is ever asked for, and every word of a command is quoted for the remote shell. ssh reports its own failure
with 255, which a remote program may return as well: a line that is printed behind the command tells the two apart. A
line before it tells its output from what the login shell's own files print.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.engine.shell import Command, Completed, LocalShell, RunningProcess
from harness.errors import EngineError, InputError

_OPTIONS = (
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
)
_BEGIN, _END = "harness-command-begins", "harness-command-ended:"
_ENDED = re.compile(rf"\n{_END}(\d+)\n")
_SAY_BEGIN = f"printf '\\n{_BEGIN}\\n'"
_SAY_END = f"printf '\\n{_END}%d\\n' $? >&2"
_TARGET = re.compile(r"[A-Za-z0-9_.@:\[\]%-]+")


class HostUnreachableError(EngineError):
    """The connection failed or broke: what the command did there is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshShell:
    """A host that ``ssh target`` reaches without a prompt."""

    target: str

    def __post_init__(self) -> None:
        """Refuse what ssh would take for an option. Raises InputError."""
        if self.target.startswith("-") or not _TARGET.fullmatch(self.target):
            raise InputError(
                f"not a host that ssh can be given: {self.target!r}",
                hint="Write host, user@host or a name of ~/.ssh/config.",
            )

    async def run(self, command: Command, *, timeout_s: float | None = None) -> Completed:
        """Run to the end on that host.

        Raises:
            HostUnreachableError: ssh failed, before the command or in the middle of it.
            TimeoutError: it is late; the connection is cut, and the command may go on there.
        """
        line = _shell_line(f"{_SAY_BEGIN}; {remote_line(command)}; {_SAY_END}")
        done = await LocalShell().run(Command(argv=self._argv(line), stdin=command.stdin), timeout_s=timeout_s)
        ended = _ENDED.search(done.stderr)
        if ended is None:
            raise self._unreachable(done)
        stderr = done.stderr[: ended.start()] + done.stderr[ended.end() :]
        _, _, stdout = done.stdout.partition(f"\n{_BEGIN}\n")
        return Completed(returncode=int(ended.group(1)), stdout=stdout, stderr=stderr)

    async def spawn(self, command: Command, *, log_path: Path) -> RunningProcess:
        """Start a command there; the process returned is the connection, which ends when either does."""
        line = _shell_line(f"exec {remote_line(command)}")
        return await LocalShell().spawn(Command(argv=self._argv(line)), log_path=log_path)

    def argv_of(self, command: Command, *, forwarded_port: int) -> tuple[str, ...]:
        """Return the command line that runs a command there in the foreground; the port leads to the same one there."""
        forward = f"{forwarded_port}:127.0.0.1:{forwarded_port}"
        line = _shell_line(f"exec {remote_line(command)}")
        return ("ssh", *_OPTIONS, "-o", "ExitOnForwardFailure=yes", "-L", forward, self.target, line)

    def _argv(self, line: str) -> tuple[str, ...]:
        return ("ssh", *_OPTIONS, self.target, line)

    def _unreachable(self, done: Completed) -> HostUnreachableError:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return HostUnreachableError(
            f"ssh to {self.target} failed: {said[-1] if said else f'it ended with {done.returncode}'}",
            where=self.target,
            hint=f"`ssh -o BatchMode=yes {self.target} true` must work without a prompt from this machine.",
        )


def remote_line(command: Command) -> str:
    """Return one line for a POSIX shell that runs the command; every word is quoted."""
    words = shlex.join(command.argv)
    if command.environment:
        words = f"env {_assignments(command.environment)} {words}"
    if command.working_directory is None:
        return words
    return _shell_line(f"cd {shlex.quote(str(command.working_directory))} && exec {words}")


def _shell_line(script: str) -> str:
    """The login shell there may be any; the script is for a POSIX one."""
    return f"sh -c {shlex.quote(script)}"


def _assignments(environment: Mapping[str, str]) -> str:
    return shlex.join(f"{name}={value}" for name, value in environment.items())
