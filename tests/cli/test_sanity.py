"""What launches answer at temperature 0: recorded by launch, the same with and without speculation, and private."""

from __future__ import annotations

import stat
from pathlib import Path

from harness.records.journal import RunData
from harness.records.launch import LaunchRecord
from harness.records.sanity import Sameness
from harness.run.answer_key import FILE, AnswerChains
from harness.run.sanity import PROMPTS
from harness.stats.sameness import sameness_of_launches, sameness_of_trials
from harness.store.layout import resolve_run
from harness.store.reader import read_run
from tests.cli.test_replay import trace_in
from tests.system.driver import Desk

SWEEP = """\
sweep: sane
recipe: vllm-cpu-tiny
knobs: {num_speculative_tokens: [0, 4], class: prose, context_tokens: 256, concurrency: 1, output_tokens: 16}
repeat: {launches: 2, drafts: 10}
"""
TRACE_SWEEP = """\
sweep: mine
recipe: vllm-cpu-tiny
workload: {trace: trace.jsonl.gz}
knobs: {num_speculative_tokens: [0, 2], concurrency: 1, temperature: 0}
repeat: {drafts: 1}
"""


def _run(desk: Desk, folder: Path, text: str, *, scenario: str = "default") -> RunData:
    (folder / "sweep.yaml").write_text(text)
    root = folder / "root"
    options = ("--engine", "simulated", "--scenario", scenario, "--root", str(root))
    done = desk.run("sweep", str(folder / "sweep.yaml"), *options)
    assert done.code == 0, done.err
    return read_run(resolve_run("latest", root=root))


def _arms(run: RunData) -> tuple[list[LaunchRecord], list[LaunchRecord]]:
    plain = [launch for launch in run.launches if launch.configuration.num_speculative_tokens == 0]
    return plain, [launch for launch in run.launches if launch not in plain]


def _compared(run: RunData) -> Sameness:
    return sameness_of_launches(*_arms(run))


def test_every_launch_answers_and_speculation_changes_no_text(desk: Desk, tmp_path: Path) -> None:
    run = _run(desk, tmp_path, SWEEP)
    assert [len(launch.greedy) for launch in run.launches] == [len(PROMPTS)] * 4
    assert {answer.unit for launch in run.launches for answer in launch.greedy} == {"token"}
    found = _compared(run)
    assert (found.compared, found.same, found.own_compared, found.own_same) == (12, 12, 12, 12)
    assert found.doubt is None


def test_a_verifier_that_lets_wrong_drafts_through_is_a_doubt(desk: Desk, tmp_path: Path) -> None:
    found = _compared(_run(desk, tmp_path, SWEEP, scenario="other_text"))
    assert (found.compared, found.same, found.own_same) == (12, 0, 12)
    assert found.doubt is not None and found.doubt.kind == "greedy_text_differs"


def test_greedy_answers_to_a_users_prompts_are_compared_by_keyed_hashes(desk: Desk, tmp_path: Path) -> None:
    trace_in(tmp_path)
    run = _run(desk, tmp_path, TRACE_SWEEP)
    arms = [[trial for trial in run.trials if trial.cell.configuration.num_speculative_tokens == k] for k in (0, 2)]
    found = sameness_of_trials(*arms)
    assert found.compared == found.same == 30
    assert found.source == "requests of the trace"


def test_the_key_is_for_its_owner_alone_and_lives_as_long_as_the_run(tmp_path: Path) -> None:
    first = AnswerChains(tmp_path)._read_key()
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert AnswerChains(tmp_path)._read_key() == first
    (tmp_path / FILE).write_bytes(b"cut")
    assert AnswerChains(tmp_path)._read_key() != first
