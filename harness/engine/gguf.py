"""The head of a GGUF file: what a model says of itself, without reading its tensors."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

Scalar = bool | int | float | str
_MAGIC = b"GGUF"
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_MOST_KEYS = 100_000
_MOST_BYTES = 64 * 2**20  # of one string or array: a vocabulary has a few


class NotGgufError(ValueError):
    """The file is none, or was cut within its head."""


class CutGgufError(NotGgufError):
    """It ends within its head."""


def read_metadata(path: Path) -> dict[str, Scalar]:
    """Return the scalar values of a file's metadata by key; arrays are passed over.

    Raises:
        NotGgufError: it is no GGUF file of version 2 or 3, or ends within its head.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return read_head(file)


def read_head(file: BinaryIO) -> dict[str, Scalar]:
    """Return the same of a file that is open, or of its first bytes.

    Raises:
        NotGgufError: see read_metadata.
    """
    if file.read(4) != _MAGIC:
        raise NotGgufError("it does not begin as a GGUF file")
    version = _number(file, "<I")
    if version not in (2, 3):
        raise NotGgufError(f"it is GGUF of version {version}")
    _number(file, "<Q")  # tensors
    keys = int(_number(file, "<Q"))
    if keys > _MOST_KEYS:
        raise NotGgufError(f"it claims {keys} metadata keys")
    found: dict[str, Scalar] = {}
    for _ in range(keys):
        key = _text(file)
        value = _value(file, int(_number(file, "<I")))
        if value is not None:
            found[key] = value
    return found


def _value(file: BinaryIO, kind: int) -> Scalar | None:
    if kind == _STRING:
        return _text(file)
    if kind == _ARRAY:
        _skip_array(file)
        return None
    return _number(file, _format(kind))


def _skip_array(file: BinaryIO) -> None:
    kind, count = int(_number(file, "<I")), int(_number(file, "<Q"))
    if kind == _STRING:
        for _ in range(_within(count)):
            _text(file)
        return
    _bytes(file, count * struct.calcsize(_format(kind)))


def _format(kind: int) -> str:
    try:
        return _SCALARS[kind]
    except KeyError:
        raise NotGgufError(f"it has metadata of unknown type {kind}") from None


def _number(file: BinaryIO, form: str) -> bool | int | float:
    value: bool | int | float = struct.unpack(form, _bytes(file, struct.calcsize(form)))[0]
    return value


def _text(file: BinaryIO) -> str:
    return _bytes(file, int(_number(file, "<Q"))).decode("utf-8", errors="replace")


def _bytes(file: BinaryIO, count: int) -> bytes:
    data = file.read(_within(count))
    if len(data) < count:
        raise CutGgufError("it ends within its head: was its download cut?")
    return data


def _within(count: int) -> int:
    if count > _MOST_BYTES:
        raise NotGgufError("its head is damaged")
    return count
