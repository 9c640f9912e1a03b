"""Fit what the simulated ds4 costs and drafts to published curves of rate by confidence; prints each constant.

.venv/bin/python -m benchmarks.ds4_fit
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
from scipy.optimize import differential_evolution

from harness.simulator.model import StepLaw, law_of
from harness.simulator.truth import TRUTHS

POINTS = Path(TRUTHS).parent / "calibration" / "ds4_confidence.csv"
BLOCK = 5
PREFILL_S_PER_TOKEN = {"ds4-gb10-q4": 1 / 773, "ds4-m5-max-code": 1 / 790}
NAMES = ("log_odds", "log_odds_per_position", "difficulty_sd", "verify_s_per_token", "draft_s")
NAMES += ("confidence_log_odds",)
PROPOSED_WEIGHT = 0.1  # against the rates: how many are proposed is a by-product of the gate


def main() -> None:
    rows = list(csv.DictReader(POINTS.read_text().splitlines()))
    for truth, compute_s in PREFILL_S_PER_TOKEN.items():
        cold = [row for row in rows if row["truth"] == truth and row["temperature"] == "0"]
        plain_s = 1 / float(next(row for row in cold if row["confidence"] == "off")["tokens_per_s"])
        curve = [row for row in cold if row["confidence"] != "off"]
        found = fitted(curve, plain_s, compute_s)
        base_s = plain_s - compute_s
        print(truth, {"base_s": round(base_s, 5)} | {name: round(value, 5) for name, value in found.items()})
        for row in curve:
            rate, proposed = expected(found, plain_s, compute_s, float(row["confidence"]))
            wanted = f"{row['tokens_per_s']} tokens/s, {row['proposed_per_token'] or '?'} proposed"
            print(
                f"  {row['confidence']:>4}: {rate:.2f} tokens/s, {proposed:.3f} proposed a token; published: {wanted}"
            )
        for row in rows:
            if row["truth"] == truth and row["temperature"] == "1":
                print("  log_odds_per_temperature", round(shift_for(row, found, plain_s, compute_s), 2))


def fitted(curve: list[dict[str, str]], plain_s: float, compute_s: float) -> dict[str, float]:
    """Return the constants whose rates are nearest to the curve's."""

    def misses(values: np.ndarray) -> list[float]:
        constants = dict(zip(NAMES, map(float, values), strict=True))
        found = []
        for row in curve:
            rate, proposed = expected(constants, plain_s, compute_s, float(row["confidence"]))
            found.append(math.log(rate / float(row["tokens_per_s"])))
            if row["proposed_per_token"]:
                found.append(PROPOSED_WEIGHT * (proposed - float(row["proposed_per_token"])))
        return [*found, 0.01 * constants["difficulty_sd"]]

    # The gate makes steps of the curve, so that no gradient leads anywhere.
    bounds = [(-3, 6), (-2, 0), (0, 4), (0, 3 * plain_s), (0, plain_s), (0, 5)]
    best = differential_evolution(
        lambda values: sum(miss * miss for miss in misses(values)), bounds, seed=1, maxiter=250, polish=False
    )
    return dict(zip(NAMES, map(float, best.x), strict=True))


def expected(
    constants: dict[str, float], plain_s: float, compute_s: float, confidence: float, *, shift: float = 0.0
) -> tuple[float, float]:
    """Return tokens per second, and tokens proposed per token that comes out."""
    odds = tuple(constants["log_odds"] + shift + constants["log_odds_per_position"] * at for at in range(BLOCK))
    law = law_of(odds, constants["difficulty_sd"], confidence, confidence_shift=constants["confidence_log_odds"])
    return law.mean_tokens / seconds(constants, plain_s, compute_s, law), law.mean_drafted / law.mean_tokens


def seconds(constants: dict[str, float], plain_s: float, compute_s: float, law: StepLaw) -> float:
    """Return the mean seconds of a cycle: a token of the target alone, drafting, and what each verified token adds."""
    return plain_s + constants["draft_s"] + (compute_s + constants["verify_s_per_token"]) * law.mean_drafted


def shift_for(row: dict[str, str], constants: dict[str, float], plain_s: float, compute_s: float) -> float:
    """Return the log-odds that temperature 1 costs, by bisection."""
    low, high = -8.0, 0.0
    for _ in range(60):
        middle = (low + high) / 2
        rate, _ = expected(constants, plain_s, compute_s, float(row["confidence"]), shift=middle)
        low, high = (middle, high) if rate < float(row["tokens_per_s"]) else (low, middle)
    return (low + high) / 2


if __name__ == "__main__":
    main()
