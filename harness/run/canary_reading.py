"""Read the canary: the same short cell before and after the others, so that a boot's own speed has a figure."""

from __future__ import annotations

from statistics import median

from harness.records.cell import LoadPoint, OutputLength
from harness.records.launch import CanaryReading
from harness.run.bench import Bench
from harness.run.streams import Prompts
from harness.run.warmup import typical_gap_s
from harness.workload.spec import StreamShape

_TURNS = 6  # the first one is not counted: after a boot it compiles
_LOAD = LoadPoint(
    workload_class="prose", context_tokens=256, concurrency=1, output=OutputLength(tokens=48), temperature=0.0
)


async def read_canary(bench: Bench, source: Prompts, *, name: str) -> CanaryReading | None:
    """Return the canary's step time and time to first token; None where too few requests finished.

    The gap between events is the step: one stream alone never outruns the server's front end.
    """
    shape = StreamShape(streams=1, turns=_TURNS, drafts=0.0)
    prompts = await source.for_trial(_LOAD, shape, name=name)
    result = await bench.replay(bench.prepared(prompts.streams, _LOAD, seed=bench.seed), _LOAD)
    requests = tuple(request for request in result.requests if request.finished and request.batches)[1:]
    gap_s = typical_gap_s(requests, events=bench.engine.spec.manners.events)
    waits = [request.batches[0].at_s - request.sent_s for request in requests if request.sent_s is not None]
    if gap_s is None or not waits:
        return None
    return CanaryReading(step_s=gap_s, ttft_s=median(waits))
