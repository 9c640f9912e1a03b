"""Where commands run: the seam between the harness and a host. LocalShell is this machine, ssh.SshShell another one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.errors import LaunchError


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program and what it runs with. Nothing passes through a shell's quoting."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)  # added to the shell's own; no secrets
    working_directory: Path | None = None
    stdin: bytes | None = None  # of ``run``; None: closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command that ended by itself."""

    returncode: int  # negative: the signal that ended it
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Both, stdout first."""
        return self.stdout + self.stderr


class RunningProcess(Protocol):
    """A long-lived process, leader of a session and process group of its own."""

    @property
    def pid(self) -> int:
        """Its id, which is also the id of its process group and session."""

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative where a signal ended it."""

    async def wait(self) -> int:
        """Return the exit status once it has ended."""


class Shell(Protocol):
    """Runs commands on one host."""

    async def run(self, command: Command, *, timeout_s: float | None = None) -> Completed:
        """Run to the end. Raises LaunchError if there is no such program, TimeoutError if it is late."""

    async def spawn(self, command: Command, *, log_path: Path) -> RunningProcess:
        """Start a process in its own session, stdin closed; its output is appended to ``log_path`` of this machine.

        Raises:
            LaunchError: the program does not exist or may not be run.
        """


class LocalShell:
    """This machine."""

    async def run(self, command: Command, *, timeout_s: float | None = None) -> Completed:
        """Run to the end; a command that is late, or whose caller gives up, is killed with its group."""
        process = await _start(command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        try:
            async with asyncio.timeout(timeout_s):
                stdout, stderr = await process.communicate(command.stdin)
        except BaseException:
            _kill_group(process.pid)
            await process.wait()
            raise
        return Completed(
            returncode=process.returncode or 0,
            stdout=stdout.decode(errors="replace"),
            stderr=stderr.decode(errors="replace"),
        )

    async def spawn(self, command: Command, *, log_path: Path) -> RunningProcess:
        """Start a process in its own session, its output appended to ``log_path``."""
        log_path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            return await _start(command, stdout=descriptor, stderr=asyncio.subprocess.STDOUT)
        finally:
            os.close(descriptor)


async def _start(command: Command, *, stdout: int, stderr: int) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=asyncio.subprocess.DEVNULL if command.stdin is None else asyncio.subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **command.environment},
            cwd=command.working_directory,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise LaunchError(f"cannot run {command.argv[0]}: {error.strerror}", hint=_remedy(command)) from error


def _remedy(command: Command) -> str:
    where = command.working_directory
    if where is not None and not where.is_dir():
        return f"The working directory {where} does not exist."
    return "Install the program, or name it by its path in the recipe's `command`."


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
