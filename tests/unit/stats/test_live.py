"""What two servers really differ in, beside what was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.records.launch import BootFacts, LaunchRecord
from harness.stats.live import is_whole_factor, live_differences
from tests.unit.stats.arms_build import BASE, CANDIDATE, launch

DEPTH = ("num_speculative_tokens",)


def base(**boot: Any) -> LaunchRecord:
    return launch("a", BASE, boot=BootFacts(**boot))


def candidate(**boot: Any) -> LaunchRecord:
    return launch("b", CANDIDATE, boot=BootFacts(**boot))


def test_servers_that_differ_in_the_factor_alone() -> None:
    first = base(speculative_config={"num_speculative_tokens": 4, "method": "dspark"}, max_num_batched_tokens=8192)
    second = candidate(
        speculative_config={"num_speculative_tokens": 5, "method": "dspark"}, max_num_batched_tokens=8200
    )
    assert live_differences([first], [second], DEPTH) == ()


def test_what_follows_from_the_depth_is_no_excuse_for_another_factor() -> None:
    first, second = base(max_num_batched_tokens=8192), candidate(max_num_batched_tokens=4096)
    assert live_differences([first], [second], ("draft_sample_method",)) == ("max_num_batched_tokens: 8192 and 4096",)


def test_every_difference_is_named_with_both_values() -> None:
    first, second = base(speculative_config={"method": "dspark"}), candidate(speculative_config={"method": "eagle"})
    assert second.live is not None
    second = replace(second, live=replace(second.live, max_model_len=8192, engine_version="1.1"))
    assert live_differences([first], [second], DEPTH) == (
        "max_model_len: 4096 and 8192",
        "engine version: 1.0 and 1.1",
        "speculative_config.method: dspark and eagle",
    )


def test_launches_of_one_arm_that_disagree_are_a_difference() -> None:
    odd = base()
    assert odd.live is not None
    odd = replace(odd, live=replace(odd.live, max_model_len=2048))
    assert live_differences([base(), odd], [candidate()], DEPTH) == ("max_model_len: 4096 or 2048 and 4096",)


def test_what_only_one_side_tells_is_no_difference() -> None:
    nothing = replace(candidate(), live=None, boot=None)
    assert live_differences([base(max_num_batched_tokens=8192)], [nothing], DEPTH) == ()
    assert live_differences([base()], [candidate(speculative_config={"method": "dspark"})], DEPTH) == ()


@pytest.mark.parametrize("name", ["image", "checkpoint", "checkout", "generation"])
def test_a_bundle_is_one_factor_with_all_that_is_in_it(name: str) -> None:
    assert is_whole_factor((name,)) and not is_whole_factor(DEPTH)
