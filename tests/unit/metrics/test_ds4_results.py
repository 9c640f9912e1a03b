"""Results of ds4-bench and ds4, with the columns of today and of tomorrow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.metrics.ds4_results import RATES, read_results

OLD = """\
ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,kvcache_bytes
2048,2048,832.86,128,20.58,52184460
16384,2048,883.81,128,16.80,249505164
"""
NEW = """\
ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,gen_first_ms,gen_steady_tokens,gen_steady_tps,kvcache_bytes
2048,2048,832.86,128,20.58,61.2,127,20.71,52184460
"""
RUN = """\
ds4: prefill 1574/1574 done
ds4: prefill: 771.17 t/s, generation: 19.27 t/s
ds4: DSpark stats cycles=88 proposed=44 accepted_draft=31 accept_rate=70.45% avg_accept=0.352 time_ms net_saved=-1326.6
"""


def test_the_older_columns() -> None:
    results = read_results(OLD, where="gb10.csv")

    assert results.program == "ds4-bench"
    assert [row.context_tokens for row in results.measurements] == [2048, 16384]
    first = results.measurements[0].figures
    assert first.values["decode_tokens_per_s"] == 20.58
    assert first.values["prefill_tokens_per_s"] == 832.86
    assert first.values["tpot_s"] == pytest.approx(1 / 20.58)
    assert "ttft_s" not in first.values, "nobody measured it"
    assert first.where == "gb10.csv:2"


def test_the_newer_columns_leave_out_the_first_token_unless_told_otherwise() -> None:
    steady = read_results(NEW, where="x").measurements[0]
    whole = read_results(NEW, where="x", rates=RATES[::-1]).measurements[0]

    assert (steady.rate, steady.figures.values["decode_tokens_per_s"]) == ("gen_steady_tps", 20.71)
    assert (whole.rate, whole.figures.values["decode_tokens_per_s"]) == ("gen_tps", 20.58)


def test_the_order_of_columns_a_byte_order_mark_and_unknown_ones_do_not_matter() -> None:
    text = "\ufeffsomething,gen_tps,ctx_tokens\r\nx,26.76,2048\r\n\r\n"

    (row,) = read_results(text, where="m4.csv").measurements
    assert (row.context_tokens, row.output_tokens) == (2048, None)
    assert row.figures.values["decode_tokens_per_s"] == 26.76


def test_a_run_of_ds4_with_its_statistics() -> None:
    results = read_results(RUN + RUN, where="off.log")

    assert [row.context_tokens for row in results.measurements] == [1574, 1574]
    assert results.speculation is not None and results.speculation.counts["cycles"] == 176
    assert results.measurements[1].figures.where == "off.log:5"


def test_a_run_that_does_not_tell_its_prompt() -> None:
    (row,) = read_results("ds4: prefill: 1.00 t/s, generation: 2.00 t/s", where="x").measurements

    assert row.context_tokens is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "neither the CSV of ds4-bench nor the output of ds4"),
        ("a,b\n1,2\n", "neither the CSV"),
        ("ctx_tokens,prefill_tps\n1,2\n", "the header has no rate"),
        ("ctx_tokens,gen_tps\n", "a header, and no row"),
        ("ctx_tokens,gen_tps\n2048\n", "x:2.*the row has no gen_tps"),
        ("ctx_tokens,gen_tps\n2048,fast\n", 'x:2.*gen_tps is "fast"'),
        ("ctx_tokens,gen_tps\n2048,nan\n", "no number of a result"),
        ("ctx_tokens,gen_tps\n2048,-1\n", "no number of a result"),
    ],
)
def test_what_is_no_result_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        read_results(text, where="x")

    assert re.search(says, f"{refused.value.where}: {refused.value.what}")


@given(st.text())
def test_any_text_is_results_or_refused(text: str) -> None:
    try:
        results = read_results(text, where="x")
    except InputError:
        return
    assert results.measurements


@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.floats(0.01, 10**4, allow_nan=False)),
        min_size=1,
        max_size=20,
    ),
    st.permutations(["ctx_tokens", "gen_tps", "kvcache_bytes"]),
)
def test_every_row_comes_through_in_any_order_of_columns(rows: list[tuple[int, float]], header: list[str]) -> None:
    lines = [",".join(header)]
    for context, rate in rows:
        values = {"ctx_tokens": str(context), "gen_tps": f"{rate:.2f}", "kvcache_bytes": "1"}
        lines.append(",".join(values[name] for name in header))

    read = read_results("\n".join(lines), where="x").measurements

    assert [row.context_tokens for row in read] == [context for context, _ in rows]
    assert [row.figures.values["decode_tokens_per_s"] for row in read] == [float(f"{rate:.2f}") for _, rate in rows]
