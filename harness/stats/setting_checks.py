"""Doubts about how an engine was set up: slow boots, missing graphs, settings that it ignores, a small cache. Pure."""

from __future__ import annotations

from collections.abc import Callable

from harness.records.doubt import Doubt
from harness.stats import remedies
from harness.stats.case import Case
from harness.stats.kinds import doubt
from harness.units import format_change

_MAX_NUM_SEQS = "max_num_seqs"


def _slow_boot(case: Case) -> Doubt | None:
    launch = case.launch
    if launch is None or launch.outcome == "slow_canary" or not launch.canary_slow or launch.canary_ratio is None:
        return None
    evidence = f"the canary of this boot is {format_change(launch.canary_ratio)} against {launch.canary_against}"
    remedy = "Look for heat, power limits or other load on the host; add launches, so that one slow boot weighs less."
    return doubt("slow_boot", evidence, remedy)


def _graphs_truncated(case: Case) -> Doubt | None:
    """Only where the boot log names sizes: an engine that runs without graphs names none."""
    launch = case.launch
    sizes = launch.boot.capture_sizes if launch and launch.boot else None
    live = launch.live.num_speculative_tokens if launch and launch.live else None
    k = case.k if case.k is not None else live
    if not sizes or k is None:
        return None
    limit = case.trial.cell.configuration.knobs.get(_MAX_NUM_SEQS)
    streams = case.trial.cell.load.concurrency
    streams = min(streams, limit) if isinstance(limit, int) else streams
    widest = streams * (k + 1)
    if widest <= max(sizes):
        return None
    evidence = f"a step of {streams} streams has {widest} tokens, and graphs were captured for up to {max(sizes)}"
    remedy = f"Capture graphs for {widest} tokens or more (cudagraph_capture_size), or compare at fewer streams."
    return doubt("graphs_truncated", evidence, remedy)


def _setting_ignored(case: Case) -> Doubt | None:
    launch = case.launch
    if launch is None or launch.boot is None:
        return None
    ignored = sorted(set(launch.boot.unknown_environment) & set(launch.environment))
    if not ignored:
        return None
    evidence = f"the engine says that it does not know {', '.join(ignored)}"
    return doubt("setting_ignored", evidence, "Draw no verdict on this setting: choose an image that reads it.")


def _preempted(case: Case) -> Doubt | None:
    count = case.trial.counters.preemptions
    if not count or case.trial.counters.restarted:
        return None
    evidence = f"{count} preemptions for want of KV cache"
    return doubt("preempted", evidence, remedies.against_preemption(case))


SETTING_CHECKS: tuple[Callable[[Case], Doubt | None], ...] = (
    _slow_boot,
    _graphs_truncated,
    _setting_ignored,
    _preempted,
)
