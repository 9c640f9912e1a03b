"""How far the simulator is from what was measured. `pytest -s` prints the tables; docs/ holds them with a figure."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from benchmarks.simulator_calibration import DOCS, REASONS, Comparison, comparisons, figure, text
from benchmarks.simulator_fit import H200_CONTEXT_TOKENS, fit_curves, fit_gpu
from benchmarks.simulator_tables import FITTED_TABLE, PREDICTED_TABLE, TABLES, cells, measured_steps_s, others, rows
from harness.simulator.model import Scheduling, Speculation, StepLoad, acceptance, step_law, step_s
from harness.simulator.truth import Truth, load_truth


@pytest.fixture(scope="module")
def compared() -> tuple[Comparison, Comparison]:
    return comparisons()


def test_the_fitted_table_is_met(compared: tuple[Comparison, Comparison]) -> None:
    fitted, _ = compared
    print(text(compared))
    assert len(fitted.measured) == 20
    assert fitted.share(fitted.model, "decode") >= 0.8
    assert fitted.share(fitted.model, "ttft") >= 0.8


def test_the_other_table_is_predicted(compared: tuple[Comparison, Comparison]) -> None:
    """Decode rates, and both metrics together. TTFT alone stays at 12 of 19: see the reasons of its misses."""
    _, predicted = compared
    decode, ttft = predicted.share(predicted.model, "decode"), predicted.share(predicted.model, "ttft")
    assert len(predicted.measured) == 19
    assert decode >= 0.7
    assert ttft >= 0.6
    assert (decode + ttft) / 2 >= 0.7


def test_a_constant_predicts_little(compared: tuple[Comparison, Comparison]) -> None:
    for each in compared:
        for metric in ("decode", "ttft"):
            assert each.share(each.constant, metric) < 0.3 < each.share(each.model, metric)


def test_every_miss_has_a_reason_and_every_reason_a_miss(compared: tuple[Comparison, Comparison]) -> None:
    missed = {(cell.name, metric) for each in compared for cell, metric, _ in each.misses()}
    assert missed == set(REASONS)


def test_the_committed_list_and_figure_are_current(compared: tuple[Comparison, Comparison]) -> None:
    assert (DOCS / "simulator_calibration.md").read_text() == text(compared)
    drawn = figure(compared)
    assert [axes.get_title().splitlines()[0] for axes in drawn.axes] == [each.title for each in compared]
    assert (DOCS / "simulator_calibration.svg").stat().st_size > 10_000


def test_other_published_rates_are_met_within_a_fifth_but_for_filler() -> None:
    missed = {
        (row["truth"], row["workload_class"])
        for row, modelled in others()
        if abs(modelled / float(row["decode_tokens_per_s"]) - 1) > 0.2
    }
    assert missed == {("vision-exp-anemll", "filler")}


def test_the_published_pairing_of_7_greedy_loses_against_5_probabilistic() -> None:
    rates = {row["k"]: modelled for row, modelled in others() if "issue #84" in row["source"]}
    assert rates["7"] < rates["5"]


def test_undisturbed_steps_are_met() -> None:
    cost = load_truth("0731-anemll").cost
    for context_tokens, streams, measured_s in measured_steps_s():
        load = StepLoad(5, streams, streams * (context_tokens + 90), streams * 6)
        assert step_s(cost, load, capture_limit_tokens=36) == pytest.approx(measured_s, rel=0.06)


def test_output_length_explains_a_good_part_of_what_two_tables_differ_by(
    compared: tuple[Comparison, Comparison],
) -> None:
    """The same cell differs up to 2.3 times between the tables; in the model it does too."""
    short, long = ({cell.name: cell for cell in cells(name)} for name in (FITTED_TABLE, PREDICTED_TABLE))
    ratios = {name: long[name].decode_tokens_per_s / short[name].decode_tokens_per_s for name in long}
    modelled = [
        dict(zip((cell.name for cell in each.measured), each.model, strict=True))["8192 x 4"] for each in compared
    ]
    assert max(ratios.values()) == pytest.approx(2.33, abs=0.01)
    assert ratios["8192 x 4"] == max(ratios.values())
    assert (1 + modelled[1].decode_ratio) / (1 + modelled[0].decode_ratio) == pytest.approx(1, abs=0.15)


class TestH200:
    """One GPU, one dense model, one synthetic acceptance: which k is best depends on the number of streams."""

    def test_steps_are_met(self) -> None:
        truth = load_truth("qwen3-8b-h200")
        for row in rows("h200_qwen3_8b_steps.csv"):
            k, streams, measured_s = int(row["k"]), int(row["concurrency"]), float(row["step_s"])
            assert step_of(truth, k, streams, H200_CONTEXT_TOKENS) == pytest.approx(measured_s, rel=0.05)

    def test_the_committed_constants_are_what_a_fit_from_elsewhere_finds(self) -> None:
        truth = load_truth("qwen3-8b-h200")
        fitted, committed = refitted("qwen3-8b-h200"), truth.cost
        for k, streams in ((0, 1), (3, 6), (5, 64), (7, 64)):
            again = step_s(fitted.cost, decode_load(k, streams, H200_CONTEXT_TOKENS))
            assert again == pytest.approx(step_s(committed, decode_load(k, streams, H200_CONTEXT_TOKENS)), rel=0.01)

    @pytest.mark.parametrize(("streams", "best"), [(1, 7), (6, 7), (64, 3)])
    def test_the_best_k_falls_with_concurrency(self, streams: int, best: int) -> None:
        truth = refitted("qwen3-8b-h200")

        def rate(k: int) -> float:
            law = step_law(truth, Speculation(k=k), workload_class="synthetic", temperature=1.0)
            return law.mean_tokens / step_of(truth, k, streams, H200_CONTEXT_TOKENS)

        assert max((0, 3, 5, 7), key=rate) == best


class TestLaptop:
    def test_steps_are_met(self) -> None:
        truth = load_truth("vllm-cpu-tiny")
        table = rows("vllm_cpu_tiny_steps.csv")
        errors = [
            step_of(truth, int(row["k"]), int(row["concurrency"]), int(row["context_tokens"]) + 64)
            / float(row["step_s"])
            - 1
            for row in table
        ]
        assert len(errors) == 81
        assert sum(abs(error) <= 0.1 for error in errors) / len(errors) >= 0.85
        assert max(map(abs, errors)) < 0.2

    def test_the_best_k_at_short_prompts_lies_inside(self) -> None:
        truth = load_truth("vllm-cpu-tiny")

        def rate(k: int) -> float:
            law = step_law(truth, Speculation(k=k), workload_class="prose", temperature=0.0)
            return law.mean_tokens / step_of(truth, k, 1, 320)

        assert 4 <= max(range(11), key=rate) <= 8


@pytest.mark.parametrize("name", ["0731-anemll", "vision-exp-anemll", "qwen3-8b-h200", "vllm-cpu-tiny"])
def test_published_curves_are_met(name: str) -> None:
    truth = load_truth(name)
    for row in rows("acceptance_by_position.csv"):
        if row["truth"] == name and row["workload_class"] != "numbered_words":
            curve = acceptance(
                truth, Speculation(k=int(row["k"])), workload_class=row["workload_class"], temperature=0.0
            )
            reached = 1.0
            for conditional in curve[: int(row["position"]) + 1]:
                reached *= conditional
            assert reached == pytest.approx(float(row["reached_ratio"]), abs=0.07)


def test_stage_c_steps_are_met_but_for_one_contaminated_cell() -> None:
    truth = load_truth("preview-stage-c")
    errors = {}
    for row in rows("stage_c_steps.csv"):
        k, streams = int(row["k"]), int(row["concurrency"])
        measured_s = streams * (1 + float(row["accepted_per_draft"])) / float(row["aggregate_tokens_per_s"])
        errors[k, streams] = step_of(truth, k, streams, 512) / measured_s - 1
    assert {cell for cell, error in errors.items() if abs(error) > 0.16} == {(4, 16)}


def test_every_row_names_its_source() -> None:
    tables = sorted(TABLES.glob("*.csv"))
    assert len(tables) == 12
    for table in tables:
        assert all(row["source"] for row in rows(table.name))


def test_the_published_scheduler_is_the_recipes() -> None:
    assert Scheduling() == Scheduling(
        max_num_seqs=6, max_batched_tokens=8192, long_prefill_tokens=1024, max_inflight_prefills=1
    )


@cache
def refitted(truth_name: str) -> Truth:
    """The truth with costs and acceptance fitted anew to its tables."""
    truth = load_truth(truth_name)
    curve = fit_curves(truth)
    drafts = replace(
        truth.drafts,
        log_odds={"synthetic": curve["synthetic"]},
        log_odds_per_position=curve["slope"],
        difficulty_sd=curve["sd"],
    )
    costs: dict[str, Any] = fit_gpu(truth)
    return replace(truth, cost=replace(truth.cost, **costs), drafts=drafts)


def decode_load(k: int, streams: int, context_tokens: int) -> StepLoad:
    return StepLoad(k, streams, streams * context_tokens, streams * (k + 1))


def step_of(truth: Truth, k: int, streams: int, context_tokens: int) -> float:
    return step_s(truth.cost, decode_load(k, streams, context_tokens))
