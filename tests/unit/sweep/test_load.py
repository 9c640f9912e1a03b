"""Sweep files and --set: what is wrong is said with its place."""

# ruff: noqa: E501 - messages stand here as they are printed
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from harness.errors import InputError
from harness.sweep.load import load_recipe_of, load_sweep
from tests.unit.sweep.sweeps import error_of, expanded, knobs, sweep


def test_unknown_keys() -> None:
    assert error_of("incumbant: today\nrepeat: {lunches: 2}\ntune: {confirm: {bests: 2}}\n") == snapshot("""\
s.yaml:3:1: unknown key "incumbant"
  Did you mean "incumbent"? Known here: budget, checks, compare, configurations, exclude, incumbent, knobs, limits, margin, mix, nightly, objective, on_refused, recipe, repeat, sweep, tune, workload, zip.
  Also: s.yaml:4:10: unknown key "lunches" in repeat
    Did you mean "launches"?
  Also: s.yaml:5:18: unknown key "bests" in tune.confirm
    Did you mean "best"?\
""")


def test_wrong_types() -> None:
    assert error_of(
        "repeat: {launches: two, drafts: 0}\nexclude: {a: 1}\non_refused: halt\nchecks: garble\n"
    ) == snapshot("""\
s.yaml:3:20: repeat.launches: expected a whole number, not "two"
  Also: s.yaml:3:33: repeat.drafts: 0 is not allowed (at least 1)
  Also: s.yaml:4:10: exclude: expected a list, not {"a": 1}
  Also: s.yaml:5:13: on_refused: "halt" is not allowed (allowed: 'skip' or 'stop')
  Also: s.yaml:6:9: checks: expected a list, not "garble"\
""")


def test_units() -> None:
    text = 'margin: 300%\nbudget: {time: soon, cell: 0s, finish_by: "24:00"}\nnightly: {idle_for: true}\n'
    assert error_of(text) == snapshot("""\
s.yaml:3:9: margin: a share lies between 0 and 1: write 3% or 0.03
  Also: s.yaml:4:16: budget.time: not a duration: 'soon' (write 30s, 10m, 12h or 1h30m)
  Also: s.yaml:4:28: budget.cell: a duration must be more than nothing
  Also: s.yaml:4:43: budget.finish_by: expected a time of day: write "06:30"
  Also: s.yaml:5:21: nightly.idle_for: expected a duration: write 30s, 10m, 12h or 1h30m\
""")


def test_missing_name_and_recipe() -> None:
    assert error_of("knobs: {}\n", head="") == snapshot("""\
s.yaml:1:1: "sweep" is missing
  Also: s.yaml:1:1: "recipe" is missing\
""")


def test_unknown_recipe() -> None:
    with pytest.raises(InputError) as caught:
        load_recipe_of(sweep("", head="sweep: a\nrecipe: vllm-cpu-tini\n"))
    assert str(caught.value).startswith('s.yaml:2:9: unknown recipe "vllm-cpu-tini"\n  Did you mean "vllm-cpu-tiny"?')


def test_unknown_metrics_and_statistics() -> None:
    text = "objective: second\nlimits: {ttft: {at_most: 3}, ttft_s.p59: {at_most: 3}, tpot_s: {}}\n"
    assert error_of(text) == snapshot("""\
s.yaml:3:12: unknown objective "second"
  Did you mean "seconds"? Known here: acceptance_length, acceptance_ratio, aggregate_tokens_per_s, cached_tokens, decode_aggregate_tokens_per_s, decode_tokens_per_s, delivered_per_step, drafts, inter_chunk_max_s, inter_chunk_p50_s, inter_chunk_p95_s, iteration_s, output_tokens, preemptions, prefill_tokens_per_s, prompt_tokens, request_s, seconds, step_s, time_to_answer_s, tpot_s, ttft_s, worst_stream_tokens_per_s.
  Also: s.yaml:4:10: unknown metric "ttft"
    Did you mean "ttft_s"?
  Also: s.yaml:4:30: unknown statistic "p59"
    Did you mean "p99"?
  Also: s.yaml:4:64: tpot_s has no bound
    Write at_most or at_least.\
""")


def test_unknown_names_of_configurations() -> None:
    text = "configurations: {deep: {num_speculative_tokens: 7}}\nincumbent: deeep\ncompare: {base: today, candidate: deap}\nnightly: {configurations: [shallow]}\n"
    assert error_of(text) == snapshot("""\
s.yaml:4:12: no configuration "deeep"
  Did you mean "deep"? Known here: deep, today.
  Also: s.yaml:5:35: no configuration "deap"
    Did you mean "deep"?
  Also: s.yaml:6:28: no configuration "shallow"\
""")


def test_mix() -> None:
    text = "mix: {by: bytes, class: {}, cache: {cold: -1}, concurrency: {1: 0, 4: 0}, temperature: 3}\n"
    assert error_of(text) == snapshot("""\
s.yaml:3:7: mix.by needs a trace
  Name one in `workload`.
  Also: s.yaml:3:11: mix.by: expected requests or tokens
  Also: s.yaml:3:25: mix.class: expected a weight for each value
    For example {code: 5, prose: 1}.
  Also: s.yaml:3:43: the weight of cold is no number from 0 up
  Also: s.yaml:3:61: every weight is 0
  Also: s.yaml:3:88: mix.temperature: expected a weight for each value
    For example {code: 5, prose: 1}.\
""")


def test_mix_by_needs_a_trace() -> None:
    assert error_of("mix: {by: requests}\n") == snapshot("""\
s.yaml:3:7: mix.by needs a trace
  Name one in `workload`.\
""")


def test_mix_names_known_knobs_and_values() -> None:
    assert error_of("mix: {concurency: {1: 1}, class: {code: 2, cod: 1}, concurrency: {1: 2, 1.5: 1}}\n") == snapshot("""\
s.yaml:3:7: unknown knob "concurency" in recipe vllm-cpu-tiny
  Did you mean "concurrency"? Known here: args, cache, class, command, concurrency, context_tokens, draft_model, draft_sample_method, dtype, max_model_len, max_num_batched_tokens, max_num_seqs, method, model, num_speculative_tokens, output_tokens, prompt_lookup_max, temperature, thinking, thinking_tokens, top_p, env.NAME.
  Also: s.yaml:3:44: class: "cod" is not allowed (allowed: "prose", "code", "structured", "agentic", "repetitive", "vision")
  Also: s.yaml:3:73: concurrency: expected a whole number, not 1.5\
""")


def test_trace() -> None:
    text = "workload: {trace: t.jsonl, arrivals: poisson, no_text: drop, idle: {at_least: 3s}}\nknobs: {class: code}\n"
    assert error_of(text) == snapshot("""\
s.yaml:3:56: workload.no_text: expected refuse, or {fill: CLASS}
  Also: s.yaml:3:62: "at_most" is missing in workload.idle
  Also: s.yaml:3:69: unknown key "at_least" in workload.idle
    Did you mean "at_most"?\
""")


def test_a_class_beside_a_trace() -> None:
    assert error_of("workload: {trace: t.jsonl, arrivals: poisson}\nknobs: {class: code}\n") == snapshot("""\
s.yaml:3:38: poisson arrivals need rate_per_s
  Also: s.yaml:4:9: `class` has no meaning beside a trace\
""")


def test_repeat() -> None:
    assert error_of("repeat: {launches: 3, max_launches: 2}\n") == snapshot(
        "s.yaml:3:37: max_launches is below launches, 3"
    )


def test_an_empty_line_of_exclude() -> None:
    assert error_of("exclude: [{}]\n") == snapshot("s.yaml:3:11: an empty line would exclude everything")


def test_what_has_a_unit_is_read() -> None:
    loaded = sweep('margin: 5%\nbudget: {time: 1h30m, cell: 90, finish_by: "06:30"}\n').file
    assert loaded.margin == 0.05
    assert (loaded.budget.time, loaded.budget.cell, loaded.budget.finish_by) == (5400.0, 90.0, "06:30")


def test_what_is_used_by_later_commands() -> None:
    loaded = sweep(
        "mix: {class: {code: 1}}\ntune: {}\nnightly: {}\ncompare: {base: today, candidate: {num_speculative_tokens: 2}}\n"
    )
    assert {later.key: later.used_by for later in loaded.later_keys} == snapshot(
        {"compare": "ab", "tune": "tune", "nightly": "nightly"}
    )


def test_set_replaces_a_knob_and_a_key() -> None:
    changed = ["num_speculative_tokens=[1, 2]", "budget.time=2h", "margin=1%", "knobs.concurrency=4", "env.X=on"]
    loaded = sweep("knobs: {num_speculative_tokens: 4}\nbudget: {time: 1h, cell: 5m}\n", set_overrides=changed)
    assert loaded.file.knobs == {"num_speculative_tokens": [1, 2], "concurrency": 4, "env.X": "on"}
    assert (loaded.file.budget.time, loaded.file.budget.cell, loaded.file.margin) == (7200.0, 300.0, 0.01)
    assert loaded.set_knobs == {"num_speculative_tokens", "concurrency", "env.X"}


def test_set_wins_over_another_spelling_and_over_zip() -> None:
    text = "knobs: {--max-num-seqs: 4}\nzip: {pair: {num_speculative_tokens: [1, 2], dtype: [bfloat16, float32]}}\n"
    expansion = expanded(text, set_overrides=["max_num_seqs=8", "num_speculative_tokens=6"])
    assert knobs(expansion, "max_num_seqs", "num_speculative_tokens", "dtype") == [
        (8, 6, "bfloat16"),
        (8, 6, "float32"),
    ]


def test_the_last_set_wins() -> None:
    expansion = expanded("", set_overrides=["num_speculative_tokens=1", "num_speculative_tokens=2"])
    assert knobs(expansion, "num_speculative_tokens") == [(2,)]


@pytest.mark.parametrize(
    "option",
    [
        "x",
        "=5",
        "x=[",
        "buget.time=1h",
        "repeat.lunches=2",
        "num_speculative_tokens=-1",
        "bugs=1",
        "margin=x",
        "knobs=3",
    ],
)
def test_errors_of_set_name_the_option(option: str) -> None:
    assert error_of("", set_overrides=[option]).startswith(f"--set {option}: ")


def test_set_twice_under_two_names() -> None:
    assert error_of("", set_overrides=["max_num_seqs=8", "--max-num-seqs=4"]) == snapshot(
        '--set --max-num-seqs=4: max_num_seqs is set twice: here as "--max-num-seqs", and as "max_num_seqs" at --set max_num_seqs=8'
    )


def test_the_file_is_hashed_without_set(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("sweep: a\nrecipe: vllm-cpu-tiny\n", encoding="utf-8")
    assert load_sweep(file).sha256 == load_sweep(file, set_overrides=["concurrency=2"]).sha256


def test_loading_a_sweep_imports_no_heavy_library() -> None:
    code = "import sys, harness.sweep.cells, harness.recipe.find; print(sorted({'pandas','matplotlib','optuna','scipy','numpy','rich','pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
