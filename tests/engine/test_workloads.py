"""Made prompts on the real engine: as long as promised, cold where they should be, and built in a minute."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import prompt_speed
from harness.stats.case import Limits
from harness.stats.cells import summarise_run
from harness.store.layout import resolve_run
from harness.store.reader import read_run
from harness.workload.classes import CONTENT_CLASSES, VISION
from harness.workload.fitting import tolerance_tokens
from harness.workload.growth import turn_tokens
from harness.workload.spec import promised_tokens

pytestmark = pytest.mark.engine
REPOSITORY = Path(__file__).parents[2]
CLASSES = sorted(name for name in CONTENT_CLASSES if name != VISION)  # the tiny model takes text alone
CONTEXTS = (256, 1024, 4096)
SWEEP = f"""
sweep: lengths
recipe: vllm-cpu-tiny
knobs:
  num_speculative_tokens: 2
  class: [{", ".join(CLASSES)}]
  context_tokens: [{", ".join(map(str, CONTEXTS))}]
  concurrency: 2
  cache: cold
  output_tokens: 8
repeat: {{drafts: 1}}
"""
LOST_TOKENS = 128 + 16  # of a prompt that is in the cache: a block that is not full, and the end of the template
AGENTS = """
sweep: agents
recipe: vllm-cpu-tiny
knobs:
  num_speculative_tokens: 2
  class: agentic
  context_tokens: [256, 1K, 4K]
  concurrency: 2
  cache: warm
  output_tokens: 32
repeat: {drafts: 60}
"""


def test_every_class_is_as_long_as_asked_and_cold(tmp_path: Path) -> None:
    sweep = tmp_path / "lengths.yaml"
    sweep.write_text(SWEEP)
    command = [sys.executable, "-m", "harness", "sweep", str(sweep), "--root", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=dict(os.environ))

    assert done.returncode == 0, done.stderr
    trials = read_run(resolve_run("latest", root=tmp_path)).trials
    measured = {(trial.cell.load.workload_class, trial.cell.load.context_tokens) for trial in trials}
    assert measured == {(name, tokens) for name in CLASSES for tokens in CONTEXTS}
    for trial in trials:
        asked = trial.cell.load.context_tokens
        assert len(trial.requests) >= 2
        for request in trial.requests:
            assert request.finished, request.error
            assert request.prompt_tokens == request.expected_prompt_tokens
            assert abs((request.prompt_tokens or 0) - asked) <= tolerance_tokens(asked)
        assert trial.counters.prefix_cache_hits == 0, (trial.cell.load, trial.counters)
        assert (trial.counters.prefix_cache_queries or 0) > 0


def test_a_warm_agent_finds_the_whole_prompt_before_each_turn(tmp_path: Path) -> None:
    sweep = tmp_path / "agents.yaml"
    sweep.write_text(AGENTS)
    command = [sys.executable, "-m", "harness", "sweep", str(sweep), "--root", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=dict(os.environ))

    assert done.returncode == 0, done.stderr
    run = read_run(resolve_run("latest", root=tmp_path))
    assert {trial.cell.load.context_tokens for trial in run.trials} == {256, 1024, 4096}
    for trial in run.trials:
        load, turns = trial.cell.load, {(one.stream, one.turn): one for one in trial.requests}
        new = least_hits = 0
        for (stream, turn), request in turns.items():
            assert request.finished, request.error
            promised = promised_tokens(load, turn)
            assert request.prompt_tokens is not None
            assert request.prompt_tokens == request.expected_prompt_tokens
            assert abs(request.prompt_tokens - promised) <= tolerance_tokens(promised)
            former = turns.get((stream, turn - 1))
            grew = former is not None and promised > promised_tokens(load, turn - 1)
            reusable = (
                former.prompt_tokens if former and grew else load.context_tokens - turn_tokens(load.context_tokens)
            )
            least_hits += (reusable or 0) - LOST_TOKENS
            new += grew
        assert new >= load.concurrency
        assert (trial.counters.prefix_cache_hits or 0) >= least_hits, (load, trial.counters, least_hits)
    summaries = summarise_run(run.trials, run.launches, Limits())
    doubts = {doubt.kind for summary in summaries for doubt in summary.doubts}
    assert not doubts & {"reused_prefix_missed", "prompt_off_target"}


def test_the_prompts_of_the_largest_sweep_are_built_in_a_minute() -> None:
    built = asyncio.run(prompt_speed.measure(REPOSITORY / prompt_speed.SWEEP))

    assert built.took_s <= prompt_speed.MOST_S
    assert built.counts <= prompt_speed.MOST_COUNTS_PER_PROMPT * built.prompts
    assert built.worst_off <= 1.0
