"""Weights of cells: from the sweep file, from a trace, or both multiplied."""

from __future__ import annotations

from itertools import product

import pytest

from harness.errors import InputError
from harness.records.cell import LoadPoint, OutputLength
from harness.run.mix import cell_weights

LOADS = [
    LoadPoint(workload_class=name, context_tokens=tokens, concurrency=1, output=OutputLength(tokens=64))
    for name, tokens in product(("code", "prose"), (256, 8192))
]


def weights(written: dict[str, dict[object, float]], by_trace: dict[str, float] | None = None) -> list[float]:
    found = cell_weights(LOADS, written, by_trace=by_trace)  # type: ignore[arg-type]
    return [found[load.load_id] for load in LOADS]


def test_nothing_is_weighed_unless_asked() -> None:
    assert cell_weights(LOADS, {}, by_trace=None) == {}


def test_knobs_multiply_and_what_is_not_named_counts_one() -> None:
    found = weights({"class": {"code": 3.0}, "context_tokens": {256: 2.0}})

    assert found == pytest.approx([6 / 12, 3 / 12, 2 / 12, 1 / 12])


def test_a_trace_gives_shares_that_sum_to_one() -> None:
    by_trace = {load.load_id: share for load, share in zip(LOADS, (0.4, 0.2, 0.2, 0.0), strict=True)}

    assert weights({}, by_trace) == pytest.approx([0.5, 0.25, 0.25, 0.0])


def test_an_output_length_can_be_weighed() -> None:
    assert sum(weights({"output_tokens": {OutputLength(tokens=64): 2.0}})) == pytest.approx(1.0)


def test_a_mix_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no cell any weight"):
        weights({"class": {"code": 0.0, "prose": 0.0}})
