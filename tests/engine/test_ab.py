"""`harness ab` on the real engine: speculation is better than none here, and an engine is as fast as itself.

About five minutes on two quiet cores, nearly all of it six boots.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.comparing import book_for, stored_comparison
from harness.cli.loading import summaries_of
from harness.records.verdict import Comparison
from harness.stats.noise import NoiseBook
from harness.store.layout import resolve_run
from harness.store.reader import read_run

pytestmark = pytest.mark.engine
SWEEP = """\
sweep: paid
recipe: vllm-cpu-tiny
knobs: {class: prose, context_tokens: 256, concurrency: 1, output_tokens: 96}
configurations:
  none: {num_speculative_tokens: 0}
  four: {num_speculative_tokens: 4}
repeat: {drafts: 240}
"""


def ab(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run it and return exit code and stderr."""
    (folder / "paid.yaml").write_text(SWEEP)
    command = [sys.executable, "-m", "harness", "ab", str(folder / "paid.yaml"), "--root", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800, env=dict(os.environ))
    return done.returncode, done.stderr


def found(folder: Path) -> Comparison:
    run_folder = resolve_run("latest", root=folder)
    run = read_run(run_folder)
    comparison = stored_comparison(run_folder, run, summaries_of(run))
    assert comparison is not None
    return comparison


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ab")


def test_speculation_is_better_than_none(folder: Path) -> None:
    code, said = ab(folder, "--base", "none", "--candidate", "four", "--launches", "2")
    comparison = found(folder)
    assert code == 0, said
    assert comparison.verdict == "better", said
    assert "four is better than none: +" in said
    launches = read_run(resolve_run("latest", root=folder)).launches
    measured = [launch for launch in launches if launch.outcome == "measured"]  # a slow boot is made again
    order = "".join(str(launch.configuration.num_speculative_tokens) for launch in measured)
    assert order in ("0440", "4004")
    assert comparison.effect is not None and comparison.effect.prompts > 1
    parts = {part.metric: part.effect for part in comparison.overall}
    accepted = parts["delivered_per_step"]
    assert accepted is not None and accepted.low > 0, "more tokens per step is why"


def test_four_is_no_better_than_four(folder: Path) -> None:
    code, said = ab(folder, "--base", "four", "--same", "--launches", "1")
    comparison = found(folder)
    assert comparison.verdict in ("no difference", "cannot tell"), said
    assert (code == 0) is ("that is the noise floor of this rig" in said), said
    assert len(list(folder.glob("results/rigs/*/noise.jsonl"))) == (1 if code == 0 else 0)
    run_folder = resolve_run("latest", root=folder)
    assert book_for(run_folder, read_run(run_folder)) == NoiseBook(), "its own noise is not held against it"
