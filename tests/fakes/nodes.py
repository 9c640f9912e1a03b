"""Two nodes as records: healthy unless said."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from harness.records.host import NodeFacts, NodeSample
from harness.records.launch import LaunchRecord
from harness.records.trial import TrialRecord


def sampled(launch: LaunchRecord, trials: list[TrialRecord], *, hot: bool) -> tuple[LaunchRecord, list[TrialRecord]]:
    """Return the same on a pair of nodes: trials of 20 s one after the other, a sample of each node every 5 s."""
    begin = datetime.fromisoformat(launch.started_at) + timedelta(seconds=launch.ready_s or 0)

    def at(seconds: float) -> str:
        return (begin + timedelta(seconds=seconds)).isoformat(timespec="seconds")

    timed = [replace(trial, started_at=at(20 * index), took_s=20.0) for index, trial in enumerate(trials)]
    samples = [
        node_sample(node, at(second), hot=hot and node == "worker" and second >= 10)
        for second in range(0, 20 * len(trials), 5)
        for node in ("head", "worker")
    ]
    if hot:
        samples[8] = NodeSample(node="head", at=samples[8].at, gap="ssh to spark-a failed: Connection refused")
    nodes = (node_facts("head", launch.started_at), node_facts("worker", launch.started_at))
    lasted_s = (launch.ready_s or 0) + 20.0 * len(trials) + 5
    return replace(launch, nodes=nodes, samples=tuple(samples), total_s=lasted_s), timed


def node_facts(node: str, at: str, **changes: Any) -> NodeFacts:
    """A healthy node before a launch."""
    base = NodeFacts(
        node=node,
        at=at,
        gpu_name="NVIDIA GB10",
        gpus=1,
        driver_version="580.95.05",
        vbios_version="9A.0B.14.00.09",
        firmware_version="5.36_0ACUM018",
        kernel="6.11.0-1016-nvidia",
        uptime_s=93_600.0,
        sm_clock_mhz=208.0,
        max_sm_clock_mhz=3003.0,
        temperature_c=41.0,
        power_w=4.7,
        power_state="P8",
        throttle_reasons=("gpu_idle",),
        memory_total_bytes=127_535_208 * 1024,
        memory_available_bytes=118_000_000 * 1024,
        swap_used_bytes=0,
        images={"registry.example/engine:0.1.1": "sha256:0123456789ab"},
        null_reasons={
            "memory_clock_mhz": "nvidia-smi says [N/A]",
            "power_limit_w": "nvidia-smi says [N/A]",
        },
    )
    return replace(base, **changes)


def node_sample(node: str, at: str, *, hot: bool = False, **changes: Any) -> NodeSample:
    """A busy node."""
    base = NodeSample(
        node=node,
        at=at,
        sm_clock_mhz=1410.0 if hot else 2411.0,
        temperature_c=93.0 if hot else 66.0,
        power_w=31.0 if hot else 42.5,
        power_state="P0",
        throttle_reasons=("sw_thermal_slowdown",) if hot else (),
        memory_available_bytes=22_000_000 * 1024,
    )
    return replace(base, **changes)
