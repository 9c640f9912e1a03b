"""Fit the constants of harness/simulator/truths on the tables of harness/simulator/calibration, and print them.

`python -m benchmarks.simulator_fit [NAME ...]`. The printed numbers are copied into the truth files, rounded; nothing
of this runs in the product.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, least_squares

from benchmarks.simulator_tables import (
    FITTED_TABLE,
    GATED,
    PUBLISHED,
    UNGATED,
    cells,
    measured_steps_s,
    model_errors,
    rows,
)
from harness.simulator.cell import CellLoad, expected_cell
from harness.simulator.model import Speculation, StepLoad, step_law, step_s
from harness.simulator.truth import StepCost, Truth, load_truth

Vector = NDArray[np.float64]
_DRAFTS_OF = {"0731-stage-c": "0731-anemll"}  # where only another truth's acceptance is published
H200_CONTEXT_TOKENS = 400  # of a stream, on average
_OUTPUT_MIDDLE = 90  # tokens that a published stream had produced half-way, template included


def fit_curves(truth: Truth) -> dict[str, float]:
    """Return log-odds by class, their slope and the spread of difficulty, from the curves of all its classes."""
    curves = _curves(truth.name)
    classes = sorted({name for name, _ in curves})
    start = [2.0] * len(classes) + [0.15, 0.5]

    def residuals(x: Vector) -> Vector:
        drafts = replace(
            truth.drafts,
            log_odds=dict(zip(classes, x.tolist(), strict=False)),
            log_odds_per_position=-float(x[-2]),
            difficulty_sd=float(x[-1]),
        )
        trial = replace(truth, drafts=drafts)
        gaps = [np.array(_reached(trial, name, len(curve))) - curve for name, curve in curves]
        return np.concatenate([*gaps, [0.02 * x[-1]]])

    low = [-10.0] * len(classes) + [0.0, 0.0]
    found = least_squares(residuals, start, bounds=(low, 10.0)).x
    return {**dict(zip(classes, found.tolist(), strict=False)), "slope": -float(found[-2]), "sd": float(found[-1])}


def fit_ratios(truth: Truth) -> dict[str, float]:
    """Return log-odds by class, from acceptance ratios at some k, with the truth's slope and spread."""
    wanted: dict[str, list[tuple[int, float]]] = {}
    for row in rows("acceptance_ratios.csv"):
        if row["truth"] == _DRAFTS_OF.get(truth.name, truth.name):
            wanted.setdefault(row["workload_class"], []).append((int(row["k"]), float(row["acceptance_ratio"])))

    def gap(log_odds: float, pairs: Sequence[tuple[int, float]]) -> float:
        trial = replace(truth, drafts=replace(truth.drafts, log_odds={"x": log_odds}))
        return sum(sum(_reached(trial, "x", k)) / k - ratio for k, ratio in pairs)

    return {name: float(brentq(gap, -8, 8, args=(pairs,))) for name, pairs in wanted.items()}


def fit_0731(truth: Truth) -> dict[str, float]:
    """Fit seven costs and one log-odds on the matrix, its undisturbed steps, and prefills in wide chunks."""
    names = (
        "base_s",
        "experts_s",
        "experts_half_tokens",
        "compute_s_per_token",
        "attention_s_per_token2",
        "chunk_s_per_token2",
        "context_s_per_token",
    )
    measured, steps = cells(FITTED_TABLE), list(measured_steps_s())
    prefills = [(int(row["prompt_tokens"]), float(row["ttft_s"])) for row in rows("anemll_prefill_2026_07_15.csv")]

    def trial(x: Vector) -> Truth:
        cost = _cost(truth.cost, names, x[:-1])
        log_odds = {**truth.drafts.log_odds, "numbered_words": float(x[-1])}
        return replace(truth, cost=cost, drafts=replace(truth.drafts, log_odds=log_odds))

    def residuals(x: Vector) -> Vector:
        now = trial(x)
        cell_gaps = [np.log1p(error) for errors in model_errors(now, GATED, measured) for error in errors]
        step_gaps = [np.log(_published_step_s(now.cost, context, streams) / s) for context, streams, s in steps]
        prefill_gaps = [0.5 * np.log(_prefill_s(now, tokens) / s) for tokens, s in prefills]  # another checkpoint
        return np.array([*cell_gaps, *step_gaps, *prefill_gaps])

    start = np.append(np.log([0.046, 0.12, 60, 4e-4, 8e-10, 6e-9, 2.8e-8]), 2.3)
    found = least_squares(residuals, start, loss="soft_l1", f_scale=0.1, diff_step=np.full(8, 1e-3), max_nfev=60).x
    return {**_named(names, found[:-1]), "numbered_words": float(found[-1])}


def fit_stage_c(truth: Truth) -> dict[str, float]:
    """Fit four costs on the production candidate's k by concurrency table."""
    names = ("base_s", "experts_s", "experts_half_tokens", "draft_s_per_position")
    table = [
        (int(r["k"]), int(r["concurrency"]), (1 + float(r["accepted_per_draft"])) / float(r["aggregate_tokens_per_s"]))
        for r in rows("stage_c_steps.csv")
    ]

    def residuals(x: Vector) -> Vector:
        cost = _cost(truth.cost, names, x)
        return np.array([np.log(_step_s(cost, k, streams, 512) / (streams * s)) for k, streams, s in table])

    start = np.log([0.04, 0.2, 60, 0.003])
    return _named(names, least_squares(residuals, start, loss="soft_l1", f_scale=0.1).x)


def fit_gpu(truth: Truth) -> dict[str, float]:
    """Fit six costs of a dense model on the k by concurrency table of one GPU."""
    names = (
        "base_s",
        "compute_s_per_token",
        "overlapped_tokens",
        "context_s_per_token",
        "draft_s",
        "draft_context_s_per_token",
    )
    table = [
        (int(r["k"]), int(r["concurrency"]), H200_CONTEXT_TOKENS, float(r["step_s"]))
        for r in rows("h200_qwen3_8b_steps.csv")
    ]

    def residuals(x: Vector) -> Vector:
        cost = _cost(truth.cost, names, x)
        return np.array([np.log(_step_s(cost, k, streams, context) / s) for k, streams, context, s in table])

    start = np.log([0.0048, 2e-5, 100.0, 4e-8, 8e-4, 5e-9])
    return _named(names, least_squares(residuals, start).x)


def fit_cpu(truth: Truth) -> dict[str, float]:
    """Fit six costs of decoding and the prefill's attention on the tables of the laptop's pair."""
    names = (
        "base_s",
        "compute_s_per_token",
        "draft_s",
        "draft_s_per_position",
        "context_s_per_token",
        "draft_context_s_per_token",
        "attention_s_per_token2",
    )
    table = [
        (int(r["k"]), int(r["concurrency"]), int(r["context_tokens"]) + 64, float(r["step_s"]))
        for r in rows("vllm_cpu_tiny_steps.csv")
    ]
    prefills = [
        (int(r["prompt_tokens"]), int(r["concurrency"]), float(r["ttft_s"])) for r in rows("vllm_cpu_tiny_ttft.csv")
    ]

    def residuals(x: Vector) -> Vector:
        cost = _cost(truth.cost, names, x)
        steps = [np.log(_step_s(cost, k, streams, context) / s) for k, streams, context, s in table]
        now = replace(truth, cost=cost)
        return np.array([*steps, *(np.log(_prefill_s(now, n, streams=c) / s) for n, c, s in prefills)])

    start = np.log([0.0075, 1e-4, 0.002, 8e-4, 1e-6, 2e-7, 5e-8])
    return _named(names, least_squares(residuals, start, loss="soft_l1", f_scale=0.1).x)


FITS: Mapping[str, Sequence[Callable[[Truth], dict[str, float]]]] = {
    "0731-anemll": (fit_curves, fit_ratios, fit_0731),
    "vision-exp-anemll": (fit_curves, fit_ratios),
    "0731-stage-c": (fit_ratios,),
    "preview-stage-c": (fit_ratios, fit_stage_c),
    "qwen3-8b-h200": (fit_curves, fit_gpu),
    "vllm-cpu-tiny": (fit_curves, fit_cpu),
}


def main(names: Sequence[str]) -> None:
    """Print what each fit of each truth finds, beginning at the constants in its file."""
    for name in names or FITS:
        truth = load_truth(name)
        for fit in FITS[name]:
            found = ", ".join(f"{key}: {value:.4g}" for key, value in fit(truth).items())
            print(f"{name} {fit.__name__}: {found}")


def _cost(cost: StepCost, names: Sequence[str], logs: Vector) -> StepCost:
    changed: dict[str, Any] = _named(names, logs)
    return replace(cost, **changed)


def _named(names: Sequence[str], logs: Vector) -> dict[str, float]:
    return dict(zip(names, np.exp(logs).tolist(), strict=True))


def _step_s(cost: StepCost, k: int, streams: int, context_tokens: int, *, capture: int | None = None) -> float:
    load = StepLoad(k, streams, streams * context_tokens, streams * (k + 1))
    return step_s(cost, load, capture_limit_tokens=capture)


def _published_step_s(cost: StepCost, context_tokens: int, streams: int) -> float:
    capture = GATED.max_num_seqs * (PUBLISHED.k + 1)
    return _step_s(cost, PUBLISHED.k, streams, context_tokens + _OUTPUT_MIDDLE, capture=capture)


def _prefill_s(truth: Truth, prompt_tokens: int, *, streams: int = 1) -> float:
    load = CellLoad(
        prompt_tokens=prompt_tokens, output_tokens=1, concurrency=streams, workload_class=truth.default_class
    )
    return expected_cell(truth, PUBLISHED, UNGATED, load).ttft_s


def _curves(truth_name: str) -> list[tuple[str, Vector]]:
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in rows("acceptance_by_position.csv"):
        if row["truth"] == truth_name:
            key = row["workload_class"], row["k"], row["source"]
            groups.setdefault(key, []).append(float(row["reached_ratio"]))
    return [(name, np.array(curve)) for (name, _, _), curve in groups.items()]


def _reached(truth: Truth, workload_class: str, k: int) -> list[float]:
    """How often each position is accepted, of all steps."""
    law = step_law(truth, Speculation(k=k), workload_class=workload_class, temperature=0.0)
    pairs = list(zip(law.probabilities, law.outcomes, strict=True))
    return [sum(p for p, outcome in pairs if outcome.accepted > position) for position in range(k)]


if __name__ == "__main__":
    main(sys.argv[1:])
