"""A scenario: which engine is simulated, how noisy it is, and what goes wrong. A file in scenarios/, found by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from harness.simulator.faults import Faults, ForeignTraffic, JitStall, SlowState, Throttling
from harness.simulator.named import named_file, names_of
from harness.simulator.noise import Noise
from harness.simulator.truth import Truth, load_truth
from harness.yaml_model import FileModel, validated
from harness.yaml_source import read_source

SCENARIOS = Path(__file__).parent / "scenarios"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a simulated engine is, but for its configuration."""

    name: str
    description: str
    truth: Truth
    noise: Noise
    faults: Faults
    seed: int = 0
    rig: str | None = None  # another scenario's, of which this is a later state; None: a rig of its own
    night: str = ""  # boots of another night are other boots, with noise of their own

    @property
    def rig_id(self) -> str:
        """Under which noise, canaries and nights are kept; never that of real machines."""
        return f"simulated-{self.rig or self.name}"

    def described(self) -> dict[str, Any]:
        """Return it as JSON, for a manifest: two scenarios that differ in any number differ here."""
        return asdict(self)


def scenario_names() -> list[str]:
    """Return the names that load_scenario knows."""
    return names_of(SCENARIOS)


def load_scenario(name: str, *, truth: str | None = None, seed: int = 0) -> Scenario:
    """Return the scenario called ``name``, on another truth than its own if one is named. Raises InputError."""
    scenario = read_scenario(named_file(SCENARIOS, name, kind="scenario"), seed=seed)
    return scenario if truth is None else replace(scenario, truth=load_truth(truth))


def read_scenario(path: Path, *, seed: int = 0) -> Scenario:
    """Return the scenario in a file, which gives it its name. Raises InputError."""
    written = validated(_ScenarioFile, read_source(path))
    return Scenario(
        name=path.stem,
        description=written.description,
        truth=load_truth(written.truth),
        noise=Noise(**written.noise.model_dump()),
        faults=_faults(written.faults),
        seed=seed,
        rig=written.rig,
    )


def _faults(written: _FaultsFile) -> Faults:
    plain = written.model_dump(exclude={"jit_stall", "slow_state", "throttling", "foreign_traffic"})
    return Faults(
        **plain,
        jit_stall=JitStall(**written.jit_stall.model_dump()) if written.jit_stall else None,
        slow_state=SlowState(**written.slow_state.model_dump()) if written.slow_state else None,
        throttling=Throttling(**written.throttling.model_dump()) if written.throttling else None,
        foreign_traffic=ForeignTraffic(**written.foreign_traffic.model_dump()) if written.foreign_traffic else None,
    )


_NotNegative = Annotated[float, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Factor = Annotated[float, Field(ge=1)]
_Count = Annotated[int, Field(ge=0)]


class _NoiseFile(FileModel):
    launch_sd: _NotNegative = 0.0
    step_sd: _NotNegative = 0.0
    acceptance_sd: _NotNegative = 0.0
    tail_ratio: _Share = 0.0
    tail_factor: _Factor = 1.0


class _JitStallFile(FileModel):
    stall_s: _NotNegative
    share_of_shapes: _Share = 1.0


class _SlowStateFile(FileModel):
    factor: _Factor = 1.5
    share_of_launches: _Share = 1.0
    from_s: _NotNegative = 0.0
    until_s: _NotNegative | None = None


class _ThrottlingFile(FileModel):
    ratio_per_hour: _NotNegative
    max_ratio: _NotNegative = 0.3


class _ForeignTrafficFile(FileModel):
    every_s: Annotated[float, Field(gt=0)]
    prompt_tokens: Annotated[int, Field(ge=1)] = 512
    output_tokens: Annotated[int, Field(ge=1)] = 128


class _FaultsFile(FileModel):
    jit_stall: _JitStallFile | None = None
    slow_state: _SlowStateFile | None = None
    throttling: _ThrottlingFile | None = None
    foreign_traffic: _ForeignTrafficFile | None = None
    prefix_hit_ratio: _Share = 0.0
    prefix_evicted_ratio: _Share = 0.0
    template_tokens: _Count = 0
    ignores_length: bool = False
    cut_share: _Share = 0.0
    counters_reset_after_s: _NotNegative | None = None
    counter_lag_s: _NotNegative = 0.0
    stale_k: _Count | None = None
    engine_dies_after_s: _NotNegative | None = None
    loop_share: _Share = 0.0
    loop_log_odds: float = 3.5
    acceptance_log_odds: float = 0.0
    other_text_share: _Share = 0.0
    capture_limit_tokens: _Count | None = None


class _ScenarioFile(FileModel):
    description: str
    truth: str
    rig: str | None = None
    noise: _NoiseFile = _NoiseFile()
    faults: _FaultsFile = _FaultsFile()
