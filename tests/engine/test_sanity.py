"""Greedy text of the real engine with and without speculation: the fixed prompts of a whole sweep, compared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.run.sanity import PROMPTS
from harness.stats.sameness import sameness_of_launches
from harness.store.layout import resolve_run
from harness.store.reader import read_run

pytestmark = pytest.mark.engine
SWEEP = """\
sweep: sane
recipe: vllm-cpu-tiny
knobs: {num_speculative_tokens: [0, 4], class: prose, context_tokens: 256, concurrency: 1, output_tokens: 32}
repeat: {drafts: 20}
"""


def test_greedy_text_with_and_without_speculation(tmp_path: Path) -> None:
    (tmp_path / "sane.yaml").write_text(SWEEP)
    command = [sys.executable, "-m", "harness", "sweep", str(tmp_path / "sane.yaml"), "--root", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=dict(os.environ))

    assert done.returncode == 0, done.stderr
    launches = read_run(resolve_run("latest", root=tmp_path)).launches
    assert {launch.configuration.num_speculative_tokens for launch in launches} == {0, 4}
    arms = [[each for each in launches if each.configuration.num_speculative_tokens == k] for k in (0, 4)]
    found = sameness_of_launches(*arms)
    assert found.unit == "token"
    assert found.compared == len(PROMPTS) * min(len(arm) for arm in arms)
    # This engine's kernels give the same bytes for one token and for a batch of drafted ones.
    assert found.same == found.compared, found.sentence
    assert found.doubt is None
