"""Data files of the simulator, found by their name."""

from __future__ import annotations

from pathlib import Path

from harness.errors import InputError
from harness.yaml_model import did_you_mean


def names_of(folder: Path) -> list[str]:
    """Return what a user can name: the YAML files of ``folder`` without their suffix, sorted."""
    return sorted(file.stem for file in folder.glob("*.yaml"))


def named_file(folder: Path, name: str, *, kind: str) -> Path:
    """Return the file called ``name``. Raises InputError, with what was probably meant."""
    names = names_of(folder)
    if name not in names:
        raise InputError(f'unknown {kind} "{name}" of the simulator', hint=did_you_mean(name, names))
    return folder / f"{name}.yaml"
