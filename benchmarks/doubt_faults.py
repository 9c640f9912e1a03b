"""Faults of simulated engines, each with the doubt that it has to raise."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.rehearsing import rehearse
from harness.records.journal import RunData
from harness.records.trial import MEASURING_VERSION
from harness.simulator.faults import ForeignTraffic, JitStall, SlowState, Throttling
from harness.simulator.scenario import Scenario, load_scenario
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from harness.stats.sameness import sameness_of_launches
from harness.store.rig import StoredCanary
from harness.workload.corpus import load_corpus

PAIR, LAPTOP = "dspark-2x-spark", "vllm-cpu-tiny"
_KNOBS = {PAIR: "checkpoint: vision-exp, image: anemll-0.1.1, swa_prefix: 1, ", LAPTOP: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A sweep of one load."""

    recipe: str = PAIR
    depths: tuple[int, ...] = (6,)  # num_speculative_tokens
    workload_class: str = "code"
    context_tokens: int = 256
    concurrency: int = 1
    cache: str = "cold"
    output: str = "64"
    temperature: float = 0.6
    launches: int = 1
    drafts: int = 60

    @property
    def sweep(self) -> str:
        """As a sweep file."""
        return (
            f"sweep: doubts\nrecipe: {self.recipe}\nrepeat: {{launches: {self.launches}, drafts: {self.drafts}}}\n"
            f"knobs: {{{_KNOBS[self.recipe]}num_speculative_tokens: {list(self.depths)}, class: {self.workload_class}, "
            f"context_tokens: {self.context_tokens}, concurrency: {self.concurrency}, cache: {self.cache}, "
            f"output_tokens: {self.output}, temperature: {self.temperature}}}\n"
        )

    @property
    def words(self) -> str:
        """For a table."""
        return (
            f"{self.recipe}, {self.workload_class}, {self.cache}, {self.context_tokens} tokens, "
            f"{self.concurrency} at a time, output {self.output}, T = {self.temperature:g}, k = {self.depths[0]} and "
            f"{self.depths[-1]}, {self.launches} launches each"
        )


MANY = Load(depths=(6,), concurrency=4, output="32", drafts=240)  # requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong, and a run in which it does."""

    words: str
    run: Callable[[int], RunData]  # by seed
    limits: Limits | None = None  # None: those of the run
    records: bool = False  # a clean run whose records were spoilt


def kinds_of(run: RunData, *, limits: Limits | None = None) -> frozenset[str]:
    """Return every kind of doubt that a run raises, with launches that were refused for one."""
    assert run.plan is not None  # rehearse writes one
    known = limits or Limits(least_drafts=run.plan.drafts_per_cell, canary_ratio=run.plan.canary_limit_ratio)
    cells = summarise_run(run.trials, run.launches, known)
    found = {doubt.kind for cell in cells for doubt in cell.doubts}
    found |= {doubt.kind for cell in cells for trial in cell.trials for doubt in trial.doubts}
    refused = {"slow_canary": "slow_launch", "wrong_configuration": "wrong_configuration"}
    found |= {refused[launch.outcome] for launch in run.launches if launch.outcome in refused}
    off = [launch for launch in run.launches if launch.configuration.num_speculative_tokens == 0]
    compared = sameness_of_launches(off, [launch for launch in run.launches if launch not in off])
    return frozenset(found | ({compared.doubt.kind} if compared.doubt else set()))


def scenario_of(seed: int, name: str = "default", **faults: Any) -> Scenario:
    """Return a scenario with faults of its own."""
    scenario = _scenario(name)
    return replace(scenario, seed=seed, faults=replace(scenario.faults, **faults))


@cache
def _scenario(name: str) -> Scenario:
    return load_scenario(name)


def _simulated(words: str, load: Load, name: str = "default", **faults: Any) -> Fault:
    return Fault(words=words, run=lambda seed: rehearse(load.sweep, scenario_of(seed, name, **faults)))


# -- traces ------------------------------------------------------------------------------------------------------------


@cache
def _trace(*, texts: bool = True, long: bool = False) -> tempfile.TemporaryDirectory[str]:
    """A folder, as long as the process lives, with a trace of 24 conversations, half of them with a second turn."""
    folder = tempfile.TemporaryDirectory(prefix="doubts-")
    passages = load_corpus("prose").passages
    lines = []
    for number in range(24):
        text = "\n\n".join(passages[number : number + 4])[:1200]
        line: dict[str, Any] = {"timestamp": 1.0 * number, "max_tokens": 24, "temperature": 0.6}
        if texts:
            text *= {5: 34, 7: 20}.get(number, 1) if long else 1  # the model takes the shorter one of the two
            line["messages"] = [{"role": "user", "content": f"{number} {text}"}]
        else:
            line["input_length"], line["output_length"] = 300, 24
        lines.append(json.dumps(line))
        if texts and number % 2:
            turns = [*line["messages"], {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And?"}]
            lines.append(json.dumps(line | {"messages": turns, "timestamp": number + 0.9}))
    (Path(folder.name) / "trace.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def replayed(scenario: Scenario, options: str = "", *, texts: bool = True, long: bool = False) -> RunData:
    """Return the run of a sweep that replays the trace."""
    folder = _trace(texts=texts, long=long).name
    text = (
        f"sweep: doubts\nrecipe: {LAPTOP}\nrepeat: {{drafts: 1}}\nworkload: {{trace: trace.jsonl{options}}}\n"
        "knobs: {num_speculative_tokens: [0, 2], concurrency: 2}\n"
    )
    return rehearse(text, scenario, name=str(Path(folder) / "sweep.yaml"))


def _replay(words: str, options: str = "", *, texts: bool = True, long: bool = False, **faults: Any) -> Fault:
    return Fault(words=words, run=lambda seed: replayed(scenario_of(seed, **faults), options, texts=texts, long=long))


# -- slow boots --------------------------------------------------------------------------------------------------------


@cache
def _healthy_canary(load: Load) -> StoredCanary:
    (launch,) = rehearse(load.sweep, scenario_of(0, "quiet")).launches
    assert launch.canary_before is not None and launch.live is not None
    return StoredCanary(
        at=launch.started_at,
        configuration_id=launch.configuration.configuration_id,
        engine_version=launch.live.engine_version,
        measuring_version=MEASURING_VERSION,
        reading=launch.canary_before,
    )


def _slow(words: str) -> Fault:
    load = Load()
    faults: dict[str, Any] = {"slow_state": SlowState(factor=1.5)}
    return Fault(
        words=words,
        run=lambda seed: rehearse(load.sweep, scenario_of(seed, **faults), canaries=(_healthy_canary(load),)),
    )


SIMULATED: dict[str, Fault] = {
    "nothing_measured": _simulated("every stream breaks off", Load(), cut_share=1.0),
    "requests_failed": _simulated("a third of the streams breaks off", MANY, cut_share=0.33),
    "no_finish_reason": _simulated("a third of the streams breaks off", MANY, cut_share=0.33),
    "engine_restarted": _simulated("counters begin at 0 in the window", Load(drafts=400), counters_reset_after_s=22.0),
    "wrong_configuration": _simulated("the worker kept its old k", Load(), "stale_worker"),
    "jit_in_window": _simulated(
        "a kernel compiles as the context grows past 1,024 tokens",
        Load(context_tokens=980, output="96"),
        jit_stall=JitStall(stall_s=8.0),
    ),
    "slow_launch": _slow("one node in a slow state of 1.5x"),
    "slow_boot": _slow("the same, also after the repetition"),
    "cold_cache_hits": _simulated("a third of each prompt is in the cache", Load(), "warm_cache"),
    "reused_prefix_missed": _simulated(
        "two thirds of each prefix were evicted", Load(cache="warm", context_tokens=1024), prefix_evicted_ratio=0.67
    ),
    "prompt_off_target": _simulated(
        "a template of 12 tokens that /tokenize does not count", Load(), template_tokens=12
    ),
    "foreign_traffic": _simulated(
        "somebody else's request every 2 s", Load(), foreign_traffic=ForeignTraffic(every_s=2.0, output_tokens=32)
    ),
    "counters_not_settled": _simulated("counters lag by 60 s", Load(), counter_lag_s=60.0),
    "canary_moved": _simulated(
        "steps get 10 % longer in two minutes", Load(drafts=600), throttling=Throttling(ratio_per_hour=3.0)
    ),
    "graphs_truncated": _simulated("graphs up to 40 tokens, steps of 42", Load(concurrency=6), "truncated_graphs"),
    "warmup_not_stable": _simulated(
        "steps get longer by a quarter from round to round",
        Load(context_tokens=2048),
        throttling=Throttling(ratio_per_hour=540.0, max_ratio=30.0),
    ),
    "output_degenerate": _simulated("half of the answers fall into a loop", Load(drafts=200), loop_share=0.5),
    "output_short": _simulated("the server ignores min_tokens", Load(output="1024", drafts=400), ignores_length=True),
    "greedy_text_differs": _simulated("a verifier lets wrong drafts through", Load(depths=(0, 6)), "other_text"),
    "synthetic_text": _replay("entries without a text", ", no_text: {fill: prose}", texts=False),
    "replay_incomplete": _replay("one entry longer than the model takes", long=True),
    "sent_late": _replay("arrivals a hundred times as fast", ", arrivals: recorded, speed: 100"),
    "recorded_reuse_differs": _replay("60 % of each prompt is in the cache", prefix_hit_ratio=0.6),
}
