"""The head of a GGUF file with metadata of a test's choice, and nothing behind it."""

from __future__ import annotations

import struct
from collections.abc import Mapping


def gguf(metadata: Mapping[str, bool | int | float | str]) -> bytes:
    """Return version 3 with these keys, and an array of strings and one of numbers besides."""
    entries = [_text(key) + _value(value) for key, value in metadata.items()]
    entries.append(_text("tokenizer.tokens") + struct.pack("<IIQ", 9, 8, 2) + _text("a") + _text("bc"))
    entries.append(_text("tokenizer.scores") + struct.pack("<IIQ", 9, 6, 3) + struct.pack("<fff", 1, 2, 3))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: bool | int | float | str) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<Id", 12, value)
    return struct.pack("<I", 8) + _text(value)
