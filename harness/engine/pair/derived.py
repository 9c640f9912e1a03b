"""Compose files made from a checkout's own: without speculation, or with an override merged in. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from harness.errors import InputError

_BOOLEAN = "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):
    """Only true and false are booleans, as compose reads YAML: `restart: no` is a policy."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOLEAN]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOLEAN, re.compile(r"^(?:true|false)$"), list("tf"))


def without_speculation(text: str, *, service: str, flag: str, where: str) -> str:
    """Return the compose file with the speculative config taken out of the service's command.

    Raises:
        InputError: there is none to take out, so this file cannot give an arm without speculation.
    """
    document = _loaded(text, where)
    entry = document["services"].get(service)
    if not isinstance(entry, dict):
        raise InputError(f"it has no service {service}", where=where)
    command = entry.get("command")
    shorter = _without_flag(command, flag)
    if shorter == command:
        raise InputError(
            f"the command of {service} has no {flag}, so it cannot be taken out for num_speculative_tokens = 0",
            where=where,
            hint="Leave that configuration out, or use the checkout's own compose file.",
        )
    entry["command"] = shorter
    return _dumped(document)


def merged(base: str, override: str, *, where: str) -> str:
    """Return one file that means what compose makes of the two: maps merge, lists append, the rest is replaced.

    Raises:
        InputError: one of them is no compose file.
    """
    return _dumped(_merge(_loaded(base, where), _loaded(override, where)))


def _without_flag(command: Any, flag: str) -> Any:
    """One text for a shell, or words; in a list both occur."""
    if isinstance(command, str):
        value = r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\S+)"
        return re.sub(rf"\s{re.escape(flag)}(?:=|\s+){value}", "", command)
    if not isinstance(command, list):
        return command
    if flag in command:
        at = command.index(flag)
        return [*command[:at], *command[at + 2 :]]
    words = [word for word in command if not str(word).startswith(f"{flag}=")]
    return [_without_flag(word, flag) if isinstance(word, str) else word for word in words]


def _merge(base: Any, override: Any) -> Any:
    if isinstance(base, dict) and isinstance(override, Mapping):
        return {
            **base,
            **{name: _merge(base[name], value) if name in base else value for name, value in override.items()},
        }
    if isinstance(base, list) and isinstance(override, list):
        return [*base, *(item for item in override if item not in base)]
    return override


def _loaded(text: str, where: str) -> dict[str, Any]:
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise InputError(f"it is no YAML: {str(error).splitlines()[0]}", where=where) from error
    if not isinstance(document, dict) or not isinstance(document.get("services"), dict):
        raise InputError("it is no compose file: `services` is missing", where=where)
    return document


def _dumped(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=1_000_000, allow_unicode=True)
