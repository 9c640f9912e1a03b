"""Run an engine on another host in the foreground: ``python -m harness.engine.over_ssh HOST PORT [NAME...] -- WORDS``.

To whoever starts it this process is the engine: its output and its exit code are the engine's, PORT of this machine
leads to PORT of that one, and SIGINT or SIGTERM ends it there, in time for its last words. The engine hangs on the
connection: whatever ends that, a crash of this machine included, ends the engine too. NAMEs are variables of this
process that it gets.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

from harness.engine.shell import Command
from harness.engine.ssh import SshShell

_END_OF_NAMES = "--"
# Standard input is the connection. It is kept open here and closed by the signal, or by whatever cuts it.
_THERE = """\
exec 3<&0
"$@" </dev/null 3<&- &
engine=$!
{ cat <&3; kill -TERM $engine; } >/dev/null 2>&1 &
exec 3<&-
wait $engine
"""


def wrapped(
    argv: Sequence[str], environment: Mapping[str, str], *, python: str, host: str, port: int
) -> tuple[str, ...]:
    """Return the command line that runs ``argv`` on ``host``, with the variables of these names."""
    return (python, "-m", "harness.engine.over_ssh", host, str(port), *environment, _END_OF_NAMES, *argv)


def main(arguments: Sequence[str]) -> int:
    """Run to the end of the engine and return its exit code."""
    host, port, *rest = arguments
    names, words = rest[: rest.index(_END_OF_NAMES)], rest[rest.index(_END_OF_NAMES) + 1 :]
    command = Command(
        argv=("sh", "-c", _THERE, "harness", *words), environment={name: os.environ.get(name, "") for name in names}
    )
    argv = SshShell(target=host).argv_of(command, forwarded_port=int(port))
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as connection:
        _close_on_signal(connection)
        return connection.wait()


def _close_on_signal(connection: subprocess.Popen[bytes]) -> None:
    def close(number: int, frame: FrameType | None) -> None:
        if connection.stdin is not None:
            connection.stdin.close()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, close)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
