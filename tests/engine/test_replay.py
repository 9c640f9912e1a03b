"""The example trace on the real engine: every request is served, as long as counted, with the reuse it promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.store.layout import resolve_run
from harness.store.reader import read_run

pytestmark = pytest.mark.engine
SWEEP = Path(__file__).parents[2] / "sweeps" / "my_workload.yaml"
SETTINGS = ("num_speculative_tokens=[2]", "workload.sample.sessions=20")
DOUBTS = {"replay_incomplete", "recorded_reuse_differs", "prompt_off_target", "requests_failed", "some_requests_failed"}


def harness(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=dict(os.environ))


@pytest.mark.parametrize("arrivals", ["closed", "recorded"])
def test_the_example_trace_is_replayed(tmp_path: Path, arrivals: str) -> None:
    overrides = [word for setting in (*SETTINGS, f"workload.arrivals={arrivals}") for word in ("--set", setting)]

    done = harness("sweep", str(SWEEP), "--root", str(tmp_path), *overrides)

    assert done.returncode == 0, done.stderr
    shown = json.loads(harness("show", "--json", "--root", str(tmp_path)).stdout)
    assert len({cell["class"] for cell in shown["cells"]}) >= 3
    kinds = {doubt["kind"] for cell in shown["cells"] for doubt in cell["doubts"]}
    assert not kinds & DOUBTS, shown["cells"]
    for trial in read_run(resolve_run("latest", root=tmp_path)).trials:
        assert trial.cell.load.recorded is not None
        assert len(trial.requests) == trial.cell.load.recorded.requests
        for request in trial.requests:
            assert request.finished, request.error
            assert request.prompt_tokens == request.expected_prompt_tokens
            assert request.sent_s is not None and request.sent_s >= request.scheduled_s - 1e-6
