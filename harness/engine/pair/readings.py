"""What a node prints about itself, and what it means. Pure.

A reading is sections that begin with a line ``harness:NAME`` and end with ``harness:end``. nvidia-smi refuses a whole
query because of one field that its driver does not know, so the script then asks field by field.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.records.host import NodeFacts, NodeSample

MARK: Final = "harness:"
END: Final = f"{MARK}end"

# $1 the fields, comma separated. Leaves those that the driver takes in $accepted, lines about the others in $refused.
_ACCEPT: Final = """
LC_ALL=C; export LC_ALL
query() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>&1; }
accepted= refused=
refuse() { refused="${refused}harness:refused $1
"; }
if ! command -v nvidia-smi >/dev/null 2>&1; then refuse '* there is no nvidia-smi'
elif query "$1" >/dev/null; then accepted=$1
else
  IFS=,; set -f
  for field in $1; do
    if said=$(query "$field"); then accepted=${accepted:+$accepted,}$field
    else refuse "$field $(printf %s "$said" | head -n 1)"; fi
  done
  unset IFS; set +f
fi
"""
FACTS: Final = f"""{_ACCEPT}
printf '%sharness:gpu %s\\n' "$refused" "$accepted"
[ -z "$accepted" ] || query "$accepted"
echo harness:meminfo; cat /proc/meminfo
echo harness:uptime; cat /proc/uptime
echo harness:kernel; uname -r
echo harness:firmware; cat /sys/class/dmi/id/bios_version 2>/dev/null
echo {END}
"""
# $1 the fields, $2 seconds between readings, $3 how many. A reading is one write; when nobody listens it ends.
SAMPLES: Final = f"""{_ACCEPT}
left=$3
while [ "$left" -gt 0 ]; do
  gpu=; [ -z "$accepted" ] || gpu=$(query "$accepted")
  memory=$(grep '^MemAvailable:' /proc/meminfo)
  printf '%sharness:gpu %s\\n%s\\nharness:meminfo\\n%s\\n{END}\\n' "$refused" "$accepted" "$gpu" "$memory" || exit 0
  left=$((left - 1)); sleep "$2"
done
"""

# Bits of the mask that nvidia-smi prints, by NVML's names.
_REASONS: Final = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"not a number: {text}")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class _GpuField:
    queries: tuple[str, ...]  # what nvidia-smi may call it, newest name first
    read: Callable[[str], Any] = str


_SAMPLED: Final = {
    "sm_clock_mhz": _GpuField(queries=("clocks.sm",), read=_finite),
    "temperature_c": _GpuField(queries=("temperature.gpu",), read=_finite),
    "power_w": _GpuField(queries=("power.draw",), read=_finite),
    "power_state": _GpuField(queries=("pstate",)),
    "throttle_reasons": _GpuField(
        queries=("clocks_event_reasons.active", "clocks_throttle_reasons.active"), read=lambda text: reasons_of(text)
    ),
}
_ASKED: Final = {
    "gpu_name": _GpuField(queries=("name",)),
    "driver_version": _GpuField(queries=("driver_version",)),
    "vbios_version": _GpuField(queries=("vbios_version",)),
    **_SAMPLED,
    "max_sm_clock_mhz": _GpuField(queries=("clocks.max.sm",), read=_finite),
    "memory_clock_mhz": _GpuField(queries=("clocks.mem",), read=_finite),
    "power_limit_w": _GpuField(queries=("power.limit", "enforced.power.limit"), read=_finite),
}
_NOT_REPORTED: Final = frozenset(
    {"n/a", "not supported", "not available", "unknown error", "insufficient permissions", "gpu is lost", ""}
)


def _queries(fields: Mapping[str, _GpuField]) -> str:
    return ",".join(query for field in fields.values() for query in field.queries)


FACT_FIELDS: Final = _queries(_ASKED)
SAMPLE_FIELDS: Final = _queries(_SAMPLED)


def facts_of(text: str, *, node: str, at: str) -> NodeFacts:
    """Return the facts in what the script FACTS printed. What is missing is None, with a reason."""
    sections = _sections(text)
    gpu = _gpu(sections, _ASKED)
    memory = _memory(sections)
    values: dict[str, Any] = {
        **gpu.values,
        "gpus": gpu.count,
        "kernel": _first(sections, "kernel"),
        "firmware_version": _first(sections, "firmware"),
        "uptime_s": _number(_first(sections, "uptime")),
        "memory_total_bytes": memory.get("MemTotal"),
        "memory_available_bytes": memory.get("MemAvailable"),
        "swap_used_bytes": _swap_used(memory),
    }
    reasons = {name: gpu.reasons.get(name, "the node does not say") for name, value in values.items() if value is None}
    return NodeFacts(node=node, at=at, null_reasons=reasons, **values)


def sample_of(text: str, *, node: str, at: str) -> NodeSample:
    """Return the sample in one reading of the script SAMPLES."""
    sections = _sections(text)
    gpu = _gpu(sections, _SAMPLED)
    values = {**gpu.values, "memory_available_bytes": _memory(sections).get("MemAvailable")}
    reasons = {name: gpu.reasons.get(name, "the node does not say") for name, value in values.items() if value is None}
    return NodeSample(node=node, at=at, null_reasons=reasons, **values)


def complete_readings(text: str) -> tuple[list[str], str]:
    """Return the readings that have ended, and what follows the last of them."""
    *ended, rest = text.split(f"{END}\n")
    return ended, rest


def reasons_of(mask: str) -> tuple[str, ...]:
    """Return the names of the bits in a mask such as "0x0000000000000004". Raises ValueError if it is none."""
    bits = int(mask, 16)
    known = tuple(name for bit, name in _REASONS.items() if bits & bit)
    others = bits & ~sum(_REASONS)
    return (*known, f"unknown_{others:#x}") if others else known


def bytes_of(meminfo: str) -> dict[str, int]:
    """Return /proc/meminfo in bytes, by name. Lines that are something else are passed over."""
    found = {}
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isascii() and words[0].isdigit():
            found[name.strip()] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gpu:
    values: dict[str, Any]
    reasons: dict[str, str]
    count: int | None


def _gpu(sections: list[tuple[str, str]], fields: Mapping[str, _GpuField]) -> _Gpu:
    refused = dict(_refusals(sections))
    asked = next((name.partition(" ")[2] for name, _ in sections if name.startswith("gpu ")), "")
    body = next((body for name, body in sections if name.startswith("gpu ")), "")
    queries = asked.split(",") if asked else []
    lines = csv.reader(body.splitlines(), skipinitialspace=True)
    rows = [row for row in lines if queries and len(row) == len(queries)]
    if queries and not rows:
        refused["*"] = " ".join(body.split()) or "nvidia-smi says nothing"
    answers = dict(zip(queries, (cell.strip() for cell in rows[0]), strict=True)) if rows else {}
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name, field in fields.items():
        values[name], reason = _value(field, answers, refused)
        if reason is not None:
            reasons[name] = reason
    if not rows:
        reasons["gpus"] = refused.get("*", "nvidia-smi answered no query")
    return _Gpu(values=values, reasons=reasons, count=len(rows) or None)


def _value(field: _GpuField, answers: Mapping[str, str], refused: Mapping[str, str]) -> tuple[Any, str | None]:
    """The first name that brings a value; else the reason of the first name."""
    reason = None
    for query in field.queries:
        if query not in answers:
            reason = reason or refused.get(query) or refused.get("*", "nvidia-smi was not asked")
            continue
        plain = answers[query].strip("[]").strip()
        if plain.lower() in _NOT_REPORTED:
            reason = reason or f"nvidia-smi says {answers[query] or 'nothing'}"
            continue
        try:
            return field.read(plain), None
        except ValueError:
            reason = reason or f"nvidia-smi says {answers[query]!r}"
    return None, reason


def _refusals(sections: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, _ in sections:
        word, _, rest = name.partition(" ")
        if word == "refused":
            query, _, said = rest.partition(" ")
            yield query, said or "nvidia-smi refuses this query"


def _sections(text: str) -> list[tuple[str, str]]:
    """Name and body of each section, in order."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(MARK):
            found.append((line.removeprefix(MARK), []))
        elif found:
            found[-1][1].append(line)
    return [(name, "\n".join(lines)) for name, lines in found]


def _first(sections: list[tuple[str, str]], name: str) -> str | None:
    body = next((body for each, body in sections if each == name), "")
    return body.strip().partition("\n")[0].strip() or None


def _memory(sections: list[tuple[str, str]]) -> dict[str, int]:
    return bytes_of(next((body for name, body in sections if name == "meminfo"), ""))


def _swap_used(memory: Mapping[str, int]) -> int | None:
    total, free = memory.get("SwapTotal"), memory.get("SwapFree")
    return None if total is None or free is None else total - free


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else _finite(text.split()[0])
    except ValueError:
        return None
