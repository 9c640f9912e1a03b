"""Doubts about the machines while a trial was measured: heat, power, and clocks that fell. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from harness.records.doubt import Doubt
from harness.records.host import NodeSample
from harness.stats.case import Case
from harness.stats.kinds import doubt
from harness.units import format_celsius, format_mhz

_STAMP_S = 1.0  # stamps are whole seconds
# A cap that is there all the time is what the machine is, and the same in every arm.
_MAY_BE_STEADY = ("sw_power_cap",)
_STEADY_RATIO = 0.9
_LEAST_LOW_SAMPLES = 2  # one alone may have been taken while clocks were rising


def _node_throttled(case: Case) -> Doubt | None:
    evidence = [
        f"{node}: {_reason_words(reasons, busy)}"
        for node, busy in _busy_by_node(case)
        if (reasons := _reasons(busy, steady=_steady(case, node)))
    ]
    if not evidence:
        return None
    remedy = "Cool that node or give it its own power supply, or lock its clocks (`nvidia-smi -lgc`); measure again."
    return doubt("node_throttled", "; ".join(evidence), remedy)


def _node_power_changed(case: Case) -> Doubt | None:
    evidence = [
        f"{node}: {change}"
        for node, busy in _busy_by_node(case)
        if (change := _state_change(busy) or _clock_change(busy, case.limits.busy_clock_ratio))
    ]
    if not evidence:
        return None
    remedy = "Check that node's power supply and cable, and `harness doctor` while a server runs; measure again."
    return doubt("node_power_changed", "; ".join(evidence), remedy)


HOST_CHECKS: tuple[Callable[[Case], Doubt | None], ...] = (_node_throttled, _node_power_changed)


def _busy_by_node(case: Case) -> Iterator[tuple[str, list[NodeSample]]]:
    """Samples of the trial's own time at which the GPU had work, node by node."""
    launch, took_s = case.launch, case.trial.took_s
    if launch is None or took_s is None or not launch.samples:
        return
    begin = datetime.fromisoformat(case.trial.started_at) - timedelta(seconds=_STAMP_S)
    end = begin + timedelta(seconds=took_s + 2 * _STAMP_S)
    inside = [each for each in launch.samples if each.is_busy and begin <= datetime.fromisoformat(each.at) <= end]
    for node in dict.fromkeys(sample.node for sample in inside):
        yield node, [sample for sample in inside if sample.node == node]


def _steady(case: Case, node: str) -> tuple[str, ...]:
    """Reasons that hold so often in this launch that they are no event."""
    samples = case.launch.samples if case.launch else ()
    busy = [sample for sample in samples if sample.node == node and sample.is_busy]
    return tuple(
        reason
        for reason in _MAY_BE_STEADY
        if sum(reason in sample.faults for sample in busy) >= _STEADY_RATIO * len(busy)
    )


def _reasons(busy: list[NodeSample], *, steady: tuple[str, ...]) -> list[str]:
    found = dict.fromkeys(reason for sample in busy for reason in sample.faults)
    return [reason for reason in found if reason not in steady]


def _reason_words(reasons: list[str], busy: list[NodeSample]) -> str:
    throttled = sum(any(reason in reasons for reason in sample.faults) for sample in busy)
    known = [sample.temperature_c for sample in busy if sample.temperature_c is not None]
    heat = f", up to {format_celsius(max(known))}" if known else ""
    return f"{', '.join(reasons)} in {throttled} of {len(busy)} samples{heat}"


def _state_change(busy: list[NodeSample]) -> str | None:
    states = list(dict.fromkeys(sample.power_state for sample in busy if sample.power_state is not None))
    return f"power states {', '.join(states)}" if len(states) > 1 else None


def _clock_change(busy: list[NodeSample], limit_ratio: float) -> str | None:
    clocks = [sample.sm_clock_mhz for sample in busy if sample.sm_clock_mhz is not None]
    highest = max(clocks, default=0.0)
    low = [clock for clock in clocks if clock < (1 - limit_ratio) * highest]
    if len(low) < _LEAST_LOW_SAMPLES:
        return None
    return f"sm clock down to {format_mhz(min(low))} from {format_mhz(highest)} while it was busy"
