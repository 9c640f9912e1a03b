"""Where a run's numbers come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RECORD_VERSION = 1
SIMULATED_MARK = "SIMULATED"
UNKNOWN_RIG = "unknown"  # its machines did not answer, so that nothing was measured either
# History of RECORD_VERSION: 1 (2026-11-30) first form. A field that is added with a default needs no new version:
# older journals are read without it, and older harnesses pass over it.


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The machine that ran the engine (of a pair its head, with the accelerators of both), and the harness."""

    rig_id: str  # hash of machine ids, processor or accelerator and recipe; simulated-<scenario>, or UNKNOWN_RIG
    processor: str
    cores: int
    memory_bytes: int
    accelerators: tuple[str, ...]
    kernel: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Provenance of a run: written once at its start, before the first launch."""

    run_id: str
    sweep: str
    sweep_sha256: str
    sweep_file: str  # name only, never a path
    recipe: str
    recipe_sha256: str
    harness_version: str
    measuring_version: int
    started_at: str
    seed: int
    command: tuple[str, ...]
    host: HostFacts
    versions: dict[str, str] = field(default_factory=dict)  # libraries
    simulated: bool = False
    mark: str | None = None  # SIMULATED_MARK, for whoever reads the document
    scenario: dict[str, Any] | None = None  # of a simulated run: truth, noise and faults
    record_version: int = RECORD_VERSION
