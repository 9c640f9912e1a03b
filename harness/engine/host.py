"""Facts of the machine that runs the engine, and the identity under which its noise and canaries are kept."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import psutil

from harness.records.identity import content_id
from harness.records.manifest import HostFacts

_ACCELERATOR_QUERY = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
_ACCELERATOR_TIMEOUT_S = 10


def host_facts(recipe: str) -> HostFacts:
    """Return this machine's facts. The rig is the machine, its processor or accelerators, and the recipe."""
    processor = _processor()
    accelerators = _accelerators()
    return HostFacts(
        rig_id=content_id([_machine_id(), accelerators or processor, recipe]),
        processor=processor,
        cores=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        accelerators=accelerators,
        kernel=platform.release(),
        python=platform.python_version(),
    )


def _machine_id() -> str:
    """The id that systemd keeps; where there is none, the host's name. It is hashed, never stored."""
    for path in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        try:
            return path.read_text(encoding="ascii").strip() or platform.node()
        except (OSError, UnicodeDecodeError):
            continue
    return platform.node()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    # x86 says "model name"; Arm says only numbers, so the architecture has to do.
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    return ", ".join(sorted(names)) or platform.machine()


def _accelerators() -> tuple[str, ...]:
    try:
        answer = subprocess.run(
            _ACCELERATOR_QUERY, capture_output=True, text=True, timeout=_ACCELERATOR_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(line.strip() for line in answer.stdout.splitlines() if line.strip()) if answer.returncode == 0 else ()
