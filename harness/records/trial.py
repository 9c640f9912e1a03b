"""One measured execution of a cell inside one launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.records.cell import Cell
from harness.records.counters import CounterDelta
from harness.records.imported import ImportedFigures
from harness.records.request import RequestRecord

EventMeaning = Literal["steps", "tokens"]  # tokens: those of one step come as events of their own, close together
MEASURING_VERSION = 1  # of the client and the definitions: results of another one are not compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """How busy the client itself was: proof that it was not the bottleneck."""

    loop_lag_max_s: float | None = None
    cpu_ratio: float | None = None  # client CPU seconds per second of the window; 1 is one whole core


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupFacts:
    """What was done before the first measured request of this shape."""

    requests: int
    stable: bool
    change_ratio: float | None = None  # of the inter-chunk time between the last two warm-up rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """Facts of one trial. Rates are functions over it (stats.summary)."""

    trial_id: str
    run_id: str
    launch_id: str
    round: int  # from 1
    repeat: int  # within the launch, from 1
    cell: Cell
    workload_id: str  # hash of the prompts, the same in every arm
    started_at: str  # wall clock, ISO 8601 with zone: the only wall-clock time of a trial
    requests: tuple[RequestRecord, ...]
    counters: CounterDelta
    client: ClientFacts
    warmup: WarmupFacts | None
    fills: tuple[RequestRecord, ...] = ()  # prefixes put into the cache before the window: cold prefills, one by one
    jit_lines: tuple[str, ...] = ()  # log lines that report compilation inside the window
    failure: str | None = None  # why nothing could be measured
    no_speculation: bool = False
    events: EventMeaning = "steps"  # what one streamed event is
    simulated: bool = False
    imported: ImportedFigures | None = None  # of another program, which leaves no facts
    measuring_version: int = MEASURING_VERSION
    took_s: float | None = None  # from started_at on, warm-up included; None in older records
