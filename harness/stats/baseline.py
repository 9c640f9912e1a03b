"""Nights that somebody accepts -> the baseline that later nights are held against. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import InputError
from harness.records.nightly import Baseline, Night
from harness.stats.counting import counted
from harness.stats.gate import LEAST_NIGHTS

BOOT_S, KV_CACHE_TOKENS, FAILED_LAUNCHES, CANARY_STEP_S = (
    "boot_s",
    "kv_cache_tokens",
    "failed_launches",
    "canary_step_s",
)
LAUNCH_FIGURES = (BOOT_S, KV_CACHE_TOKENS, FAILED_LAUNCHES, CANARY_STEP_S)


def baseline_of(nights: Sequence[Night], *, name: str, author: str, reason: str, accepted_at: str) -> Baseline:
    """Return the baseline of some nights. Those that do not count are left out of it (``counting.counted``).

    With fewer than ``LEAST_NIGHTS`` nights it says nothing of their scatter: it is kept, and only the history judges
    (``too_few``).

    Args:
        nights: of one key, in any order.
        name: how reports call it.
        author: who accepts it.
        reason: why this is normal.
        accepted_at: wall clock, ISO 8601 with zone.

    Raises:
        InputError: none of them is valid, or they are of more than one rig, engine, sweep or workload.
    """
    kept = counted(sorted(nights, key=lambda night: (night.at, night.run_id)))
    if not kept:
        raise InputError("no night is valid that could be a baseline", hint="Accept nights that are not doubtful.")
    keys = {(night.sweep, night.key) for night in kept}
    if len(keys) > 1:
        runs = {pair: next(one.run_id for one in kept if (one.sweep, one.key) == pair) for pair in sorted(keys)}
        what = (
            f"the nights are of {len(keys)} series: rig, engine, workload or sweep differ ({', '.join(runs.values())})"
        )
        raise InputError(what, hint="Accept nights since the last change of image, rig or workload only.")
    last = kept[-1]
    return Baseline(
        name=name,
        sweep=last.sweep,
        key=last.key,
        accepted_at=accepted_at,
        author=author,
        reason=reason,
        run_ids=tuple(night.run_id for night in kept),
        values={figure: _values(kept, figure) for figure in last.figures},
        cells=cells_of(kept),
        launch=launch_figures(kept),
        simulated=any(night.simulated for night in kept),
    )


def too_few(baseline: Baseline) -> str | None:
    """Return why a baseline cannot judge by itself; None where it can."""
    if len(baseline.run_ids) >= LEAST_NIGHTS:
        return None
    nights = "1 night" if len(baseline.run_ids) == 1 else f"{len(baseline.run_ids)} nights"
    return f"{baseline.name} holds {nights}, and their scatter is known from {LEAST_NIGHTS} on: only the history judges"


def cells_of(nights: Sequence[Night]) -> dict[str, dict[str, tuple[float, ...]]]:
    """Return the nightly values of every cell's figures, by load id and name; a night without one is passed over."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for night in nights:
        for load_id, values in night.cells.items():
            of = found.setdefault(load_id, {})
            for name, value in values.items():
                of[name] = (*of.get(name, ()), value)
    return found


def launch_figures(nights: Sequence[Night]) -> dict[str, tuple[float, ...]]:
    """Return the nightly values of what is beside the cells: boot, KV cache, failed launches, canary."""
    read: dict[str, list[float | int | None]] = {
        BOOT_S: [night.boot_s for night in nights],
        KV_CACHE_TOKENS: [night.kv_cache_tokens for night in nights],
        FAILED_LAUNCHES: [night.failed_launches for night in nights],
        CANARY_STEP_S: [night.canary_step_s for night in nights],
    }
    return {name: tuple(float(one) for one in values if one is not None) for name, values in read.items()}


def _values(nights: Sequence[Night], figure: str) -> tuple[float, ...]:
    return tuple(value for night in nights if (value := night.value(figure)) is not None)
