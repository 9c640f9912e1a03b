"""A new image, engine, rig or workload begins a new series. What did it change against the old one? Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.records.nightly import Night
from harness.stats.counting import counted
from harness.stats.gate import BASELINE_NIGHTS, LEAST_NIGHTS
from harness.stats.night import HEADLINE

_LEAST_DEGREES = 5.0  # temperatures that lie closer explain nothing
_DEGREES = " °C"
_CONFIGURATION, _WORKLOAD = "configuration", "workload"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSeries:
    """A series that has just begun, against the one before it. No verdict: one night may be a slow boot."""

    last_at: str  # the last night of the old one
    nights: int  # of the old one that are compared
    log_ratios: dict[str, float]  # by headline figure; higher is better
    differences: tuple[str, ...]
    same_work: bool  # False: other prompts or cells, so that the figures are not of the same thing


def new_series(night: Night, history: Sequence[Night]) -> NewSeries | None:
    """Return what began with a night; None where its series has enough nights already, or there was none before.

    Args:
        night: tonight; one that counts.
        history: of the whole sweep, oldest first.
    """
    own = [one for one in history if one.key == night.key]
    if len(counted(own)) >= LEAST_NIGHTS:
        return None
    alike = [one for one in history if one.identity.get(_CONFIGURATION) == night.identity.get(_CONFIGURATION)]
    first_at = own[0].at if own else night.at
    keys = [one.key for one in alike if one.key != night.key and one.is_valid and one.at < first_at]
    if not keys:
        return None
    old = counted([one for one in alike if one.key == keys[-1] and one.at < first_at])[-BASELINE_NIGHTS:]
    values = {name: [value for one in old if (value := one.value(name)) is not None] for name in HEADLINE}
    tonight = {name: night.value(name) for name in HEADLINE}
    return NewSeries(
        last_at=old[-1].at,
        nights=len(old),
        log_ratios={
            name: value - median(values[name]) for name, value in tonight.items() if value is not None and values[name]
        },
        differences=(*differences(old[-1].identity, night.identity), *differences(old[-1].facts, night.facts)),
        same_work=old[-1].identity.get(_WORKLOAD) == night.identity.get(_WORKLOAD),
    )


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return the facts that two nights differ in; a temperature only where it moved by more than 5 degrees."""
    names = dict.fromkeys((*before, *after))
    pairs = [(name, before.get(name, "unknown"), after.get(name, "unknown")) for name in names]
    return tuple(f"{name}: {one} → {two}" for name, one, two in pairs if one != two and not _near(one, two))


def _near(one: str, two: str) -> bool:
    if not (one.endswith(_DEGREES) and two.endswith(_DEGREES)):
        return False
    try:
        return abs(float(one.removesuffix(_DEGREES)) - float(two.removesuffix(_DEGREES))) <= _LEAST_DEGREES
    except ValueError:
        return False
