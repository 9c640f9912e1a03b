"""Cells over trials, the JSON document of a cell, and a whole run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.records.metrics import BY_POSITION, METRICS
from harness.records.trial import TrialRecord
from harness.stats.case import Limits
from harness.stats.cells import cell_document, summarise_run, valid_trial_ids
from tests.fakes.run_builder import RunShape, fake_run
from tests.unit.stats.build import delta, steady, trial

LIMITS = Limits(least_drafts=1)
COUNTERS = delta(drafts=10, draft_tokens=40, accepted_tokens=20, accepted_by_position=(10, 6, 3, 1))


def _trial(step_s: float, trial_id: str, **changes: Any) -> TrialRecord:
    return trial([steady(steps=10, tokens_per_step=3, step_s=step_s)], COUNTERS, trial_id=trial_id, **changes)


def test_a_cell_is_the_median_with_its_range() -> None:
    trials = [_trial(0.02, "a"), _trial(0.03, "b", launch_id="l2"), _trial(0.06, "c")]
    (summary,) = summarise_run(trials, [], LIMITS)
    assert summary.values["decode_tokens_per_s"] == pytest.approx(100.0)
    assert summary.spread["decode_tokens_per_s"] == pytest.approx((50.0, 150.0))
    assert summary.by_position == (1.0, 0.6, 0.3, 0.1)
    assert (summary.launches, len(summary.valid_trials), summary.drafts_in_all) == (2, 3, 30)
    assert "iteration_s" not in summary.spread
    assert summary.null_reasons["iteration_s"] == "the server does not count iterations"


def test_void_trials_are_kept_and_not_counted() -> None:
    trials = [_trial(0.02, "a"), _trial(0.2, "b", launch_id="l2", jit_lines=("compiled",))]
    (summary,) = summarise_run(trials, [], LIMITS)
    assert summary.values["decode_tokens_per_s"] == pytest.approx(150.0)
    assert (summary.launches, len(summary.trials), len(summary.valid_trials)) == (1, 2, 1)
    assert [one.kind for one in summary.doubts] == ["jit_in_window"]


def test_a_cell_of_void_trials_has_no_figures_and_says_why() -> None:
    (summary,) = summarise_run([_trial(0.02, "a", jit_lines=("compiled",))], [], LIMITS)
    assert summary.void and set(summary.values.values()) == {None} and summary.spread == {}
    assert set(summary.null_reasons) == {*METRICS, BY_POSITION}
    assert summary.null_reasons["ttft_s"] == "no valid trial: jit_in_window"


def test_a_trial_that_was_void_and_then_held_is_no_doubt_any_more() -> None:
    failed = trial([], delta(settled=False), trial_id="a", launch_id="l0", failure="the engine died")
    (summary,) = summarise_run([failed, _trial(0.02, "a")], [], LIMITS)
    assert (len(summary.trials), len(summary.valid_trials), summary.doubts) == (2, 1, ())
    assert summary.values["decode_tokens_per_s"] == pytest.approx(150.0)
    assert valid_trial_ids([summary]) == {"a"}


def test_the_same_doubt_of_two_trials_stands_once() -> None:
    trials = [_trial(0.02, name, jit_lines=("compiled",)) for name in "ab"]
    (summary,) = summarise_run(trials, [], LIMITS)
    assert len(summary.doubts) == 1


def test_the_ceiling_comes_from_the_cell_without_speculation_under_the_same_load() -> None:
    plain = trial([steady(steps=30, tokens_per_step=1, step_s=0.1)], k=0, trial_id="plain")
    elsewhere = trial([steady(steps=30, tokens_per_step=1, step_s=0.1)], k=0, trial_id="e", load={"context_tokens": 8})
    fast = _trial(0.02, "a")
    kinds = {
        summary.cell.configuration.num_speculative_tokens: [one.kind for one in summary.doubts]
        for summary in summarise_run([plain, fast], [], LIMITS)
    }
    assert kinds == {0: [], 4: ["above_ceiling"]}
    assert all(not summary.doubts for summary in summarise_run([elsewhere, fast], [], LIMITS))


def test_the_document_is_flat_and_plain_json() -> None:
    (summary,) = summarise_run([_trial(0.02, "a"), _trial(0.03, "b")], [], LIMITS)
    document = json.loads(json.dumps(cell_document(summary), allow_nan=False))
    assert set(METRICS) < set(document)
    assert {name: document[name] for name in ("num_speculative_tokens", "class", "cache")} == {
        "num_speculative_tokens": 4,
        "class": "prose",
        "cache": "cold",
    }
    assert (document["context_tokens"], document["concurrency"], document["asked_output_tokens"]) == (256, 1, 31)
    assert document["acceptance_by_position"] == [1.0, 0.6, 0.3, 0.1]
    assert document["spread"]["decode_tokens_per_s"] == pytest.approx([100.0, 150.0])
    assert [one["trial_id"] for one in document["trials"]] == ["a", "b"]
    assert document["trials"][0]["decode_tokens_per_s"] == pytest.approx(150.0)
    assert document["null_reasons"]["iteration_s"] and document["doubts"] == []


def test_a_configuration_that_leaves_k_to_the_engine_has_none_in_the_document() -> None:
    (summary,) = summarise_run([_trial(0.02, "a", k=None)], [], LIMITS)
    assert cell_document(summary)["num_speculative_tokens"] is None


def test_a_whole_run_keeps_the_truth_it_was_made_from() -> None:
    run = fake_run(RunShape(tokens=(0, 2, 4), with_doubts=False, with_failure=False))
    cells = summarise_run(run.trials, run.launches, LIMITS)
    assert len(cells) == 3 * 2 * 2
    assert all(not summary.void for summary in cells)
    for summary in cells:
        k = summary.cell.configuration.num_speculative_tokens
        assert (summary.values["acceptance_length"] is None) == (k == 0)
        assert summary.values["step_s"] is not None


def test_order_of_trials_inside_a_cell_does_not_move_its_figures() -> None:
    trials = [_trial(step_s, name) for step_s, name in ((0.02, "a"), (0.03, "b"), (0.05, "c"))]
    (one,), (other,) = summarise_run(trials, [], LIMITS), summarise_run(trials[::-1], [], LIMITS)
    assert (one.values, one.spread) == (other.values, other.spread)
    assert replace(one, trials=()) == replace(other, trials=())
