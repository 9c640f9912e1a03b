"""How much of what the client measures is true: its figures beside the log of a server that sends on a schedule.

    python -m benchmarks.client_fidelity [--streams 1,6,64,256,1024] [--repeats 3]
        [--truthd PATH]        a compiled server of the same purpose, as a second opinion on ours
        [--vllm-python PATH]   a Python that has vLLM: ``vllm bench serve`` measures the same server

        [--realtime]           ahead of every other process (root): shows the client, not the rest of a busy machine

Prints a Markdown table; each figure is the median over the repeats. Exit status 1 if the harness misses a target.
Server and client have a core each, as they have where the engine is another machine. The server starts afresh for
every run. Errors are client minus server, stream by stream: TTFT against the first event leaving the server after it
had read the request; decode and step against the span and the median gap of its events.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import httpx
import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.truth import Server, Timeline, read_log, running_server
from benchmarks.vllm_bench import run_vllm_bench
from harness.client.endpoint import probe
from harness.client.load import LoadResult, run_closed_loop
from harness.client.openai import prepare
from harness.client.transport import StampedTransport
from harness.records.cell import LoadPoint, OutputLength
from harness.records.request import RequestRecord
from harness.records.workload import Prompt

# streams: greatest TTFT error, mean and p99 (seconds; None: not promised), greatest decode and step error (ratio)
TARGETS = {1: (0.001, 0.003), 6: (0.001, 0.003), 64: (0.001, 0.003), 256: (0.005, 0.003), 1024: (None, 0.02)}
_LEAST_REQUESTS = 8
_COUNTERS = {"drafts": "spec_decode_num_drafts", "generation_tokens": "generation_tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """Client minus truth, over the streams of one run."""

    ttft_mean_s: float
    ttft_p99_s: float
    decode_ratio: float
    step_ratio: float | None = None
    acceptance: str = "–"
    lag_s: float | None = None
    cpu_ratio: float | None = None


Measure = Callable[[Server, int, int], Fidelity]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One client on one server."""

    client: str
    truthd: Path | None
    measure: Measure


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every case and print the table."""
    options = _options(arguments)
    if options.realtime:
        # Inherited by the servers and by the other client.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    print("| client | server | streams | TTFT error mean | p99 | decode error | step error | acceptance | lag | CPU |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    missed = False
    for streams in (int(count) for count in options.streams.split(",")):
        for case in _cases(options):
            result = _median([_one_run(case, streams, options.tokens) for _ in range(options.repeats)])
            misses = case.client == "harness" and case.truthd is None and not _meets(result, streams)
            missed = missed or misses
            print(_row(case, streams, result, misses=misses), flush=True)
    return 1 if missed else 0


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    yield Case(client="harness", truthd=None, measure=_measure_harness)
    if options.vllm_python:

        def measure(server: Server, streams: int, tokens: int) -> Fidelity:
            prompts = [_prompt(index) for index in range(streams * _turns(streams))]
            measured = run_vllm_bench(options.vllm_python, server, prompts, tokens=tokens, concurrency=streams)
            return _compare(measured, read_log(server, len(prompts)))

        yield Case(client="vllm bench serve", truthd=None, measure=measure)
    if options.truthd:
        yield Case(client="harness", truthd=options.truthd, measure=_measure_harness)


def _one_run(case: Case, streams: int, tokens: int) -> Fidelity:
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder), truthd=case.truthd) as server:
        return case.measure(server, streams, tokens)


def _measure_harness(server: Server, streams: int, tokens: int) -> Fidelity:
    result, counted = asyncio.run(_run_harness(server, streams, tokens))
    failed = [record for record in result.requests if not record.finished]
    if failed or len(result.requests) != streams * _turns(streams):
        raise RuntimeError(f"{len(failed)} of {streams} streams failed: {failed[:1]}")
    truth = read_log(server, len(result.requests))
    measured = [_timeline(record) for record in result.requests]
    fidelity = _compare(measured, truth)
    return replace(
        fidelity,
        acceptance=_acceptance(measured, truth, counted),
        lag_s=result.client.loop_lag_max_s,
        cpu_ratio=result.client.cpu_ratio,
    )


async def _run_harness(server: Server, streams: int, tokens: int) -> tuple[LoadResult, dict[str, float]]:
    transport = StampedTransport()
    output = OutputLength(tokens=tokens)
    load = LoadPoint(workload_class="fidelity", context_tokens=16, concurrency=streams, output=output)
    async with httpx.AsyncClient(transport=transport) as http:
        endpoint = await probe(http, server.url, None)
        before = await _counters(http, server)
        prompts = [Prompt(text=_prompt(index), tokens=index + 1) for index in range(streams)]
        requests = [
            [prepare(endpoint, prompt, load, stream=index, turn=turn, seed=index) for turn in range(_turns(streams))]
            for index, prompt in enumerate(prompts)
        ]
        result = await run_closed_loop(transport, requests, read_timeout_s=30, prewarm=transport.prewarm)
        after = await _counters(http, server)
    return result, {name: after[name] - before[name] for name in after}


async def _counters(http: httpx.AsyncClient, server: Server) -> dict[str, float]:
    families = text_string_to_metric_families((await http.get(f"{server.url}/metrics")).text)
    totals = {sample.name: sample.value for family in families for sample in family.samples}
    return {name: totals[f"vllm:{series}_total"] for name, series in _COUNTERS.items()}


def _turns(streams: int) -> int:
    """Requests of each stream, one after the other: a mean over one request would be luck."""
    return max(1, _LEAST_REQUESTS // streams)


def _prompt(index: int) -> str:
    """A prompt whose length tells the server's log which stream it was."""
    return " ".join(["w"] * (index + 1))


def _timeline(record: RequestRecord) -> Timeline:
    stamps = [batch.at_s for batch in record.batches]
    if record.sent_s is None or record.output_tokens is None:
        raise ValueError("an unfinished stream has no timeline")
    # Where a server gives no counts: its first event carries one token, as the schedule says.
    first_tokens = record.batches[0].tokens or 1
    return Timeline(
        order=record.stream,
        ttft_s=stamps[0] - record.sent_s,
        span_s=stamps[-1] - stamps[0],
        gap_s=median(later - earlier for earlier, later in pairwise(stamps)),
        steps=len(stamps) - 1,
        decoded_tokens=record.output_tokens - first_tokens,
        tokens=tuple(batch.tokens for batch in record.batches),
    )


def _compare(measured: Sequence[Timeline], truth: Sequence[Timeline]) -> Fidelity:
    pairs = list(zip(sorted(measured, key=_order), sorted(truth, key=_order), strict=True))
    errors_s = [client.ttft_s - server.ttft_s for client, server in pairs]
    gaps = [client.gap_s / server.gap_s for client, server in pairs if client.gap_s and server.gap_s]
    return Fidelity(
        ttft_mean_s=fmean(errors_s),
        ttft_p99_s=float(np.percentile(errors_s, 99)),
        decode_ratio=fmean(server.span_s / client.span_s for client, server in pairs) - 1,
        step_ratio=fmean(gaps) - 1 if gaps else None,
    )


def _order(timeline: Timeline) -> int:
    return timeline.order


def _acceptance(measured: Sequence[Timeline], truth: Sequence[Timeline], counted: dict[str, float]) -> str:
    """Tokens per step as the client saw it; exact if every stream, every event and the counters agree with the log."""
    steps, decoded = sum(each.steps for each in measured), sum(each.decoded_tokens for each in measured)
    pairs = zip(sorted(measured, key=_order), sorted(truth, key=_order), strict=True)
    agree = all(
        client.steps == server.steps
        and client.decoded_tokens == server.decoded_tokens
        and (None in (*client.tokens, *server.tokens) or client.tokens == server.tokens)
        for client, server in pairs
    )
    counters_agree = counted["drafts"] == steps and counted["generation_tokens"] == decoded + len(measured)
    return f"{decoded / steps:.4f} {'exact' if agree and counters_agree else 'WRONG'}"


def _meets(result: Fidelity, streams: int) -> bool:
    ttft_limit_s, ratio_limit = TARGETS.get(streams, (None, 0.02))
    late = ttft_limit_s is not None and max(abs(result.ttft_mean_s), abs(result.ttft_p99_s)) > ttft_limit_s
    wrong = max(abs(result.decode_ratio), abs(result.step_ratio or 0.0)) > ratio_limit
    return not late and not wrong and result.acceptance.endswith("exact")


def _median(runs: Sequence[Fidelity]) -> Fidelity:
    wrong = next((run.acceptance for run in runs if not run.acceptance.endswith("exact")), None)
    return Fidelity(
        ttft_mean_s=median(run.ttft_mean_s for run in runs),
        ttft_p99_s=median(run.ttft_p99_s for run in runs),
        decode_ratio=median(run.decode_ratio for run in runs),
        step_ratio=_median_of([run.step_ratio for run in runs]),
        acceptance=wrong or runs[0].acceptance,
        lag_s=_median_of([run.lag_s for run in runs]),
        cpu_ratio=_median_of([run.cpu_ratio for run in runs]),
    )


def _median_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _row(case: Case, streams: int, result: Fidelity, *, misses: bool) -> str:
    cells = (
        case.client + (" (misses its target)" if misses else ""),
        "truthd" if case.truthd else "ours",
        str(streams),
        _milliseconds(result.ttft_mean_s),
        _milliseconds(result.ttft_p99_s),
        _percent(result.decode_ratio),
        _percent(result.step_ratio),
        result.acceptance,
        _milliseconds(result.lag_s),
        "–" if result.cpu_ratio is None else f"{result.cpu_ratio:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:+.2f} ms"


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio * 100:+.3f} %"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="client_fidelity", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", default=",".join(map(str, TARGETS)))
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--truthd", type=Path)
    parser.add_argument("--vllm-python", type=Path)
    parser.add_argument("--realtime", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
