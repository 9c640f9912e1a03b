"""Keep keys out of records, logs and messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

HIDDEN = "***"
# "tokens" in the plural are counted, "token" in the singular opens a door.
_SECRET_NAME = re.compile(r"(keys?|token|secrets?|password|passwd|credentials?)$", re.IGNORECASE)
_SECRET_FLAG = re.compile(r"^--?[a-z-]*(api[-_]?keys?|[-_]token|secret|password)$", re.IGNORECASE)
_SHORTEST = 6  # a shorter value would black out ordinary words


def redacted_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command line with the values of ``--api-key`` and its like hidden, in both spellings."""
    shown: list[str] = []
    hide_next = False
    for argument in argv:
        flag, equals, _ = argument.partition("=")
        if hide_next and not argument.startswith("--"):
            shown.append(HIDDEN)  # --api-key takes several: hide until the next flag
            continue
        hide_next = bool(_SECRET_FLAG.match(flag)) and not equals
        shown.append(f"{flag}={HIDDEN}" if equals and _SECRET_FLAG.match(flag) else argument)
    return tuple(shown)


def redacted_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the values of those that are named like a secret hidden."""
    return {name: HIDDEN if _SECRET_NAME.search(name) else value for name, value in sorted(environment.items())}


def secrets_in(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secret values themselves, for ``redacted_text``; kept in memory only."""
    shown = redacted_argv(argv)
    pairs = [(given, seen) for given, seen in zip(argv, shown, strict=True) if given != seen]
    hidden = [given if seen == HIDDEN else given.partition("=")[2] for given, seen in pairs]
    hidden += [value for name, value in environment.items() if _SECRET_NAME.search(name)]
    return tuple(value for value in hidden if len(value) >= _SHORTEST)


def redacted_text(text: str, secrets: Sequence[str]) -> str:
    """Return ``text`` without the secret values, and without anything after ``Bearer``."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return re.sub(r"(?i)(bearer\s+)\S+", rf"\1{HIDDEN}", text)
