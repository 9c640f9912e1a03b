"""Warm up one shape until it is stable: kernels compile and caches fill at the first requests of each concurrency."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import median

from harness.records.cell import LoadPoint, OutputLength
from harness.records.request import RequestRecord
from harness.records.trial import EventMeaning, WarmupFacts
from harness.run.bench import Bench
from harness.run.streams import LEAST_ROUNDS, MOST_WARMUP_ROUNDS, StreamsOfRound

OUTPUT_TOKENS = 24


async def warm_up(bench: Bench, load: LoadPoint, streams_of_round: StreamsOfRound) -> WarmupFacts:
    """Send rounds of one short request a stream until the time between events stays the same.

    Args:
        bench: the engine.
        load: of the cell; its output is cut to a few tokens.
        streams_of_round: prompts of round 0, 1, ...: one a stream, of the cell's own length and cache mode.
    """
    short = replace(load, output=OutputLength(tokens=min(OUTPUT_TOKENS, load.output.tokens)))
    former_s: float | None = None
    change: float | None = None
    requests = 0
    for number in range(MOST_WARMUP_ROUNDS):
        result = await bench.replay(bench.prepared(await streams_of_round(number), short, seed=number), short)
        requests += len(result.requests)
        gap_s = typical_gap_s(result.requests, events=bench.engine.spec.manners.events)
        if gap_s is None:
            break
        change = abs(gap_s / former_s - 1) if former_s else None
        if number + 1 >= LEAST_ROUNDS and change is not None and change <= bench.engine.spec.warmup_limit_ratio:
            return WarmupFacts(requests=requests, stable=True, change_ratio=change)
        former_s = gap_s
    return WarmupFacts(requests=requests, stable=False, change_ratio=change)


def typical_gap_s(requests: tuple[RequestRecord, ...], *, events: EventMeaning = "steps") -> float | None:
    """Return the median time between events of all streams; None where no stream has two.

    Where events are tokens, those of one step come close together: there it is the median over streams of the mean.
    """
    gaps = []
    for request in requests:
        times = [batch.at_s for batch in request.batches]
        if events == "steps":
            gaps += [later - earlier for earlier, later in pairwise(times)]
        elif len(times) > 1:
            gaps.append((times[-1] - times[0]) / (len(times) - 1))
    return median(gaps) if gaps else None
