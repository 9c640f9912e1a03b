"""Which configurations boot, and which are one server."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from harness.errors import InputError
from harness.recipe.rules import canonicalise, check, same_server_key
from harness.records.cell import KnobValue
from tests.unit.recipe.recipes import configuration, shipped, small

DSPARK = shipped("dspark-2x-spark").recipe
VISION: dict[str, KnobValue] = {"checkpoint": "vision-exp", "image": "anemll-0.1.1"}


def boots(**knobs: KnobValue) -> bool:
    return check(DSPARK, canonicalise(DSPARK, configuration("dspark-2x-spark", **knobs))[0]).boots


def test_spellings_become_neutral_names() -> None:
    written = configuration("dspark-2x-spark", MTP_NUM_TOKENS=6, env__DSPARK_ENABLE_DSPARK_BLOCK_K=1, env__X="3")
    canonical, warnings = canonicalise(DSPARK, written)
    assert canonical.knobs == {"num_speculative_tokens": 6, "block_k": 1, "env.X": 3}
    assert warnings == ()


def test_a_deprecated_spelling_warns_and_still_sets_the_knob() -> None:
    canonical, warnings = canonicalise(DSPARK, configuration("dspark-2x-spark", env__DSPARK_ENABLE_SWA_PREFIX=1))
    assert canonical.knobs == {"swa_prefix": 1}
    assert warnings == (
        "DSPARK_ENABLE_SWA_PREFIX: the engine reads DSPARK_ENABLE_DSPARK_SWA_PREFIX; that is what is set",
    )


def test_a_name_and_what_it_stands_for_are_one_value() -> None:
    named, _ = canonicalise(small(), configuration("small", model="tiny"))
    spelled_out, _ = canonicalise(small(), configuration("small", model="org/tiny@1"))
    assert named.configuration_id == spelled_out.configuration_id


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"num_speculative_token": 3}, 'unknown knob "num_speculative_token" in recipe small'),
        (
            {"num_speculative_tokens": 3, "MTP_NUM_TOKENS": 3},
            '"MTP_NUM_TOKENS" is num_speculative_tokens, which is set',
        ),
        ({"method": "mtp"}, 'method: "mtp" is not allowed'),
        ({"env.A B": 1}, '"A B" cannot be the name of an environment variable'),
        ({"env.HF_TOKEN": "x"}, "HF_TOKEN looks like a secret"),
        ({"env.VLLM_API_KEY": "x"}, "VLLM_API_KEY looks like a secret"),
    ],
)
def test_what_no_configuration_can_hold(knobs: dict[str, KnobValue], message: str) -> None:
    with pytest.raises(InputError) as caught:
        canonicalise(small(), configuration("small", **knobs))
    assert message in str(caught.value)
    assert "x" not in str(caught.value).split()


def test_a_running_server_takes_no_launch_knob() -> None:
    attach = shipped("attach").recipe
    with pytest.raises(InputError) as caught:
        canonicalise(attach, configuration("attach", num_speculative_tokens=3))
    assert str(caught.value) == snapshot("""\
attach cannot set "num_speculative_tokens": the server is already running
  Only load knobs can be varied on a server that is not launched here.\
""")


def test_no_speculation_drops_what_does_nothing_there() -> None:
    verdict = check(DSPARK, configuration("dspark-2x-spark", num_speculative_tokens=0, draft_sample_method="greedy"))
    assert verdict.configuration.knobs == {"num_speculative_tokens": 0}
    assert verdict.inert == ("draft_sample_method",)
    assert "block_k" not in verdict.effective


def test_method_none_is_no_speculation_whatever_k_says() -> None:
    verdict = check(small(), configuration("small", method="none", num_speculative_tokens=5))
    assert verdict.configuration.knobs == {"num_speculative_tokens": 0}


def test_a_local_server_is_the_same_with_a_default_said_aloud() -> None:
    recipe = small()
    silent, aloud = check(recipe, configuration("small")), check(recipe, configuration("small", max_num_seqs=8))
    other = check(recipe, configuration("small", max_num_seqs=9))
    assert same_server_key(recipe, silent) == same_server_key(recipe, aloud) != same_server_key(recipe, other)


def test_elsewhere_the_operators_file_decides_what_is_not_named() -> None:
    silent = check(DSPARK, configuration("dspark-2x-spark"))
    aloud = check(DSPARK, configuration("dspark-2x-spark", max_num_seqs=6))
    assert same_server_key(DSPARK, silent) != same_server_key(DSPARK, aloud)


@pytest.mark.parametrize("k", range(1, 16))
def test_vision_exp_takes_multiples_of_three_from_six_or_any_k_with_block_k(k: int) -> None:
    assert boots(**VISION, num_speculative_tokens=k) == (k >= 5 and k % 3 == 0)
    assert boots(**VISION, num_speculative_tokens=k, block_k=1)


@pytest.mark.parametrize("k", range(1, 16))
def test_the_official_checkpoint_takes_any_k_on_anemll_and_blocks_on_stage_c(k: int) -> None:
    assert boots(checkpoint="official-0731", image="anemll-0.1.1", num_speculative_tokens=k)
    stage_c = boots(checkpoint="official-0731", image="stage-c", num_speculative_tokens=k)
    assert stage_c == (k <= 5 or k % 5 == 0)


def test_no_speculation_boots_everywhere_the_checkpoint_does() -> None:
    assert boots(**VISION, num_speculative_tokens=0)
    assert boots(checkpoint="official-0731", image="stage-c", num_speculative_tokens=0)
    assert not boots(checkpoint="vision-exp", image="stage-c", num_speculative_tokens=0)


@pytest.mark.parametrize(
    "name",
    ["VLLM_DSPARK_CONFIDENCE_THRESHOLD", "env.VLLM_DSPARK_LOCAL_ARGMAX", "env.VLLM_DSV4_X", "confidence_scheduler"],
)
def test_what_the_image_ignores_is_refused(name: str) -> None:
    value: KnobValue = "auto" if "scheduler" in name else 1
    written = configuration("dspark-2x-spark", **{name: value})
    verdict = check(DSPARK, canonicalise(DSPARK, written)[0])
    assert verdict.because is not None
    assert verdict.because.endswith("has no effect on image anemll-0.1.1: every arm would be the same server")
    on_stage_c = configuration("dspark-2x-spark", image="stage-c", **{name: value})
    because = check(DSPARK, canonicalise(DSPARK, on_stage_c)[0]).because
    assert because is None or "every arm" not in because


def test_an_image_that_nobody_knows_warns_only() -> None:
    verdict = check(
        DSPARK, configuration("dspark-2x-spark", image="mine:latest", block_k=1, checkpoint="official-0731")
    )
    assert verdict.boots
    assert verdict.warnings == ("image mine:latest is not known to recipe dspark-2x-spark: it may ignore block_k",)


def test_the_older_generation_warns_of_the_capture_size() -> None:
    older = {"generation": "august", "checkpoint": "official-0731"}
    odd = check(DSPARK, configuration("dspark-2x-spark", **older, num_speculative_tokens=6, max_num_seqs=6))
    even = check(DSPARK, configuration("dspark-2x-spark", **older, num_speculative_tokens=7, max_num_seqs=6))
    assert ["no multiple of 8" in warning for warning in odd.warnings] == [True]
    assert even.warnings == ()


def test_a_step_that_cannot_hold_all_drafts_warns() -> None:
    fits = check(small(), configuration("small", max_num_seqs=8, num_speculative_tokens=3, max_num_batched_tokens=32))
    verdict = check(
        small(), configuration("small", max_num_seqs=8, num_speculative_tokens=3, max_num_batched_tokens=31)
    )
    assert fits.warnings == ()
    assert verdict.boots
    assert verdict.warnings == (
        "max_num_batched_tokens 31 is below max_num_seqs x (k + 1) = 32: draft tokens are dropped silently",
    )


def test_a_rule_that_only_warns() -> None:
    verdict = check(small(), configuration("small", eager=False))
    assert verdict.boots
    assert verdict.warnings == ("graphs need memory",)
    assert check(small(), configuration("small", eager=False, utilization=0.5)).warnings == ()


def test_a_refusal_carries_its_reason_and_source() -> None:
    verdict = check(small(), configuration("small", method="ngram", num_speculative_tokens=7))
    assert (verdict.because, verdict.source) == ("ngram is short", "log")
    assert check(small(), configuration("small", method="ngram", num_speculative_tokens=8)).boots
