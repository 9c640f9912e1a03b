"""Facts from recorded boot logs, and from lines that no recording has."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.engine.bootlog import parse_boot_log
from harness.records.launch import BootFacts

LOGS = Path("tests/fixtures/engine")


def facts_of(name: str) -> BootFacts:
    return parse_boot_log((LOGS / name).read_text().splitlines())


def test_a_gpu_boot_with_dspark() -> None:
    facts = facts_of("gpu_dspark_k5_boot.log")

    assert facts.engine_version == "0.26.0"
    assert facts.kv_cache_tokens == 1_961_824
    assert facts.max_concurrency_x == 478.96
    assert facts.model_load_s == 1.497066
    assert facts.graph_capture_s == 3.0
    assert facts.capture_sizes is not None
    assert facts.capture_sizes[:3] == (1, 2, 4)
    assert facts.capture_sizes[-1] == 512
    assert facts.max_num_batched_tokens == 8192
    assert facts.speculative_config == {
        "method": "dspark",
        "model": "/srv/lab/models/drafter-dspark",
        "num_speculative_tokens": 5,
        "draft_sample_method": "probabilistic",
    }


def test_a_cpu_boot_says_both_cache_facts_in_one_line() -> None:
    facts = facts_of("cpu_draft_k4_boot.log")

    assert facts.engine_version == "0.32.0"
    assert facts.kv_cache_tokens == 116_480
    assert facts.max_concurrency_x == 14.22
    assert facts.graph_capture_s is None
    assert facts.capture_sizes == ()
    assert facts.speculative_config is not None
    assert facts.speculative_config["num_speculative_tokens"] == 4


def test_loading_target_and_draft_is_summed_where_no_total_is_said() -> None:
    lines = ["[loader] Loading weights took 2.5 seconds", "[loader] Loading weights took 0.25 seconds"]

    assert parse_boot_log(lines).model_load_s == 2.75
    assert parse_boot_log([*lines, "Model loading took 14.93 GiB and 3.5 seconds"]).model_load_s == 3.5


def test_no_speculation_is_an_empty_configuration_and_silence_is_none() -> None:
    assert facts_of("cpu_none_boot.log").speculative_config == {}
    assert facts_of("gpu_none_boot.log").speculative_config == {}
    assert parse_boot_log(["something else"]).speculative_config is None


def test_a_method_with_fields_of_its_own() -> None:
    configuration = facts_of("cpu_ngram_k5_boot.log").speculative_config

    assert configuration is not None
    assert configuration["method"] == "ngram"
    assert configuration["prompt_lookup_max"] == 4


@pytest.mark.parametrize(
    ("line", "tokens", "times"),
    [
        ("GPU KV cache size: 2,493,464 tokens", 2_493_464, None),
        ("Maximum concurrency for 1,048,576 tokens per request: 2.38x", None, 2.38),
        ("CPU KV cache size: 131,072 tokens, Maximum concurrency for 8,192 tokens per request: 16.00x", 131_072, 16.0),
    ],
)
def test_both_spellings_of_the_cache_line(line: str, tokens: int | None, times: float | None) -> None:
    facts = parse_boot_log([f"(EngineCore pid=1) INFO 11-30 02:12:03 [kv_cache_utils.py:2177] {line}"])

    assert (facts.kv_cache_tokens, facts.max_concurrency_x) == (tokens, times)


def test_unknown_variables_are_listed_once() -> None:
    line = "WARNING [interface.py:1458] Unknown vLLM environment variable detected: VLLM_DSPARK_CONFIDENCE"

    assert parse_boot_log([line, line]).unknown_environment == ("VLLM_DSPARK_CONFIDENCE",)


@given(st.lists(st.text(max_size=200), max_size=20))
def test_no_line_can_break_it(lines: list[str]) -> None:
    parse_boot_log(lines)


@example("{}")
@given(st.text(alphabet="{}'\":, ()=[]abcNone0123456789_", max_size=120))
def test_no_argument_line_can_break_it(text: str) -> None:
    parse_boot_log([f"non-default args: {{{text}}}", f"speculative_config=SpeculativeConfig({text})"])
