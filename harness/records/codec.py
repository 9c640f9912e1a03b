"""Records to JSON and back. NaN is refused here, so that a missing value must be None with a reason."""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

Record = TypeVar("Record")


def to_json(record: object) -> str:
    """Return one line of JSON. Raises ValueError if a number is not finite."""
    # pydantic's own JSON writes NaN as null, which would read as "not measured".
    tree = _adapter(cast(Hashable, type(record))).dump_python(record, mode="json")
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def from_json(kind: type[Record], text: str) -> Record:
    """Return the record in ``text``. Raises ValueError (also as pydantic.ValidationError) if it is not one."""
    if any(word in text for word in ("NaN", "Infinity")):  # pydantic reads them as numbers
        json.loads(text, parse_constant=_refuse)
    return cast(Record, _adapter(cast(Hashable, kind)).validate_json(text))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of a record")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
