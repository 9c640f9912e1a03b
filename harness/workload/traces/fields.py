"""Values of records that may be missing, null, or strings where a table held them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

MOST_TOKENS = 100_000_000  # more in one request is a mistake of whoever wrote it


def mapping(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object under ``key``, else an empty one."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def string(record: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first text under ``keys`` that is not empty."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def name(record: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first text or whole number under ``keys``, as a text: an identity."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value:
            return value
    return None


def number(value: Any) -> float | None:
    """Return a finite number, also one that is written as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def tokens(record: Mapping[str, Any], *keys: str) -> int | None:
    """Return the first count under ``keys`` that can be one."""
    for key in keys:
        found = number(record.get(key))
        if found is not None and 0 <= found <= MOST_TOKENS and found == int(found):
            return int(found)
    return None


def time_s(value: Any) -> float | None:
    """Return seconds since 1970 of a number of seconds, or of a date with a time, in UTC unless it says otherwise."""
    found = number(value)
    if found is not None:
        return found
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
