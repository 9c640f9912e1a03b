"""What the nodes were, in words: drivers, firmware and kernels, and what they said before each launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from harness.records.host import NodeFacts
from harness.report.models import Fact
from harness.report.reading import Reading
from harness.units import format_bytes, format_celsius, format_mhz, format_seconds, format_watts

_NOT_SAID = {
    "driver_version": "driver",
    "firmware_version": "firmware",
    "temperature_c": "temperature",
    "power_w": "power",
    "power_limit_w": "power limit",
    "sm_clock_mhz": "SM clock",
    "throttle_reasons": "throttle reasons",
    "memory_available_bytes": "available memory",
    "images": "images",
}


def node_facts(reading: Reading) -> tuple[Fact, ...]:
    """Return lines about each node, in the order in which launches name them; none where nobody asked."""
    readings = [facts for launch in reading.facts.launches for facts in launch.nodes]
    nodes = dict.fromkeys(facts.node for facts in readings)
    return tuple(fact for node in nodes for fact in _of_node(node, [one for one in readings if one.node == node]))


def _of_node(node: str, readings: Sequence[NodeFacts]) -> Iterator[Fact]:
    gpu = _joined(
        _changes(readings, lambda facts: facts.gpu_name),
        _named("driver", _changes(readings, lambda facts: facts.driver_version)),
        _named("VBIOS", _changes(readings, lambda facts: facts.vbios_version)),
        _named("power limit", _changes(readings, lambda facts: _or_none(format_watts, facts.power_limit_w))),
    )
    system = _joined(
        _named("firmware", _changes(readings, lambda facts: facts.firmware_version)),
        _named("kernel", _changes(readings, lambda facts: facts.kernel)),
        _named("up for", _or_none(format_seconds, readings[0].uptime_s)),
    )
    before = _joined(
        _range([facts.temperature_c for facts in readings], format_celsius),
        _range([facts.power_w for facts in readings], format_watts),
        _range([facts.sm_clock_mhz for facts in readings], format_mhz),
        _named("memory available", _range([facts.memory_available_bytes for facts in readings], format_bytes)),
        _swap(readings),
    )
    images = sorted({f"{name} {image_id}" for facts in readings for name, image_id in facts.images.items()})
    yield Fact(name=f"{node}, GPU", value=gpu)
    yield Fact(name=f"{node}, system", value=system, private=True)
    yield Fact(name=f"{node}, before launches", value=before)
    yield Fact(name=f"{node}, images", value="; ".join(images), private=True, code=True)
    # Reasons may quote ssh, which names the host.
    yield Fact(name=f"{node}, not known", value=_missing(readings), private=True)


def _swap(readings: Sequence[NodeFacts]) -> str | None:
    most = max((facts.swap_used_bytes for facts in readings if facts.swap_used_bytes is not None), default=None)
    if most is None:
        return None
    return f"up to {format_bytes(most)} of swap used" if most else "no swap used"


def _changes(readings: Sequence[NodeFacts], read: Callable[[NodeFacts], str | None]) -> str | None:
    """The value; where it was another one later, all of them in order."""
    return ", then ".join(dict.fromkeys(value for facts in readings if (value := read(facts)))) or None


def _range(values: Sequence[float | None], show: Callable[[float], str]) -> str | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, high = show(min(known)), show(max(known))
    return low if low == high else f"{low} – {high}"


def _named(name: str, value: str | None) -> str | None:
    return None if value is None else f"{name} {value}"


def _joined(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _or_none(show: Callable[[float], str], value: float | None) -> str | None:
    return None if value is None else show(value)


def _missing(readings: Sequence[NodeFacts]) -> str:
    """What no reading has, by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, label in _NOT_SAID.items():
        if all(name in facts.null_reasons for facts in readings):
            by_reason.setdefault(readings[0].null_reasons[name], []).append(label)
    return "; ".join(f"{', '.join(labels)}: {reason}" for reason, labels in by_reason.items())
