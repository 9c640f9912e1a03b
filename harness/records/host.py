"""The machines behind a number: what each node was when a launch began, and how it fared while cells were measured."""

from __future__ import annotations

from dataclasses import dataclass, field

IDLE = "gpu_idle"  # of throttle_reasons: nothing was asked of it
# Reasons that the owner chose, or that say nothing of a fault.
BENIGN_REASONS = (IDLE, "applications_clocks_setting", "sync_boost", "display_clock_setting")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One node at one moment. A field is None where the node does not say; ``null_reasons`` says why, by field.

    Of several GPUs it is the first one.
    """

    node: str  # its role, for example head or worker; never the name of a host
    at: str  # wall clock, ISO 8601 with zone
    gpu_name: str | None = None
    gpus: int | None = None
    driver_version: str | None = None
    vbios_version: str | None = None  # firmware of the GPU
    firmware_version: str | None = None  # of the machine
    kernel: str | None = None
    uptime_s: float | None = None
    sm_clock_mhz: float | None = None
    max_sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_state: str | None = None  # P0 is the fastest
    throttle_reasons: tuple[str, ...] | None = None  # why clocks are lower than they could be; () is no reason
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_used_bytes: int | None = None
    images: dict[str, str] = field(default_factory=dict)  # id by name, of the containers that are up
    null_reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSample:
    """A reading while cells were measured. ``gap`` says why there is none."""

    node: str
    at: str  # wall clock, ISO 8601 with zone, of the machine that measures
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_state: str | None = None
    throttle_reasons: tuple[str, ...] | None = None
    memory_available_bytes: int | None = None
    gap: str | None = None
    null_reasons: dict[str, str] = field(default_factory=dict)

    @property
    def is_busy(self) -> bool:
        """The GPU had work, so that clocks and power mean something."""
        return self.throttle_reasons is not None and IDLE not in self.throttle_reasons

    @property
    def faults(self) -> tuple[str, ...]:
        """Reasons for lower clocks that nobody chose: heat, power, a brake of the hardware."""
        return tuple(reason for reason in self.throttle_reasons or () if reason not in BENIGN_REASONS)
