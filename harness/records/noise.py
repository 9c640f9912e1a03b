"""The noise floor of a rig, as measured by launching one configuration again and again."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CellNoise:
    """How far launches lie apart in one figure of one kind of load. Standard deviations of logarithms."""

    metric: str
    context_tokens: int
    concurrency: int
    between_sigma_ratio: float  # of a launch's mean over its prompts
    within_sigma_ratio: float | None  # of one request in a launch; None with one prompt
    degrees: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNoise:
    """One A/A of a rig. Another engine or way of measuring has another floor."""

    at: str  # wall clock, ISO 8601 with zone
    run_id: str
    engine_version: str | None
    measuring_version: int
    configuration_id: str
    configuration: str
    launches: int
    objective: str
    total_sigma_ratio: float  # of the weighted workload
    total_degrees: float
    cells: tuple[CellNoise, ...]
    weights: dict[str, float] = field(default_factory=dict)  # of that workload, by load id, 1 in all
