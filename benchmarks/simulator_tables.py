"""The measurements that the simulator is calibrated on, and how far a prediction is from them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import exp, fsum, log
from pathlib import Path
from statistics import median
from typing import NamedTuple

from harness.simulator.cell import CellLoad, expected_cell
from harness.simulator.model import Scheduling, Speculation
from harness.simulator.truth import Truth, load_truth

TABLES = Path(__file__).resolve().parent.parent / "harness" / "simulator" / "calibration"
FITTED_TABLE, PREDICTED_TABLE = "0731_anemll_2026_08_14.csv", "0731_anemll_2026_08_01.csv"
FITTED_WITHIN, PREDICTED_WITHIN = 0.15, 0.25
# The August matrix ran behind the gate for long prefills; the sweep of 1 August is older than that gate.
GATED = Scheduling()
UNGATED = Scheduling(long_prefill_tokens=0)
PUBLISHED = Speculation(k=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCell:
    """One published cell: medians over its streams."""

    context_tokens: int
    prompt_tokens: int  # with the chat template
    output_tokens: int
    concurrency: int
    decode_tokens_per_s: float
    ttft_s: float

    @property
    def name(self) -> str:
        """As a table shows it."""
        return f"{self.context_tokens} x {self.concurrency}"


class Errors(NamedTuple):
    """Relative errors of one cell: predicted / measured - 1."""

    decode_ratio: float
    ttft_ratio: float


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with (TABLES / name).open(newline="") as file:
        return list(csv.DictReader(file))


def cells(name: str) -> list[MeasuredCell]:
    """Return a table of cells."""
    return [
        MeasuredCell(
            context_tokens=int(row["context_tokens"]),
            prompt_tokens=int(row["prompt_tokens"]),
            output_tokens=int(row["output_tokens"]),
            concurrency=int(row["concurrency"]),
            decode_tokens_per_s=float(row["decode_tokens_per_s"]),
            ttft_s=float(row["ttft_s"]),
        )
        for row in rows(name)
    ]


def model_errors(truth: Truth, scheduling: Scheduling, measured: Iterable[MeasuredCell]) -> list[Errors]:
    """Return the errors of the simulator's model."""
    return [_errors(cell, *predicted(truth, scheduling, cell)) for cell in measured]


def constant_errors(fitted: list[MeasuredCell], measured: Iterable[MeasuredCell]) -> list[Errors]:
    """Return the errors of a model that says of every cell what is typical (the geometric mean) of ``fitted``."""
    decode = _geometric_mean(cell.decode_tokens_per_s for cell in fitted)
    ttft = _geometric_mean(cell.ttft_s for cell in fitted)
    return [_errors(cell, decode, ttft) for cell in measured]


def predicted(truth: Truth, scheduling: Scheduling, cell: MeasuredCell) -> tuple[float, float]:
    """Return tokens per second per stream, and seconds to the first token."""
    load = CellLoad(
        prompt_tokens=cell.prompt_tokens,
        output_tokens=cell.output_tokens,
        concurrency=cell.concurrency,
        workload_class="numbered_words",
    )
    expected = expected_cell(truth, PUBLISHED, scheduling, load)
    return expected.decode_tokens_per_s, expected.ttft_s


def others() -> Iterator[tuple[dict[str, str], float]]:
    """Yield published rates that no cost was fitted on, each with the model's tokens per second per stream."""
    for row in rows("other_published.csv"):
        load = CellLoad(
            prompt_tokens=int(row["prompt_tokens"]),
            output_tokens=int(row["output_tokens"]),
            concurrency=int(row["concurrency"]),
            workload_class=row["workload_class"],
        )
        speculation = Speculation(k=int(row["k"]), draft_sample_method=row["draft_sample_method"])
        scheduling = Scheduling(max_inflight_prefills=int(row["max_inflight_prefills"]))
        yield row, expected_cell(load_truth(row["truth"]), speculation, scheduling, load).decode_tokens_per_s


def share_within(errors: Iterable[float], limit: float) -> float:
    """Return the share of errors that are at most ``limit``."""
    inside = [abs(error) <= limit for error in errors]
    return sum(inside) / len(inside)


def measured_steps_s() -> Iterator[tuple[int, int, float]]:
    """Yield (context, concurrency, median step) of the August matrix, from streams that no prefill disturbed."""
    groups: dict[tuple[int, int], list[float]] = {}
    for row in rows("0731_anemll_steps.csv"):
        key = int(row["context_tokens"]), int(row["concurrency"])
        groups.setdefault(key, []).append(float(row["decode_s"]) / int(row["steps"]))
    for (context_tokens, concurrency), steps_s in groups.items():
        yield context_tokens, concurrency, median(steps_s)


def _errors(cell: MeasuredCell, decode_tokens_per_s: float, ttft_s: float) -> Errors:
    return Errors(decode_tokens_per_s / cell.decode_tokens_per_s - 1, ttft_s / cell.ttft_s - 1)


def _geometric_mean(values: Iterable[float]) -> float:
    logs = [log(value) for value in values]
    return exp(fsum(logs) / len(logs))
