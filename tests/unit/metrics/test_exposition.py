"""Prometheus text: exact names, several engines, and text that is something else."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_fd_to_metric_families

from harness.errors import EndpointError
from harness.metrics.exposition import parse

FIXTURES = Path(__file__).parents[2] / "fixtures" / "metrics"
DRAFTS = "vllm:spec_decode_num_drafts_total"


def test_a_counter_is_found_by_its_sample_name_and_its_birth_is_not_added() -> None:
    exposition = parse((FIXTURES / "cpu_draft_after.txt").read_text())
    assert exposition.total(DRAFTS) == 156.0
    assert exposition.total("vllm:spec_decode_num_drafts_created") == pytest.approx(1.796e9, rel=1e-3)
    assert exposition.total("vllm:spec_decode_num_drafts") is None


def test_a_histogram_is_read_by_its_count() -> None:
    assert parse((FIXTURES / "cpu_draft_after.txt").read_text()).total("vllm:iteration_tokens_total_count") == 167.0


def test_engines_and_models_are_summed_whatever_the_order_of_their_labels() -> None:
    text = (
        "# TYPE vllm:spec_decode_num_drafts counter\n"
        'vllm:spec_decode_num_drafts_total{engine="0",model_name="a"} 3.0\n'
        'vllm:spec_decode_num_drafts_total{model_name="a",engine="1"} 4.0\n'
        'vllm:spec_decode_num_drafts_total{model_name="b",engine="0"} 5.0\n'
    )
    exposition = parse(text)
    assert exposition.total(DRAFTS) == 12.0
    assert exposition.highest(DRAFTS) == 5.0
    assert exposition.total_by(DRAFTS, "model_name") == {"a": 7.0, "b": 5.0}


def test_text_without_type_lines_is_read_too() -> None:
    assert parse(f"{DRAFTS} 3\n").total(DRAFTS) == 3.0


def test_a_label_may_hold_any_line_separator_but_a_newline() -> None:
    assert parse(f'{DRAFTS}{{model_name="a\u2028b"}} 3\n').total_by(DRAFTS, "model_name") == {"a\u2028b": 3.0}


@pytest.mark.parametrize(
    "line",
    ["<html><body>secret</body></html>", "vllm:x{secret 1", '{"detail": "secret"}', "vllm:x secret", 'vllm:x{a="b} 1'],
)
def test_malformed_text_names_the_line_and_does_not_show_it(line: str) -> None:
    with pytest.raises(EndpointError) as caught:
        parse(f"# TYPE a gauge\na 1.0\n{line}\n", where="http://host:1/metrics")
    assert "line 3" in caught.value.what
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
def test_a_count_that_is_no_number_is_refused_where_it_is_used(value: str) -> None:
    exposition = parse(f"{DRAFTS} {value}\nother {value}\n")
    with pytest.raises(EndpointError, match="no count"):
        exposition.total(DRAFTS)


_LABEL = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8)


@given(st.dictionaries(st.tuples(_LABEL, st.integers(0, 9)), st.integers(0, 10**9), max_size=6), st.booleans())
def test_any_labels_are_read_back(counts: dict[tuple[str, int], int], swapped: bool) -> None:
    lines = []
    for (model, engine), count in counts.items():
        escaped = model.replace("\\", r"\\").replace('"', r"\"")
        labels = [f'model_name="{escaped}"', f'engine="{engine}"']
        lines.append(f"{DRAFTS}{{{','.join(reversed(labels) if swapped else labels)}}} {count}")
    total = parse("\n".join(lines) + "\n").total(DRAFTS)
    assert total == (sum(counts.values()) if counts else None)


@given(st.text(max_size=200))
def test_no_text_makes_it_fail_in_another_way(text: str) -> None:
    try:
        parse(text)
    except EndpointError as error:
        assert "line" in error.what


def as_the_parser_has_it(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_fd_to_metric_families(StringIO(text, newline="\n")):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def as_we_have_it(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    return {
        name: [(sample.labels, sample.value) for sample in samples] for name, samples in parse(text).by_name.items()
    }


@pytest.mark.parametrize("page", sorted(FIXTURES.glob("*.txt")), ids=lambda page: page.stem)
def test_a_real_page_means_what_the_parser_says(page: Path) -> None:
    text = page.read_text()
    assert as_we_have_it(text) == as_the_parser_has_it(text)


@pytest.mark.parametrize(
    "text",
    [
        "# TYPE a counter\na 3\n",  # renamed by the parser
        "# TYPE a_total counter\na_total 3\n",
        "# HELP a\n# TYPE a gauge\na 3 1700000000000\n",
        '# HELP a says \\n "so"\na{x="1"} 3\n',
        'a{x="1",} 3\n',
        'a{x="1", y="2"} 3\n',
        'a{x="}"} 3\n a 4 \n\n# nothing\n#\n',
        'a{x="1,y=2"} 1e-05\na 12345678901234567\n',
        '{"a",x="1"} 3\n',
        '# TYPE a summary\na_sum 3\na_count 4\na{quantile="0.5"} 1\n',
        "# TYPE b gauge\na 1\nb 2\na 3\n",
    ],
)
def test_an_unusual_page_too(text: str) -> None:
    assert as_we_have_it(text) == as_the_parser_has_it(text)


_NAMES = st.sampled_from(["a", "a_total", "b_bucket", "vllm:c_total", "vllm:c", "vllm:c_sum", "vllm:c_count"])
_VALUES = st.sampled_from(["3", "-1", "2.5", "1e+09", "1.0e-3", "NaN", "+Inf", "0x1", "1_0", "3 17", "", "x"])
_LABELS = st.sampled_from(
    ["", "{}", '{e="0"}', '{e="0",m="a b"}', '{e="0",e="1"}', '{m="a\\"b"}', '{e="0"', '{__name__="z"}']
)
_COMMENTS = st.builds(
    "# {} {} {}".format,
    st.sampled_from(["TYPE", "HELP", "EOF"]),
    _NAMES,
    st.sampled_from(["counter", "gauge", "histogram", "summary", "untyped", "odd", ""]),
)
_LINES = st.builds("{}{} {}".format, _NAMES, _LABELS, _VALUES) | _COMMENTS


@given(st.lists(_LINES, max_size=8))
def test_any_page_means_what_the_parser_says_or_is_refused_like_there(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    try:
        wanted = as_the_parser_has_it(text)
    except (ValueError, IndexError, KeyError):
        with pytest.raises(EndpointError):
            parse(text)
        return
    assert repr(as_we_have_it(text)).replace(".0", "") == repr(wanted).replace(".0", "")  # NaN is not equal to itself
