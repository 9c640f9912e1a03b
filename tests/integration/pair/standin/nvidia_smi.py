"""A stand-in for nvidia-smi on a host with one GB10: queries as CSV, values from a file that tests write."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.pair.standin import places
from tests.integration.pair.standin.store import Store

DEFAULTS: dict[str, Any] = {
    "index": 0,
    "name": "NVIDIA GB10",
    "uuid": "GPU-6f0d3b52-5f2c-4a0e-9d0f-000000000001",
    "driver_version": "580.95.05",
    "vbios_version": "9A.0B.20.00.01",
    "compute_cap": "12.1",
    "pstate": "P0",
    "pci.bus_id": "0000000F:01:00.0",
    "temperature.gpu": 47,
    "clocks.sm": 2418,
    "clocks.gr": 2418,
    "clocks.mem": "[N/A]",
    "clocks.max.sm": 3003,
    "power.draw": 38.5,
    "power.limit": "[N/A]",
    "enforced.power.limit": "[N/A]",
    "utilization.gpu": 0,
    "memory.total": "[N/A]",
    "memory.used": "[N/A]",
    "memory.free": "[N/A]",
    "persistence_mode": "Enabled",
    "clocks_throttle_reasons.active": "0x0000000000000000",
}
_SAME = {
    "clocks_event_reasons": "clocks_throttle_reasons",
    "clocks.current": "clocks",
    "power.draw.instant": "power.draw",
    "power.draw.average": "power.draw",
    "gpu_name": "name",
    "gpu_uuid": "uuid",
}
_UNITS = {"clocks": "MHz", "power": "W", "utilization": "%", "memory": "MiB"}
_OFF = "Not Active"
_DEVICES = Path("/sys/class/infiniband")


def main(words: list[str]) -> int:
    """Answer one call, and return the exit code."""
    given = dict(word.lstrip("-").partition("=")[::2] for word in words)
    form = given.get("format", "csv")
    for kind in ("query-gpu", "query-compute-apps"):
        if kind in given:
            fields = [each.strip() for each in given[kind].split(",")]
            rows = [_values()] if kind == "query-gpu" else _tenants()
            return _print_table(fields, rows, form)
    if "L" in given:
        print(f"GPU 0: {_values()['name']} (UUID: {_values()['uuid']})")
        return 0
    driver = _values()["driver_version"]
    print(f"NVIDIA-SMI {driver}    Driver Version: {driver}    CUDA Version: 13.0")
    return 0


def _values() -> dict[str, Any]:
    path = places.FOLDER / places.GPU
    changed: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return DEFAULTS | changed


def _tenants() -> list[dict[str, Any]]:
    """Who computes on the GPU: the ranks that run, and those that a test has put into the file."""
    store = Store()
    found: list[dict[str, Any]] = []
    with store.locked():
        for container_id in store.ids():
            state = store.state(container_id)
            if state["Status"] == "running":
                found.append({"pid": state["Pid"], "process_name": "VLLM::EngineCore", "used_memory": 101376})
    return [*found, *_values().get("tenants", [])]


def _print_table(fields: list[str], rows: list[dict[str, Any]], form: str) -> int:
    units = "nounits" not in form
    if "noheader" not in form:
        print(", ".join(f"{name} [{_unit(name)}]" if units and _unit(name) else name for name in fields))
    for row in rows:
        words = []
        for name in fields:
            value = _value(row, name)
            if value is None:
                print(f'Field "{name}" is not a valid field to query.', file=sys.stderr)
                return 2
            unit = _unit(name) if units and value != "[N/A]" else ""
            words.append(f"{value} {unit}".strip())
        print(", ".join(words))
    return 0


def _value(row: dict[str, Any], name: str) -> str | None:
    if name in row:
        return str(row[name])
    for long, short in _SAME.items():
        if name == long or name.startswith(f"{long}."):
            return _value(row, name.replace(long, short, 1))
    if name == "timestamp":
        return "2026/09/20 08:00:00.000"
    if name.startswith("clocks_throttle_reasons."):
        return _OFF
    return None


def _unit(name: str) -> str:
    if name in ("used_memory", "used_gpu_memory"):
        return "MiB"
    return _UNITS.get(name.partition(".")[0], "") if "reasons" not in name else ""


def print_infiniband_names() -> int:
    """Be ibdev2netdev."""
    for device in sorted(_DEVICES.iterdir()):
        port = device / "ports" / "1"
        interface = (port / "gid_attrs" / "ndevs" / "0").read_text().strip()
        state = "Up" if "ACTIVE" in (port / "state").read_text() else "Down"
        print(f"{device.name} port 1 ==> {interface} ({state})")
    return 0
