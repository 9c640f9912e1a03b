"""The series of a regression run by name and unit, and their figures as they were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.records.metrics import METRICS
from harness.records.nightly import Night


@dataclass(frozen=True, slots=True, kw_only=True)
class NightSeries:
    """One figure of every night."""

    name: str  # outside of the records
    unit: str
    label: str
    short: str
    lower_is_better: bool


# By the name that records use: there they are logarithms, signed so that higher is better.
HEADLINES = {
    "seconds": NightSeries(
        name="workload_seconds",
        unit="s",
        label="a request of the workload takes",
        short="request",
        lower_is_better=True,
    ),
    "delivered_per_step": NightSeries(
        name="delivered_per_step",
        unit="tokens/step",
        label="tokens per step",
        short="tokens/step",
        lower_is_better=False,
    ),
    "step_s": NightSeries(name="step_s", unit="s", label="step time", short="step", lower_is_better=True),
}
BESIDE = {"boot_s": "s", "kv_cache_tokens": "tokens", "failed_launches": "1", "canary_step_s": "s"}


def series_of(figure: str) -> NightSeries:
    """Return how a figure of a night is called; one that is not known is shown as a factor."""
    return HEADLINES.get(figure) or NightSeries(
        name=figure, unit="1", label=figure, short=figure, lower_is_better=False
    )


def as_measured(figure: str, signed_log: float | None) -> float | None:
    """Return the figure behind its signed logarithm; None for None."""
    if signed_log is None:
        return None
    return math.exp(-signed_log if series_of(figure).lower_is_better else signed_log)


def cell_unit(name: str) -> str:
    """Return the unit of a cell's figure."""
    return METRICS[name].unit if name in METRICS else "1"


def night_values(night: Night) -> dict[str, float | int | None]:
    """Return what a night measured over all its cells, by the series' name. None: it was not measured."""
    figures = {series_of(name).name: as_measured(name, night.value(name)) for name in (*HEADLINES, *night.figures)}
    return figures | {
        "boot_s": night.boot_s,
        "kv_cache_tokens": night.kv_cache_tokens,
        "failed_launches": night.failed_launches,
        "canary_step_s": night.canary_step_s,
    }


def launches_of(night: Night) -> int:
    """Return how many launches count."""
    return max((len(values) for values in night.figures.values()), default=0)
