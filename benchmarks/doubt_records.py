"""Clean runs, and what becomes of their records where something goes wrong that no simulated engine has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache

import numpy as np

from benchmarks.doubt_faults import LAPTOP, MANY, Fault, Load, replayed, scenario_of
from benchmarks.rehearsing import rehearse
from harness.records.host import NodeSample
from harness.records.imported import ImportedFigures
from harness.records.journal import RunData
from harness.records.launch import BootFacts, LaunchRecord
from harness.records.request import RequestRecord, TokenBatch
from harness.records.speculation import SpeculationStats
from harness.records.trial import ClientFacts, TrialRecord
from harness.stats.case import Limits

CLEAN_SCENARIOS = ("default", "quiet")
_BASE = Load(depths=(0, 6), drafts=120)
Spoil = Callable[[TrialRecord, np.random.Generator], TrialRecord]
SpoilLaunch = Callable[[LaunchRecord, np.random.Generator], LaunchRecord]


@cache
def base_run(seed: int, load: Load = _BASE) -> RunData:
    """Return a clean run, to be spoilt; kept, since many faults begin with the same one."""
    return rehearse(load.sweep, scenario_of(seed))


def _drafting(trial: TrialRecord) -> bool:
    return bool(trial.counters.drafts)


def _spoilt(words: str, spoil: Spoil, *, load: Load = _BASE, limits: Limits | None = None) -> Fault:
    def run(seed: int) -> RunData:
        clean, rng = base_run(seed, load), np.random.default_rng(seed)
        return replace(clean, trials=tuple(spoil(each, rng) if _drafting(each) else each for each in clean.trials))

    return Fault(words=words, run=run, limits=limits, records=True)


def _spoilt_launch(words: str, spoil: SpoilLaunch, *, load: Load = _BASE) -> Fault:
    def run(seed: int) -> RunData:
        clean, rng = base_run(seed, load), np.random.default_rng(seed)
        return replace(clean, launches=tuple(spoil(launch, rng) for launch in clean.launches))

    return Fault(words=words, run=run, records=True)


def _each(trial: TrialRecord, change: Callable[[RequestRecord], RequestRecord]) -> TrialRecord:
    return replace(trial, requests=tuple(change(request) for request in trial.requests))


def _one_failed(trial: TrialRecord, rng: np.random.Generator) -> TrialRecord:
    hit = int(rng.integers(len(trial.requests)))
    failed = replace(trial.requests[hit], outcome="timeout", finish_reason=None, batches=())
    return replace(trial, requests=(*trial.requests[:hit], failed, *trial.requests[hit + 1 :]))


def _merged(trial: TrialRecord, rng: np.random.Generator) -> TrialRecord:
    """The server's front end falls behind: two or three steps arrive in one event."""

    def change(request: RequestRecord) -> RequestRecord:
        first, rest = request.batches[0], list(request.batches[1:])
        merged = []
        while rest:
            taken = [rest.pop(0) for _ in range(min(len(rest), int(rng.integers(2, 4))))]
            merged.append(TokenBatch(at_s=taken[-1].at_s, tokens=sum(each.tokens or 0 for each in taken)))
        return replace(request, batches=(first, *merged))

    return _each(trial, change)


def _counted_double(trial: TrialRecord, _: np.random.Generator) -> TrialRecord:
    """The client takes a running total for the tokens of an event."""

    def change(request: RequestRecord) -> RequestRecord:
        total, batches = 0, []
        for batch in request.batches:
            total += batch.tokens or 0
            batches.append(replace(batch, tokens=total))
        return replace(request, batches=tuple(batches), output_tokens=sum(each.tokens or 0 for each in batches))

    return _each(trial, change)


def _busy_client(trial: TrialRecord, rng: np.random.Generator) -> TrialRecord:
    if rng.random() < 0.5:
        return replace(trial, client=ClientFacts(loop_lag_max_s=float(rng.uniform(0.3, 2.0)), cpu_ratio=0.3))
    return replace(trial, client=ClientFacts(loop_lag_max_s=0.002, cpu_ratio=float(rng.uniform(0.85, 1.0))))


def _calm(trial: TrialRecord, rng: np.random.Generator) -> TrialRecord:
    """What a client measures of itself where nothing is wrong."""
    lag_s, cpu_ratio = float(rng.uniform(0.0002, 0.004)), float(rng.uniform(0.02, 0.3))
    return replace(trial, client=ClientFacts(loop_lag_max_s=lag_s, cpu_ratio=cpu_ratio))


def _lost_counts(trial: TrialRecord, _: np.random.Generator) -> TrialRecord:
    """The counters are of another window than the stamps."""
    counters = trial.counters
    drafts, accepted = round(1.1 * (counters.drafts or 0)), round(1.1 * (counters.accepted_tokens or 0))
    drafted = _BASE.depths[-1] * drafts
    return replace(trial, counters=replace(counters, drafts=drafts, draft_tokens=drafted, accepted_tokens=accepted))


def _undrafted(trial: TrialRecord, _: np.random.Generator) -> TrialRecord:
    """Every seventh step finds nothing to draft and is counted nowhere, as with n-grams."""
    drafts = round((trial.counters.drafts or 0) * 6 / 7)
    return replace(trial, counters=replace(trial.counters, drafts=drafts, draft_tokens=6 * drafts))


def _cut_in_thought(trial: TrialRecord, rng: np.random.Generator) -> TrialRecord:
    hit = int(rng.integers(len(trial.requests)))
    cut = trial.requests[hit]
    cut = replace(cut, finish_reason="length", outcome="length", reasoning_tokens=cut.output_tokens, answer_tokens=0)
    return replace(trial, requests=(*trial.requests[:hit], cut, *trial.requests[hit + 1 :]))


def _silent(trial: TrialRecord, rng: np.random.Generator) -> TrialRecord:
    hit = int(rng.integers(len(trial.requests)))
    empty = replace(trial.requests[hit], finish_reason="stop", outcome="complete", answer_tokens=0)
    return replace(trial, requests=(*trial.requests[:hit], empty, *trial.requests[hit + 1 :]))


def _on_read_nodes(run: RunData, rng: np.random.Generator, *, fault: str | None = None) -> RunData:
    """The run on a pair of nodes that are read every five seconds. A fault is throttled, or power."""
    launches = []
    for launch in run.launches:
        begin, length_s = datetime.fromisoformat(launch.started_at), launch.total_s or 0.0
        hit = str(rng.choice(["head", "worker"]))
        samples = []
        for second in range(0, int(length_s), 5):
            at = (begin + timedelta(seconds=second)).isoformat(timespec="seconds")
            samples += [_sample(node, at, rng, fault if node == hit else None) for node in ("head", "worker")]
        launches.append(replace(launch, samples=tuple(samples)))
    return replace(run, launches=tuple(launches))


def _sample(node: str, at: str, rng: np.random.Generator, fault: str | None) -> NodeSample:
    hot, slow = fault == "throttled" and rng.random() < 0.6, fault == "power" and rng.random() < 0.5
    return NodeSample(
        node=node,
        at=at,
        sm_clock_mhz=float(rng.uniform(500, 850) if slow else rng.uniform(2300, 2418)),
        temperature_c=float(rng.uniform(84, 92) if hot else rng.uniform(58, 74)),
        power_w=float(rng.uniform(60, 90)),
        power_state="P0",
        throttle_reasons=("sw_thermal_slowdown",) if hot else (),
    )


def _on_nodes(words: str, fault: str) -> Fault:
    load = replace(_BASE, drafts=400)
    return Fault(
        words=words,
        run=lambda seed: _on_read_nodes(base_run(seed, load), np.random.default_rng(seed), fault=fault),
        records=True,
    )


def _leaked(launch: LaunchRecord, rng: np.random.Generator) -> LaunchRecord:
    boot = launch.boot or BootFacts()
    lost = 1 - (0.0 if launch.round == 1 else float(rng.uniform(0.03, 0.2)))
    return replace(launch, boot=replace(boot, kv_cache_tokens=round((boot.kv_cache_tokens or 0) * lost)))


def _inert(launch: LaunchRecord, _: np.random.Generator) -> LaunchRecord:
    name = "VLLM_DSPARK_CONFIDENCE_THRESHOLD"
    boot = replace(launch.boot or BootFacts(), unknown_environment=(name,))
    return replace(launch, boot=boot, environment={**launch.environment, name: "0.6"})


_STATS = SpeculationStats(asked=True, lines=1, counts={"cycles": 0.0})

RECORDS: dict[str, Fault] = {
    "some_requests_failed": _spoilt("one request of many times out", _one_failed, load=MANY),
    "speculation_bypassed": _spoilt_launch(
        "the engine counts no draft cycle", lambda one, _: replace(one, speculation=_STATS)
    ),
    "imported": _spoilt(
        "figures of another program",
        lambda one, _: replace(one, imported=ImportedFigures(program="ds4-bench", where="a.csv:2", values={})),
    ),
    "untested_generation": _spoilt_launch(
        "scripts of an unknown generation", lambda one, _: replace(one, untested="unknown scripts")
    ),
    "node_throttled": _on_nodes("a node is hot half of the time", "throttled"),
    "node_power_changed": _on_nodes("a node falls to 500 to 850 MHz half of the time", "power"),
    "setting_ignored": _spoilt_launch("the image does not know a variable", _inert),
    "preempted": _spoilt(
        "the KV cache is full now and then",
        lambda one, rng: replace(one, counters=replace(one.counters, preemptions=int(rng.integers(1, 9)))),
    ),
    "thinking_used_budget": _spoilt("one answer is cut in its reasoning", _cut_in_thought),
    "no_answer": _spoilt("one answer is empty", _silent),
    "above_ceiling": _spoilt("running totals taken for tokens of an event", _counted_double),
    "client_bottleneck": _spoilt("a client that stands still, or fills its core", _busy_client),
    "events_merged": _spoilt("two or three steps in one event", _merged),
    "identity_violated": _spoilt("counters of another window", _lost_counts),
    "steps_without_draft": _spoilt("every seventh step drafts nothing", _undrafted),
    "too_few_drafts": Fault(
        words="a quarter of the drafts that were asked for",
        run=base_run,
        limits=Limits(least_drafts=1000),
        records=True,
    ),
    "kv_tokens_differ": _spoilt_launch("3 to 20 % of the memory leaked", _leaked, load=replace(_BASE, launches=2)),
}


def clean_loads() -> Sequence[Load]:
    """Return the loads of clean runs: both recipes, shallow and deep, alone and together, greedy and sampled."""
    pair = Load(depths=(0, 6), launches=2, drafts=400)
    laptop = replace(pair, recipe=LAPTOP, depths=(0, 4))
    return [
        pair,
        replace(pair, workload_class="prose", context_tokens=2048, concurrency=4, temperature=0.0),
        replace(pair, workload_class="agentic", context_tokens=8192, concurrency=2, cache="warm"),
        replace(laptop, workload_class="prose", output="{natural: 128}", temperature=0.0),
        replace(laptop, context_tokens=1024, concurrency=4, cache="warm"),
        replace(laptop, workload_class="structured", context_tokens=512, concurrency=2, cache="shared"),
    ]


def clean_run(seed: int) -> RunData:
    """Return a run in which nothing is wrong: one of the loads, noisy or not, by the seed.

    Clients and nodes measure nothing in virtual time, so what they find where all is well is put into the records.
    """
    loads = clean_loads()
    turn, number = divmod(seed, len(loads) + 1)
    scenario = scenario_of(seed, CLEAN_SCENARIOS[turn % len(CLEAN_SCENARIOS)])
    run = replayed(scenario) if number == len(loads) else rehearse(loads[number].sweep, scenario)
    rng = np.random.default_rng(seed)
    calm = tuple(_calm(trial, rng) for trial in run.trials)
    return _on_read_nodes(replace(run, trials=calm), rng)
