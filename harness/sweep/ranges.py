"""`{from, to, step}` and `{from, to, factor}` -> values, both ends included. Pure."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from harness.recipe.knob import shown
from harness.units import parse_tokens

MOST_VALUES = 1000


def range_values(raw: dict[str, Any]) -> list[int | float]:
    """Return the values of a range. Raises ValueError that says what is wrong with it."""
    unknown = sorted(set(raw) - {"from", "to", "step", "factor"})
    if unknown:
        raise ValueError(f"a range knows from, to, step and factor, not {shown(unknown[0])}")
    if "from" not in raw or "to" not in raw:
        raise ValueError("a range needs both from and to")
    if ("step" in raw) == ("factor" in raw):
        raise ValueError("a range needs either step or factor")
    first, last = _number("from", raw["from"]), _number("to", raw["to"])
    if first > last:
        raise ValueError("a range goes upwards: from is above to")
    values = _steps(first, last, raw["step"]) if "step" in raw else _factors(first, last, raw["factor"])
    return [_plain(value) for value in values]


def _steps(first: Fraction, last: Fraction, raw: Any) -> list[Fraction]:
    step = _number("step", raw)
    if step <= 0:
        raise ValueError("step must be above 0")
    count = (last - first) // step + 1
    if count > MOST_VALUES:
        raise ValueError(f"{count} values are too many (at most {MOST_VALUES})")
    return [first + step * index for index in range(count)]


def _factors(first: Fraction, last: Fraction, raw: Any) -> list[Fraction]:
    factor = _number("factor", raw)
    if factor <= 1:
        raise ValueError("factor must be above 1")
    if first <= 0:
        raise ValueError("a range with a factor starts above 0")
    values = []
    value = first
    while value <= last:
        values.append(value)
        if len(values) > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES} values are too many")
        value *= factor
    return values


def _number(key: str, raw: Any) -> Fraction:
    """Decimal as written, so that 0.1 steps land on 0.3 and not beside it."""
    if isinstance(raw, str):
        return Fraction(parse_tokens(raw))
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise ValueError(f"{key}: expected a number, not {shown(raw)}")
    return Fraction(str(raw))


def _plain(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)
