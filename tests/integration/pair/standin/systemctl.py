"""A stand-in for systemctl: states of units from a file that tests write, unit files from /etc/systemd/system."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.integration.pair.standin import places
from tests.integration.pair.standin.arguments import UsageError, parse

_UNIT_FILES = Path("/etc/systemd/system")
_INACTIVE = 3
_VALUED = "-p --property -t --type --state -n --lines -o --output"
_SWITCHES = "-q --quiet --all -a --plain --no-legend --no-pager --user --system --value --full -l --failed --now"


def main(words: list[str]) -> int:
    """Answer one call, and return the exit code."""
    try:
        given = parse(words, valued=_VALUED, switches=_SWITCHES)
    except UsageError as problem:
        print(problem, file=sys.stderr)
        return 1
    command, names = (given.words[0], given.words[1:]) if given.words else ("list-units", [])
    states = _states()
    if command == "is-active":
        return _said(
            [states.get(_full(name), "inactive") for name in names], "active", quiet=given.has("-q", "--quiet")
        )
    if command == "is-enabled":
        return _said(["enabled" if (_UNIT_FILES / _full(name)).exists() else "disabled" for name in names], "enabled")
    if command == "list-units":
        print("".join(f"{name} loaded {state} running {name}\n" for name, state in sorted(states.items())), end="")
        return 0
    if command == "list-unit-files":
        print("".join(f"{path.name} enabled enabled\n" for path in sorted(_UNIT_FILES.glob("*.*"))), end="")
        return 0
    if command == "cat":
        print("".join((_UNIT_FILES / _full(name)).read_text() for name in names), end="")
        return 0
    if command == "is-system-running":
        print("running")
        return 0
    print(f"the stand-in does not know systemctl {command}", file=sys.stderr)
    return 1


def _states() -> dict[str, str]:
    path = places.FOLDER / places.UNITS
    states: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return states


def _full(name: str) -> str:
    return name if "." in name else f"{name}.service"


def _said(states: list[str], good: str, *, quiet: bool = False) -> int:
    if not quiet:
        print("\n".join(states))
    return 0 if states and all(state == good for state in states) else _INACTIVE
