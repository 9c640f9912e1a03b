"""One boot of the engine with one configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from harness.records.cell import Configuration, KnobValue
from harness.records.host import NodeFacts, NodeSample
from harness.records.sanity import GreedyAnswer
from harness.records.speculation import SpeculationStats

LaunchOutcome = Literal["measured", "failed_to_boot", "wrong_configuration", "died", "slow_canary", "interrupted"]
# Not slow_canary, which is measured again, nor interrupted, which is resumed.
FAILED: tuple[LaunchOutcome, ...] = ("failed_to_boot", "wrong_configuration", "died")


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFacts:
    """What the boot log says. None where the line was not found."""

    engine_version: str | None = None
    kv_cache_tokens: int | None = None
    max_concurrency_x: float | None = None  # "Maximum concurrency for N tokens per request: 2.38x"
    model_load_s: float | None = None
    graph_capture_s: float | None = None
    capture_sizes: tuple[int, ...] | None = None
    max_num_batched_tokens: int | None = None
    speculative_config: dict[str, KnobValue | None] | None = None
    unknown_environment: tuple[str, ...] = ()  # variables that the engine says it does not know: inert knobs


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveIdentity:
    """What really runs, read back from the server, never from the request to start it."""

    model: str
    max_model_len: int | None
    engine_version: str | None
    num_speculative_tokens: int | None  # from counters; 0: no speculation; None: not proved
    proof: str  # how it was read


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryReading:
    """The fixed short cell of every launch."""

    step_s: float
    ttft_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRecord:
    """Facts of one launch, written when it ends, however it ends."""

    launch_id: str
    run_id: str
    round: int
    attempt: int  # from 1; 2 where the first one was voided and repeated
    configuration: Configuration
    started_at: str
    outcome: LaunchOutcome
    ready_s: float | None  # from start to ready
    total_s: float | None
    reason: str | None = None  # why it failed
    log_tail: tuple[str, ...] = ()
    boot: BootFacts | None = None
    live: LiveIdentity | None = None
    canary_before: CanaryReading | None = None
    canary_after: CanaryReading | None = None
    canary_ratio: float | None = None  # canary_before against its like; above 1 is slower
    canary_against: str | None = None
    canary_slow: bool = False  # beyond the limit of what it was compared with
    command: tuple[str, ...] = ()  # redacted
    environment: dict[str, str] = field(default_factory=dict)  # what the harness set; redacted
    simulated: bool = False
    untested: str | None = None  # why nobody knows how what started it behaves
    speculation: SpeculationStats | None = None  # of an engine that counts drafts per launch, by its log
    nodes: tuple[NodeFacts, ...] = ()  # before the engine was started; () where nobody asked
    samples: tuple[NodeSample, ...] = ()  # while cells were measured
    greedy: tuple[GreedyAnswer, ...] = ()  # to fixed prompts, after the cells
