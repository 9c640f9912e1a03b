"""Draw and list how far the simulator is from what was measured: `python -m benchmarks.simulator_calibration [FOLDER]`.

Writes simulator_calibration.svg and simulator_calibration.md into docs/, or FOLDER, and prints the second.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binomtest

from benchmarks.simulator_tables import (
    FITTED_TABLE,
    FITTED_WITHIN,
    GATED,
    PREDICTED_TABLE,
    PREDICTED_WITHIN,
    UNGATED,
    Errors,
    MeasuredCell,
    cells,
    constant_errors,
    model_errors,
    others,
    predicted,
    share_within,
)
from harness.simulator.model import Scheduling
from harness.simulator.truth import load_truth

DOCS = Path(__file__).resolve().parent.parent / "docs"
TRUTH = "0731-anemll"

_CLIENT = "this client adds about 0.36 s to every first token that the engine's own work does not explain"
_CACHED = "faster than any cold prefill on this machine: much of the prompt must have been in the prefix cache"
# Why a cell of the prediction is missed, as far as the published files tell.
REASONS = {
    ("256 x 1", "ttft"): _CLIENT,
    ("256 x 2", "ttft"): _CLIENT,
    ("256 x 4", "ttft"): _CLIENT,
    ("256 x 6", "ttft"): _CLIENT,
    ("2048 x 2", "ttft"): _CACHED,
    ("2048 x 4", "ttft"): _CACHED,
    ("32768 x 1", "ttft"): "a slow moment: first streams took 21 s in this sweep, later ones 15 to 16 s",
    ("131072 x 4", "decode"): "cancelled by its client after three minutes: two of four streams had not begun",
    (
        "32768 x 1",
        "decode",
    ): "one stream of 33 steps, 3.8 tokens each instead of 4.7: chance or prompt, as the step time fits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One published table beside the model and beside a constant."""

    title: str
    measured: Sequence[MeasuredCell]
    scheduling: Scheduling
    limit: float  # of an error that counts as a hit
    model: Sequence[Errors]
    constant: Sequence[Errors]

    def share(self, errors: Sequence[Errors], metric: str) -> float:
        """Return the share of cells within the limit; ``metric`` is decode or ttft."""
        return share_within((_error(each, metric) for each in errors), self.limit)

    def misses(self) -> Iterator[tuple[MeasuredCell, str, float]]:
        """Yield each cell and metric that the model misses, with its error."""
        for cell, errors in zip(self.measured, self.model, strict=True):
            for metric in ("decode", "ttft"):
                if abs(_error(errors, metric)) > self.limit:
                    yield cell, metric, _error(errors, metric)


def comparisons() -> tuple[Comparison, Comparison]:
    """Return the table that was fitted, and the one that is predicted."""
    fitted, truth = cells(FITTED_TABLE), load_truth(TRUTH)
    return (
        Comparison(
            title="fitted: 14 August 2026, 128 tokens out",
            measured=fitted,
            scheduling=GATED,
            limit=FITTED_WITHIN,
            model=model_errors(truth, GATED, fitted),
            constant=constant_errors(fitted, fitted),
        ),
        Comparison(
            title="predicted: 1 August 2026, 512 tokens out",
            measured=cells(PREDICTED_TABLE),
            scheduling=UNGATED,
            limit=PREDICTED_WITHIN,
            model=model_errors(truth, UNGATED, cells(PREDICTED_TABLE)),
            constant=constant_errors(fitted, cells(PREDICTED_TABLE)),
        ),
    )


def text(compared: Sequence[Comparison]) -> str:
    """Return the shares, every cell and every miss as Markdown."""
    lines = ["# How far the simulator is from what was measured", ""]
    lines += [f"Truth `{TRUTH}`; written by `python -m benchmarks.simulator_calibration`. Errors are predicted /"]
    lines += [
        "measured - 1, of medians over a cell's streams. The constant model says of every cell what is typical of"
    ]
    lines += ["the fitted table.", "", "![errors by cell](simulator_calibration.svg)", ""]
    lines += [
        "| table | within | decode rate: model | constant | TTFT: model | constant |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_summary(each) for each in compared]
    lines += [
        "",
        "Asked for: 80 % of the fitted table and 70 % of the predicted one; a share of so few cells misses its target",
        "where the exact binomial 95 % interval of what was seen lies wholly below it.",
        *(_judged(each) for each in compared),
    ]
    for each in compared:
        lines += ["", f"## {each.title[0].upper()}{each.title[1:]}", ""]
        lines += ["| context x streams | tokens/s per stream | model | error | TTFT s | model | error |"]
        lines += ["|---|---|---|---|---|---|---|", *_table(each), "", "Missed:", "", *_missed(each)]
    lines += ["", "## Other published rates, on which no cost was fitted", "", *_OTHERS_HEAD, *_others(), "", *_NOTES]
    return "\n".join(lines) + "\n"


def figure(compared: Sequence[Comparison]) -> Figure:
    """Return predicted / measured of every cell, the model's and the constant's."""
    drawn = Figure(figsize=(10, 6.2), layout="constrained")
    for axes, each in zip(drawn.subplots(1, len(compared)), compared, strict=True):
        _draw(axes, each)
    drawn.legend(*drawn.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return drawn


def main(folder: Path) -> None:
    """Write the figure and the list."""
    compared = comparisons()
    with mpl.rc_context({"svg.hashsalt": "harness", "svg.fonttype": "none"}):
        figure(compared).savefig(folder / "simulator_calibration.svg", metadata={"Date": None})
    (folder / "simulator_calibration.md").write_text(text(compared))
    print(text(compared))


def _error(errors: Errors, metric: str) -> float:
    return errors.decode_ratio if metric == "decode" else errors.ttft_ratio


def _summary(each: Comparison) -> str:
    shares = [each.share(errors, metric) for metric in ("decode", "ttft") for errors in (each.model, each.constant)]
    return f"| {each.title} | {each.limit:.0%} | " + " | ".join(f"{share:.0%}" for share in shares) + " |"


def _judged(each: Comparison) -> str:
    seen = []
    for metric in ("decode", "ttft"):
        hits = round(each.share(each.model, metric) * len(each.measured))
        interval = binomtest(hits, len(each.measured)).proportion_ci(0.95, method="exact")
        name = {"decode": "decode rate", "ttft": "TTFT"}[metric]
        seen.append(f"{name} {hits} of {len(each.measured)}, {interval.low:.0%} to {interval.high:.0%}")
    return f"{each.title.split(':')[0].capitalize()}: {'; '.join(seen)}."


def _table(each: Comparison) -> Iterator[str]:
    truth = load_truth(TRUTH)
    for cell, errors in zip(each.measured, each.model, strict=True):
        decode, ttft_s = predicted(truth, each.scheduling, cell)
        yield (
            f"| {cell.name} | {cell.decode_tokens_per_s:.1f} | {decode:.1f} | {_signed(errors.decode_ratio)} "
            f"| {cell.ttft_s:.2f} | {ttft_s:.2f} | {_signed(errors.ttft_ratio)} |"
        )


def _missed(each: Comparison) -> Iterator[str]:
    for cell, metric, error in each.misses():
        name = {"decode": "decode rate", "ttft": "TTFT"}[metric]
        yield f"- {cell.name}, {name} ({_signed(error)}): {REASONS.get((cell.name, metric), 'not explained')}."


def _signed(error: float) -> str:
    return f"{error:+.0%}" if abs(error) >= 0.005 else "0%"


def _others() -> Iterator[str]:
    for row, modelled in others():
        measured = float(row["decode_tokens_per_s"])
        yield (
            f"| {row['truth']} | {row['workload_class']} | {row['k']} {row['draft_sample_method']} "
            f"| {row['prompt_tokens']} x {row['concurrency']}, {row['max_inflight_prefills']} in flight "
            f"| {measured:.1f} | {modelled:.1f} | {_signed(modelled / measured - 1)} |"
        )


def _draw(axes: Axes, each: Comparison) -> None:
    places = range(len(each.measured))
    axes.axvspan(1 - each.limit, 1 + each.limit, color="#dddddd", zorder=0)
    axes.axvline(1, color="#888888", linewidth=0.8, zorder=1)
    series = (
        ("decode rate, constant", each.constant, "decode", "o", "none"),
        ("TTFT, constant", each.constant, "ttft", "s", "none"),
        ("decode rate, model", each.model, "decode", "o", _DECODE),
        ("TTFT, model", each.model, "ttft", "s", _TTFT),
    )
    for label, errors, metric, marker, fill in series:
        ratios = [min(max(1 + _error(error, metric), _LOW), _HIGH) for error in errors]
        edge = _DECODE if metric == "decode" else _TTFT
        axes.scatter(ratios, places, s=22, marker=marker, facecolor=fill, edgecolor=edge, label=label, zorder=3)
    axes.set_xscale("log")
    axes.set_xlim(_LOW * 0.93, _HIGH * 1.07)
    axes.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
    axes.minorticks_off()
    axes.set_yticks(list(places), [cell.name for cell in each.measured], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("predicted / measured (outside the axis: drawn at its edge)", fontsize=8)
    shares = f"within {each.limit:.0%}: decode {each.share(each.model, 'decode'):.0%}, "
    axes.set_title(f"{each.title}\n{shares}TTFT {each.share(each.model, 'ttft'):.0%}", fontsize=9)


_LOW, _HIGH = 0.2, 5.0
_DECODE, _TTFT = "#0072b2", "#d55e00"
_OTHERS_HEAD = (
    "| truth | text | k | cell, long prefills | tokens/s per stream | model | error |",
    "|---|---|---|---|---|---|---|",
)
_NOTES = (
    "Acceptance by kind of text is fitted on acceptance, so these rates test the step. Filler on Vision-Exp is far",
    "slower than its acceptance and every published step time allow; it is left as it is. The two rates of issue #84",
    "contradict the counts published with them (9 % more tokens in 5 % longer steps cannot be 13 % slower).",
    "",
    "## What was fitted, and what was known beforehand",
    "",
    "- Eleven constants for all cells: seven costs and one log-odds fitted together, the slope of the acceptance",
    "  curve, the drafter's time per position, and the price of a step without a graph. None is per cell.",
    "- The fitted table holds no prefill chunk above 1024 tokens, so the cost of wide chunks comes from prefills of",
    "  July on the same image (another checkpoint). This term was added after a first prediction: without it the",
    "  decode rate is right in the same 95 %, TTFT in 47 %.",
    "- The two tables ran under different schedulers: in August's matrix long prompts run one at a time in chunks of",
    "  1024 tokens, on 1 August they had no such gate and ran in chunks of 8192. That is an input, not a fit; the",
    "  published rates of the first streams while others prefill show it (8.3 against 1.1 tokens/s).",
    "- Output length and scheduler are inputs. The text differs too (numbered words against natural text); the same",
    "  acceptance is used for both.",
)

if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
