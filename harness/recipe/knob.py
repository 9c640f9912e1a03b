"""One setting of an engine: how it is spelled, what it may be, how it reaches the engine. Pure."""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import Field

from harness.recipe.matcher import Conditions, same_value
from harness.records.cell import KnobValue
from harness.units import parse_ratio, parse_tokens
from harness.yaml_model import FileModel

KnobType = Literal["int", "float", "bool", "choice", "string", "list"]
_SECRET_FLAG = re.compile(r"--?[a-z-]*(api[-_]?keys?|[-_]token|secret|password)$", re.IGNORECASE)
_WANTED = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "text"}


class Reach(FileModel):
    """How a value gets to the engine. A knob without one of these is used in templates only."""

    flag: str | None = Field(default=None, description="Command-line flag; the value follows. A true bool is the flag.")
    flag_off: str | None = Field(default=None, description="The flag that says false, for example --no-x.")
    argv: tuple[str, ...] = Field(default=(), description="Words added to the command line, with {value}.")
    environment: str | None = Field(default=None, description="Environment variable.")
    variables: dict[str, str] = Field(
        default={},
        description="Several environment variables, by name: templates with {value}, and with {repository}, {revision} "
        "and {model} of a value that is written repository@revision.",
    )
    speculative: str | None = Field(default=None, description="Field of the speculative config.")


class Knob(FileModel):
    """A knob as a recipe declares it."""

    help: str = Field(description="What it does, in a line.")
    type: KnobType = Field(description="list: words of a command line, as a list or as one text.")
    scope: Literal["launch", "load"] = Field(default="launch", description="launch: a change needs a restart.")
    spelled: tuple[str, ...] = Field(default=(), description="The engine's own spellings, accepted in a sweep too.")
    deprecated: dict[str, str] = Field(default={}, description="Spellings that work but warn: name to warning.")
    values: tuple[bool | int | float | str, ...] = Field(default=(), description="The allowed values; empty: any.")
    pattern: str | None = Field(default=None, description="Regular expression that the whole of a text must fit.")
    at_least: float | None = Field(default=None, description="Smallest allowed value.")
    at_most: float | None = Field(default=None, description="Largest allowed value.")
    default: bool | int | float | str | tuple[str, ...] | None = Field(
        default=None, description="The value where the sweep names none. May use {data_dir} and the like."
    )
    names: dict[str, str] = Field(default={}, description="Short names for values: name to what the engine gets.")
    sets: Reach | None = Field(default=None, description="How the value reaches the engine.")
    inert_when: Conditions = Field(
        default=(), description="Where any of these holds the knob does nothing, and is dropped."
    )
    images: tuple[str, ...] = Field(default=(), description="Patterns of the images that honour it; empty: all.")

    @property
    def default_value(self) -> KnobValue | None:
        """The default in the form of a knob value: a list as shell words."""
        return shlex.join(self.default) if isinstance(self.default, tuple) else self.default

    def read(self, raw: Any) -> KnobValue:
        """Return a value as written in a sweep in its one form. Raises ValueError that says what is allowed."""
        if isinstance(raw, str) and raw in self.names:
            return raw
        value = self._of_type(raw)
        for name, meaning in self.names.items():
            if value in (meaning, meaning.partition("@sha256:")[0]):  # an image may be named without its digest
                return name
        self._require_allowed(value)
        return value

    def honoured_by(self, image: str) -> bool:
        """Whether an image of this name honours the knob."""
        return honoured_by(self.images, image)

    def _of_type(self, raw: Any) -> KnobValue:
        if self.type == "list":
            return _words(raw)
        if self.type == "choice":
            return _plain(raw)
        read = {"int": _whole, "float": _number, "bool": _truth, "string": _text}[self.type]
        value = read(raw)
        if value is None:
            raise ValueError(f"expected {_WANTED[self.type]}, not {shown(raw)}")
        return value

    def _require_allowed(self, value: KnobValue) -> None:
        if self.values and not any(same_value(value, allowed) for allowed in self.values):
            allowed = ", ".join(shown(each) for each in (*self.values, *self.names))
            raise ValueError(f"{shown(value)} is not allowed (allowed: {allowed})")
        if isinstance(value, bool | str):
            self._require_fitting(value)
            return
        if self.at_least is not None and value < self.at_least:
            raise ValueError(f"{shown(value)} is too small (at least {self.at_least:g})")
        if self.at_most is not None and value > self.at_most:
            raise ValueError(f"{shown(value)} is too large (at most {self.at_most:g})")

    def _require_fitting(self, value: KnobValue) -> None:
        if self.pattern is not None and isinstance(value, str) and not re.fullmatch(self.pattern, value):
            names = f", or one of {', '.join(self.names)}" if self.names else ""
            raise ValueError(f"{shown(value)} does not have the form of this knob ({self.help}{names})")


def honoured_by(patterns: tuple[str, ...], image: str) -> bool:
    """Whether one of the patterns fits the image's name; no pattern fits all."""
    return not patterns or any(fnmatchcase(image, pattern) for pattern in patterns)


def shown(raw: Any) -> str:
    """Return a value as it would stand in a sweep."""
    if raw is None:
        return "nothing"
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return f'"{raw}"' if isinstance(raw, str) else str(raw)


def _whole(raw: Any) -> int | None:
    if isinstance(raw, str):
        try:
            return parse_tokens(raw) if raw[-1:] in ("K", "M") else None
        except ValueError:
            return None
    return raw if isinstance(raw, int) and not isinstance(raw, bool) else None


def _number(raw: Any) -> float | None:
    if isinstance(raw, str):
        try:
            return parse_ratio(raw) if raw.endswith("%") else None
        except ValueError:
            return None
    return float(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else None


def _truth(raw: Any) -> bool | None:
    return raw if isinstance(raw, bool) else None


def _text(raw: Any) -> str | None:
    return raw if isinstance(raw, str) else None


def _plain(raw: Any) -> KnobValue:
    if isinstance(raw, bool | int | float | str):
        return raw
    raise ValueError(f"expected one value, not {shown(raw)}")


def _words(raw: Any) -> str:
    if isinstance(raw, str):
        try:
            words = shlex.split(raw)
        except ValueError as problem:
            raise ValueError(f"not the words of a command line: {problem}") from problem
        return shlex.join(_without_secrets(words))
    if isinstance(raw, list) and not any(isinstance(word, list | dict | bool) or word is None for word in raw):
        return shlex.join(_without_secrets([str(word) for word in raw]))
    raise ValueError(f"expected the words of a command line, not {shown(raw)}")


def _without_secrets(words: list[str]) -> list[str]:
    for word in words:
        flag = word.partition("=")[0]
        if _SECRET_FLAG.match(flag):
            raise ValueError(f"{flag} has no place in a sweep, which records quote: export the key instead")
    return words
