"""Made prompts on the real engine: as long as promised, cold where they should be, and built in a minute."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import prompt_speed
from harness.store.layout import resolve_run
from harness.store.reader import read_run
from harness.workload.classes import CONTENT_CLASSES, VISION
from harness.workload.fitting import tolerance_tokens

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


def test_the_prompts_of_the_largest_sweep_are_built_in_a_minute() -> None:
    built = asyncio.run(prompt_speed.measure(REPOSITORY / prompt_speed.SWEEP))

    assert built.took_s <= prompt_speed.MOST_S
    assert built.counts <= prompt_speed.MOST_COUNTS_PER_PROMPT * built.prompts
    assert built.worst_off <= 1.0
