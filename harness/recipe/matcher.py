"""Conditions on knob values as data: 3, [3, 5], {multiple_of: 3, at_least: 6}, {not: 0}, {set: false}. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

from harness.records.cell import KnobValue
from harness.yaml_model import FileModel, shared

Scalar = bool | int | float | str


class Test(FileModel):
    """Every key that is given must hold. A knob without a value fails all but `set: false`."""

    __test__ = False  # its name is no test case

    multiple_of: int | None = Field(default=None, gt=0, description="The value is a whole multiple of this.")
    at_least: float | None = Field(default=None, description="The value is a number, this or more.")
    at_most: float | None = Field(default=None, description="The value is a number, this or less.")
    is_not: Any = Field(default=None, alias="not", description="A matcher that must not hold.")
    is_set: bool | None = Field(default=None, alias="set", description="Whether the knob has a value at all.")

    def holds(self, value: KnobValue | None) -> bool:
        """Whether ``value`` passes."""
        if value is None:
            return self.is_set is False
        return self.is_set is not False and self._number_holds(value) and not self._excluded(value)

    def _excluded(self, value: KnobValue) -> bool:
        return self.is_not is not None and matches(self.is_not, value)

    def _number_holds(self, value: KnobValue) -> bool:
        if self.multiple_of is None and self.at_least is None and self.at_most is None:
            return True
        if isinstance(value, bool | str):
            return False
        return (
            (self.multiple_of is None or value % self.multiple_of == 0)
            and (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
        )


def _one_or_many(raw: Any) -> Any:
    if isinstance(raw, dict):
        return (raw,)
    return tuple(raw) if isinstance(raw, list) else raw


def _read(raw: Any) -> Any:
    if isinstance(raw, list):
        return tuple(_read(item) for item in raw)
    if not isinstance(raw, dict):
        return raw
    if not raw:
        raise PydanticCustomError("matcher", "an empty matcher says nothing")
    try:
        test = Test.model_validate(raw)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = first["loc"][0] if first["loc"] else ""
        known = "multiple_of, at_least, at_most, not, set"
        raise PydanticCustomError("matcher", f'"{key}" does not fit a matcher ({known})') from None
    return test.model_copy(update={"is_not": _read(test.is_not)}) if test.is_not is not None else test


DEFINITIONS: dict[str, Any] = {
    "matcher": {
        "description": "A value, a list (any of them), or a test.",
        "anyOf": [
            {"type": ["string", "number", "boolean"]},
            {"type": "array", "items": {}},
            {
                "type": "object",
                "additionalProperties": False,
                "minProperties": 1,
                "properties": {
                    "multiple_of": {"type": "integer", "exclusiveMinimum": 0},
                    "at_least": {"type": "number"},
                    "at_most": {"type": "number"},
                    "not": {},
                    "set": {"type": "boolean"},
                },
            },
        ],
    }
}
_MATCHERS = {"type": "object", "additionalProperties": shared("matcher")}
Matcher = Annotated[Any, PlainValidator(_read), WithJsonSchema(shared("matcher"))]
Matchers = dict[str, Matcher]
Conditions = Annotated[
    tuple[Matchers, ...],
    BeforeValidator(_one_or_many),
    WithJsonSchema({"anyOf": [_MATCHERS, {"type": "array", "items": _MATCHERS}]}),
]


def matches(matcher: Any, value: KnobValue | None) -> bool:
    """Whether ``value`` (None: the knob has no value) satisfies a matcher that Matcher has read."""
    if isinstance(matcher, Test):
        return matcher.holds(value)
    if isinstance(matcher, tuple):
        return any(matches(item, value) for item in matcher)
    return same_value(matcher, value)


def all_match(matchers: Mapping[str, Any], values: Mapping[str, KnobValue]) -> bool:
    """Whether every named knob satisfies its matcher."""
    return all(matches(matcher, values.get(name)) for name, matcher in matchers.items())


def same_value(left: KnobValue | None, right: KnobValue | None) -> bool:
    """Equality in which true is not 1, as in the file."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)
