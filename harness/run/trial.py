"""One trial: prompts, warm-up, counters, window, counters. Facts only; stats.summary makes figures of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from harness.client.load import LoadResult
from harness.client.pictures import PictureError
from harness.errors import EndpointError
from harness.metrics.scrape import settled_after
from harness.metrics.session_stats import PER_LAUNCH
from harness.metrics.speculation import difference
from harness.records.cell import Cell, LoadPoint, OutputLength
from harness.records.counters import NO_COUNTERS, CounterDelta, CounterSnapshot
from harness.records.request import RequestRecord
from harness.records.trial import ClientFacts, TrialRecord, WarmupFacts
from harness.records.workload import StreamPlan, workload_id
from harness.run.bench import Bench
from harness.run.streams import NO_PROMPTS, Prompts, RoomError, TrialPrompts
from harness.run.warmup import warm_up
from harness.units import format_seconds
from harness.workload.spec import StreamShape


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialTask:
    """What to measure, and under which names it is written down."""

    trial_id: str
    run_id: str
    launch_id: str
    round: int
    repeat: int
    cell: Cell
    shape: StreamShape
    limit_s: float | None  # wall limit of the cell; None is none
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """What one measured window brought."""

    fills: tuple[RequestRecord, ...] = ()
    requests: tuple[RequestRecord, ...] = ()
    counters: CounterDelta = NO_COUNTERS
    client: ClientFacts = field(default_factory=ClientFacts)
    warmup: WarmupFacts | None = None
    jit_lines: tuple[str, ...] = ()
    failure: str | None = None


async def measure_trial(bench: Bench, source: Prompts, task: TrialTask) -> TrialRecord:
    """Measure one cell once. A measurement that fails is a record with its reason.

    Raises:
        InputError: no prompt of the asked length can be made.
        EndpointError: the server cannot count tokens.
    """
    started_at, began_s = bench.clock.stamp(), bench.clock.now_s()
    try:
        prompts = await source.for_trial(task.cell.load, task.shape, name=task.trial_id)
    except (PictureError, RoomError) as refused:
        prompts, window = NO_PROMPTS, _Window(failure=refused.what)
    else:
        window = await _limited(bench, task, prompts)
    return TrialRecord(
        trial_id=task.trial_id,
        run_id=task.run_id,
        launch_id=task.launch_id,
        round=task.round,
        repeat=task.repeat,
        cell=task.cell,
        workload_id=workload_id(prompts.streams),
        started_at=started_at,
        fills=window.fills,
        requests=window.requests,
        counters=window.counters,
        client=window.client,
        warmup=window.warmup,
        jit_lines=window.jit_lines,
        failure=window.failure,
        no_speculation=bench.engine.spec.num_speculative_tokens == 0,
        events=bench.engine.spec.manners.events,
        simulated=task.simulated,
        took_s=bench.clock.now_s() - began_s,
    )


async def _limited(bench: Bench, task: TrialTask, prompts: TrialPrompts) -> _Window:
    try:
        async with asyncio.timeout(task.limit_s):
            return await _window(bench, task, prompts)
    except TimeoutError:
        limit = format_seconds(task.limit_s)
        return _Window(failure=f"the cell's limit of {limit} passed (budget.cell)")
    except EndpointError as error:
        return _Window(failure=error.what)


async def _window(bench: Bench, task: TrialTask, prompts: TrialPrompts) -> _Window:
    load = task.cell.load
    fills = await _fill(bench, prompts, load)
    warmup = await warm_up(bench, load, prompts.warmup_round)
    requests = bench.prepared(prompts.streams, load, seed=bench.seed + 100_000 * task.round)
    before = await bench.counters()
    log_offset = bench.engine.log.size()
    result = await bench.replay(requests, load)
    if bench.keep_texts is not None:
        bench.keep_texts(task.trial_id, result)
    return _Window(
        fills=fills,
        requests=_chained(bench, result),
        counters=await _counted(bench, before, result),
        client=result.client,
        warmup=warmup,
        jit_lines=bench.engine.jit_lines(log_offset),
        failure=await _failure(bench, result),
    )


async def _fill(bench: Bench, prompts: TrialPrompts, load: LoadPoint) -> tuple[RequestRecord, ...]:
    """Put the prefixes into the cache, one after the other, so that each is a cold prefill measured alone."""
    if not prompts.fills:
        return ()
    single = replace(load, concurrency=1, output=OutputLength(tokens=1))
    result = await bench.replay(bench.prepared([StreamPlan(prompts=prompts.fills)], single, seed=0), single)
    return result.requests


def _chained(bench: Bench, result: LoadResult) -> tuple[RequestRecord, ...]:
    """The requests, with the hashes by which greedy answers to a user's prompts can be compared."""
    if bench.chain_answer is None:
        return result.requests
    chains = {(sent.prepared.stream, sent.prepared.turn): bench.chain_answer(sent) for sent in result.sent}
    return tuple(
        replace(request, answer_chain=chain) if (chain := chains.get((request.stream, request.turn))) else request
        for request in result.requests
    )


async def _counted(bench: Bench, before: CounterSnapshot | None, result: LoadResult) -> CounterDelta:
    if bench.engine.spec.manners.metrics == "ds4":
        return CounterDelta(settled=False, absent_because=PER_LAUNCH)
    try:
        after = await settled_after(
            bench.counters, bench.clock, before=before, expected_tokens=_served_tokens(result.requests)
        )
    except EndpointError as error:
        return CounterDelta(settled=False, absent_because=f"no counters after the window: {error.what}")
    return difference(
        before,
        after.snapshot,
        settled=after.settled,
        num_speculative_tokens=bench.engine.spec.num_speculative_tokens,
    )


def _served_tokens(requests: tuple[RequestRecord, ...]) -> int | None:
    """All output tokens; None where a stream was cut, since nobody can know then what the engine counts."""
    counts = [request.output_tokens for request in requests if request.finished]
    if len(counts) < len(requests) or any(count is None for count in counts):
        return None
    return sum(count for count in counts if count is not None)


async def _failure(bench: Bench, result: LoadResult) -> str | None:
    """Why nothing was measured, or None: single failed requests are doubts, not a failure."""
    if bench.death.is_set():
        return await bench.engine.died()
    if any(request.finished for request in result.requests):
        return None
    errors = [request.error or request.outcome for request in result.requests]
    return f"no request finished: {errors[0]}" if errors else "no request was sent"
