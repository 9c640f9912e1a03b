"""Programs of a host, for a folder that comes first on PATH: nvidia-smi with settable answers, ssh to this machine."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

GB10: Mapping[str, str] = {
    "name": "NVIDIA GB10",
    "driver_version": "580.95.05",
    "vbios_version": "9A.0B.14.00.09",
    "clocks.sm": "2411",
    "clocks.max.sm": "3003",
    "clocks.mem": "[N/A]",
    "temperature.gpu": "61",
    "power.draw": "38.20",
    "power.limit": "[N/A]",
    "enforced.power.limit": "[N/A]",
    "pstate": "P0",
    "clocks_event_reasons.active": "0x0000000000000000",
    "clocks_throttle_reasons.active": "0x0000000000000000",
}

_NVIDIA_SMI = """\
#!/bin/sh
# Answers from files beside it, named after the field; a field without a file is refused.
here=$(dirname "$0")/gpu
case "$1" in
  --query-gpu=*) ;;
  --query-compute-apps=*) cat "$here/apps" 2>/dev/null; exit 0 ;;
  *) exit 2 ;;
esac
IFS=,; line=
for field in ${1#--query-gpu=}; do
  [ -e "$here/$field" ] || { echo "Field \\"$field\\" is not a valid field to query."; exit 2; }
  line="$line${line:+, }$(cat "$here/$field")"
done
echo "$line"
"""

# The options of ours that ssh takes a value for are skipped; a file named after the target makes it fail.
_SSH = """\
#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
down=$(dirname "$0")/down/$1
if [ -e "$down" ]; then cat "$down" >&2; exit 255; fi
shift
exec sh -c "$*"
"""


def write_program(folder: Path, name: str, text: str) -> Path:
    """Write an executable. Renamed into place, so that nobody runs half of it."""
    part = folder / f".{name}.part"
    part.write_text(text)
    part.chmod(part.stat().st_mode | stat.S_IXUSR)
    return part.replace(folder / name)


def write_nvidia_smi(folder: Path, answers: Mapping[str, str] = GB10, *, apps: str = "") -> None:
    """Write nvidia-smi and what it answers; call it again to change the answers."""
    gpu = folder / "gpu"
    gpu.mkdir(exist_ok=True)
    for old in gpu.iterdir():
        if old.name not in answers:
            old.unlink()
    for name, value in {**answers, "apps": apps}.items():
        part = gpu / f".{name}.part"
        part.write_text(f"{value}\n" if value else "")
        part.replace(gpu / name)
    write_program(folder, "nvidia-smi", _NVIDIA_SMI)


def write_ssh(folder: Path) -> None:
    """Write ssh: every target is this machine."""
    (folder / "down").mkdir(exist_ok=True)
    write_program(folder, "ssh", _SSH)


def take_down(folder: Path, target: str, said: str = "ssh: connect to host: No route to host") -> None:
    """Let ssh to ``target`` fail."""
    (folder / "down" / target).write_text(f"{said}\n")


def bring_up(folder: Path, target: str) -> None:
    """Let ssh to ``target`` work again."""
    (folder / "down" / target).unlink(missing_ok=True)
