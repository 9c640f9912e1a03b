"""A program called ``ssh`` that runs what it is given on this machine, as sshd would: by a shell, on open pipes."""

from __future__ import annotations

import sys
from pathlib import Path

_PROGRAM = """\
#!{python}
import subprocess, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(" ".join(words[:-1]) + "\\n")
if "unreachable" in words:
    sys.exit("ssh: connect to host unreachable port 22: No route to host")
sys.exit(subprocess.call(["sh", "-c", words[-1]], env={{"PATH": "/usr/bin:/bin"}}))
"""


def ssh_program(folder: Path) -> Path:
    """Write it into a folder of its own, for PATH. What it was called with is in ``calls`` beside it."""
    place = folder / "fake-ssh"
    place.mkdir()
    program = place / "ssh"
    program.write_text(_PROGRAM.format(python=sys.executable, log=str(place / "calls")))
    program.chmod(0o755)
    return place
