"""The seconds of a mix: by hand, and null with a reason where a cell is missing."""

from __future__ import annotations

import pytest

from harness.records.cell import Cell, Configuration, LoadPoint, OutputLength
from harness.records.summary import CellSummary
from harness.stats.objective import cell_seconds, workload_document, workload_seconds


def summary(name: str, context_tokens: int, ttft_s: float | None, rate: float = 50.0, tokens: int = 101) -> CellSummary:
    load = LoadPoint(
        workload_class="code", context_tokens=context_tokens, concurrency=1, output=OutputLength(tokens=tokens)
    )
    return CellSummary(
        cell=Cell(configuration=Configuration(recipe="r", knobs={"name": name}), load=load),
        values={"ttft_s": ttft_s, "decode_tokens_per_s": rate, "output_tokens": float(tokens)},
        spread={},
        by_position=None,
        null_reasons={},
        doubts=(),
        trials=(),
        launches=1,
        drafts_in_all=None,
    )


SLOW_START = (summary("a", 256, 1.0), summary("a", 8192, 9.0))
SLOW_DECODE = (summary("b", 256, 0.5, 25.0), summary("b", 8192, 5.0, 25.0))
WEIGHTS = {SLOW_START[0].cell.load.load_id: 0.9, SLOW_START[1].cell.load.load_id: 0.1}


def test_a_request_is_its_first_token_and_the_rest_at_the_rate() -> None:
    assert cell_seconds(SLOW_START[0]) == pytest.approx(1.0 + 100 / 50)
    assert cell_seconds(summary("a", 256, None)) is None


def test_the_mix_decides_which_is_better() -> None:
    cells = (*SLOW_START, *SLOW_DECODE)

    weighted = workload_seconds(cells, WEIGHTS)
    even = workload_seconds(cells, {})

    assert [one.configuration.knobs["name"] for one in weighted] == ["a", "b"]
    assert weighted[0].seconds == pytest.approx(0.9 * 3.0 + 0.1 * 11.0)
    assert weighted[1].seconds == pytest.approx(0.9 * 4.5 + 0.1 * 9.0)
    assert [one.seconds for one in even] == pytest.approx([6.75, 7.0])


def test_a_configuration_that_lacks_a_cell_has_no_sum_and_comes_last() -> None:
    found = workload_seconds((SLOW_START[0], summary("a", 8192, None), *SLOW_DECODE), WEIGHTS)

    assert [one.seconds is None for one in found] == [False, True]
    assert "1 of 2 cells" in str(found[1].null_reason)


def test_a_cell_without_weight_may_be_missing() -> None:
    weights = {SLOW_START[0].cell.load.load_id: 1.0}

    assert workload_seconds(SLOW_START[:1], weights)[0].seconds == pytest.approx(3.0)


def test_the_document_holds_weights_and_objective() -> None:
    document = workload_document((*SLOW_START, *SLOW_DECODE), WEIGHTS)

    assert document["weighted"] is True
    weights = document["weights"]
    assert isinstance(weights, list)
    assert [(each["context_tokens"], each["weight"]) for each in weights] == [(256, 0.9), (8192, 0.1)]
