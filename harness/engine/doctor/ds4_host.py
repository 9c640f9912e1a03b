"""What the doctor asks the host of a ds4 for: the heads of two files, free memory, and who else is there."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from harness.engine.gguf import CutGgufError, NotGgufError, Scalar, read_head, read_metadata
from harness.engine.shell import Command, Completed, Shell
from harness.errors import HarnessError

_TIMEOUT_S = 60.0
_OTHERS = re.compile(r"^(ds4(-server|-bench|-agent|-eval)?|VLLM::.*|vllm)$")
_RANKS = re.compile(r"vllm|dspark", re.IGNORECASE)
_PROCESSES = "ps -A -o pid= -o comm= 2>/dev/null"
_CONTAINERS = "docker ps --format '{{.Names}} {{.Image}}' 2>/dev/null; true"
# $1 file, $2 bytes. Prints its size, then so much of it.
_HEAD = (
    '[ -e "$1" ] || { echo "No such file or directory" >&2; exit 1; }; '
    'wc -c <"$1" || exit 1; head -c "$2" <"$1" | base64'
)
_HEAD_BYTES = (4 * 2**20, 96 * 2**20)  # a vocabulary has a few MiB
_AVAILABLE = r"sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHead:
    """A model file as it lies on its host."""

    size_bytes: int
    metadata: dict[str, Scalar]


class Ds4Host(Protocol):
    """Where ds4 runs."""

    @property
    def name(self) -> str:
        """As the user calls it."""

    async def head(self, path: Path) -> FileHead | str:
        """Return the head of a file, or why there is none. Raises EngineError where the host does not answer."""

    async def available_bytes(self) -> int | None:
        """Return the memory that a new process can have; None where the host does not say."""

    async def other_engines(self) -> tuple[str, ...]:
        """Return other engines, ranks of a pair among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThisMachine:
    """The machine on which the harness runs."""

    shell: Shell
    name: str = "this machine"

    async def head(self, path: Path) -> FileHead | str:
        """Read it."""
        return _local_head(path)

    async def available_bytes(self) -> int | None:
        """As the system says."""
        return psutil.virtual_memory().available

    async def other_engines(self) -> tuple[str, ...]:
        """Processes and containers."""
        return await _other_engines(self.shell)


@dataclass(frozen=True, slots=True, kw_only=True)
class FarMachine:
    """A host behind ssh."""

    shell: Shell
    name: str

    async def head(self, path: Path) -> FileHead | str:
        """Fetch as much of it as its metadata take."""
        why = "it cannot be read"
        for count in _HEAD_BYTES:
            done = await _script(self.shell, _HEAD, str(path), str(count))
            if done.returncode != 0:
                said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
                return f"it cannot be read: {said[-1] if said else 'nothing is said about it'}"
            size, _, encoded = done.stdout.strip().partition("\n")
            try:
                return FileHead(size_bytes=int(size), metadata=read_head(io.BytesIO(base64.b64decode(encoded))))
            except CutGgufError as error:
                why = str(error)
                if int(size) <= count:
                    break
            except NotGgufError as error:
                return str(error)
        return why

    async def available_bytes(self) -> int | None:
        """As Linux says."""
        said = (await _script(self.shell, _AVAILABLE)).stdout.strip()
        return int(said) * 1024 if said.isdigit() else None

    async def other_engines(self) -> tuple[str, ...]:
        """Processes and containers."""
        return await _other_engines(self.shell)


def _local_head(path: Path) -> FileHead | str:
    try:
        return FileHead(size_bytes=path.stat().st_size, metadata=read_metadata(path))
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except NotGgufError as error:
        return str(error)


async def _other_engines(shell: Shell) -> tuple[str, ...]:
    found = []
    for line in (await _script(shell, _PROCESSES)).stdout.splitlines():
        number, _, command = line.strip().partition(" ")
        name = command.strip().rpartition("/")[2]
        if _OTHERS.match(name):
            found.append(f"{name} ({number})")
    containers = (await _script(shell, _CONTAINERS)).stdout.splitlines()
    return (*found, *(f"container {line.split()[0]}" for line in containers if _RANKS.search(line)))


async def _script(shell: Shell, text: str, *arguments: str) -> Completed:
    try:
        return await shell.run(Command(argv=("sh", "-c", text, "sh", *arguments)), timeout_s=_TIMEOUT_S)
    except TimeoutError as late:
        raise HarnessError(f"it did not answer within {_TIMEOUT_S:.0f} s") from late
