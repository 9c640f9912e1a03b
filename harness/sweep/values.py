"""Values that people write with a unit: "10m", "3%", "06:30". Types for the models of sweep and site files."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from harness.units import parse_ratio, parse_seconds

_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _seconds(raw: Any) -> float:
    if isinstance(raw, str):
        try:
            seconds = parse_seconds(raw)
        except ValueError as problem:
            raise PydanticCustomError("duration", "{said}", {"said": str(problem)}) from None
    else:
        seconds = _number(raw, "a duration: write 30s, 10m, 12h or 1h30m")
    if seconds <= 0:
        raise PydanticCustomError("duration", "a duration must be more than nothing")
    return seconds


def _ratio(raw: Any) -> float:
    if isinstance(raw, str):
        try:
            ratio = parse_ratio(raw)
        except ValueError as problem:
            raise PydanticCustomError("share", "{said}", {"said": str(problem)}) from None
    else:
        ratio = _number(raw, "a share: write 3% or 0.03")
    if not 0 <= ratio < 1:
        raise PydanticCustomError("share", "a share lies between 0 and 1: write 3% or 0.03")
    return ratio


def _clock_time(raw: Any) -> str:
    if not isinstance(raw, str) or not _CLOCK.fullmatch(raw):
        raise PydanticCustomError("clock", 'expected a time of day: write "06:30"')
    return raw


def _number(raw: Any, wanted: str) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise PydanticCustomError("number", "expected {wanted}", {"wanted": wanted})
    return float(raw)


Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": ["string", "number"], "examples": ["30s", "10m", "1h30m"]}),
]
Ratio = Annotated[
    float,
    BeforeValidator(_ratio),
    WithJsonSchema({"type": ["string", "number"], "examples": ["3%", 0.03]}),
]
ClockTime = Annotated[
    str,
    BeforeValidator(_clock_time),
    WithJsonSchema({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$", "examples": ["06:30"]}),
]
