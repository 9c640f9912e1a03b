"""Options as docker's commands take them: long and short, with a value or without, several short ones in one word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


class UsageError(Exception):
    """The command line is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """A parsed command line."""

    options: dict[str, list[str]]
    words: list[str] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        """Whether one of the switches was given."""
        return any(self.options.get(name, ["false"])[-1] != "false" for name in names)

    def last(self, *names: str, default: str | None = None) -> str | None:
        """The value that was given last."""
        return next((self.options[name][-1] for name in names if name in self.options), default)

    def every(self, *names: str) -> list[str]:
        """All values that were given."""
        return [value for name in names for value in self.options.get(name, [])]


def parse(words: Sequence[str], *, valued: str = "", switches: str = "", mixed: bool = True) -> Arguments:
    """Split words into options and the rest.

    Args:
        words: after the command's name.
        valued: options that take a value, separated by spaces.
        switches: options that take none.
        mixed: options may stand behind words; else the first word ends them.

    Raises:
        UsageError: an option is not known, or its value is missing.
    """
    takes_value = {name: True for name in valued.split()} | {name: False for name in switches.split()}
    found: dict[str, list[str]] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--" or not word.startswith("-") or word == "-":
            rest += left if word == "--" else [word]
            if word == "--" or not mixed:
                rest += [] if word == "--" else left
                break
        elif word.startswith("--"):
            _long(word, left, takes_value, found)
        else:
            _short(word, left, takes_value, found)
    return Arguments(options=found, words=rest)


def _long(word: str, left: list[str], takes_value: dict[str, bool], found: dict[str, list[str]]) -> None:
    name, equals, value = word.partition("=")
    if name not in takes_value:
        raise UsageError(f"unknown flag: {name}")
    if not equals and takes_value[name]:
        value = _next(name, left)
    found.setdefault(name, []).append(value if equals or takes_value[name] else "true")


def _short(word: str, left: list[str], takes_value: dict[str, bool], found: dict[str, list[str]]) -> None:
    rest = word[1:]
    while rest:
        name, rest = f"-{rest[0]}", rest[1:]
        if name not in takes_value:
            raise UsageError(f"unknown shorthand flag: '{name[1:]}' in {word}")
        if takes_value[name]:
            value = rest.removeprefix("=") if rest else _next(name, left)
            found.setdefault(name, []).append(value)
            return
        found.setdefault(name, []).append("true")


def _next(name: str, left: list[str]) -> str:
    if not left:
        raise UsageError(f"flag needs an argument: {name}")
    return left.pop(0)
