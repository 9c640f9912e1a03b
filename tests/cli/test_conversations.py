"""Warm agentic cells, from the sweep file to the tables, on the simulated engine."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from harness.store.layout import resolve_run
from harness.store.reader import read_run
from harness.workload.spec import promised_tokens
from tests.system.driver import Desk

REHEARSED = ("--engine", "simulated", "--scenario", "quiet")


GROWS = "2048 to 3008"


def sweep_in(folder: Path, more: str = "", *, drafts: int = 150) -> str:
    path = folder / "mine.yaml"
    knobs = "num_speculative_tokens: [2, 3], class: agentic, cache: warm, output_tokens: 64"
    path.write_text(
        f"sweep: mine\nrecipe: vllm-cpu-tiny\nknobs: {{{knobs}, context_tokens: 2K, concurrency: [1, 2]{more}}}\n"
        f"repeat: {{drafts: {drafts}}}\n"
    )
    return str(path)


def test_the_tokens_that_are_found_in_the_cache_grow_with_the_conversation(desk: Desk, tmp_path: Path) -> None:
    planned = desk.run("plan", sweep_in(tmp_path), *REHEARSED)
    done = desk.run("sweep", sweep_in(tmp_path), *REHEARSED, "--root", str(tmp_path))

    assert done.code == 0, done.err
    for said in (planned.err, next(tmp_path.rglob("*report.md")).read_text()):
        assert f"conversations; prompts grow turn by turn: {GROWS} tokens" in " ".join(said.split())
    cells = desk.run("show", "--json", "--root", str(tmp_path)).document()["cells"]
    kinds = {doubt["kind"] for cell in cells for doubt in cell["doubts"]}
    assert not kinds & {"reused_prefix_missed", "prompt_off_target", "trial_failed"}
    trials = read_run(resolve_run("latest", root=tmp_path)).trials
    assert {trial.cell.load.concurrency for trial in trials} == {1, 2}
    for concurrency in (1, 2):
        assert len({trial.workload_id for trial in trials if trial.cell.load.concurrency == concurrency}) == 1
    for trial in trials:
        load = trial.cell.load
        for stream in range(load.concurrency):
            turns = sorted((one for one in trial.requests if one.stream == stream), key=lambda one: one.turn)
            for one in turns:
                promised = promised_tokens(load, one.turn)
                assert one.prompt_tokens == one.expected_prompt_tokens == pytest.approx(promised, abs=4)
            assert len(turns) > 1
            for former, later in pairwise(turns):
                assert former.prompt_tokens and former.cached_tokens and later.cached_tokens
                if promised_tokens(load, later.turn) == load.context_tokens:
                    continue  # another conversation, on the first prefix
                assert former.prompt_tokens - 64 - 16 <= later.cached_tokens <= former.prompt_tokens, "blocks of 64"
                assert later.cached_tokens > former.cached_tokens


def test_a_conversation_without_room_is_a_void_cell_and_not_the_end(desk: Desk, tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path, ", max_model_len: 2500")

    done = desk.run("sweep", sweep, *REHEARSED, "--root", str(tmp_path))

    assert done.code == 4, done.err
    cells = desk.run("show", "--json", "--root", str(tmp_path)).document()["cells"]
    for cell in cells:
        (doubt,) = cell["doubts"]
        assert "and the model takes 2500" in doubt["evidence"]
