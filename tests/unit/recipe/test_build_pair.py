"""A pair's configuration -> the variables that both ways of launching it are given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from harness.errors import InputError
from harness.recipe.build import build_launch
from harness.recipe.load import recipe_from
from harness.recipe.pair import recognise
from harness.recipe.rules import canonicalise, check
from harness.recipe.schema import Recipe
from harness.recipe.spec import LaunchSpec
from harness.recipe.variables import engine_variables
from harness.records.cell import KnobValue
from harness.yaml_source import parse_source
from tests.unit.recipe.recipes import PLACES, configuration, shipped

PAIR = shipped("dspark-2x-spark")
CODE = "`$\"'\\;&|<>()\n\r\t\x00\x1b\x7f"


def built(recipe: str = "dspark-2x-spark", **knobs: KnobValue) -> LaunchSpec:
    loaded = shipped(recipe)
    return build_launch(loaded, canonicalise(loaded.recipe, configuration(recipe, **knobs))[0], PLACES)


def recipe_with(text: str) -> Recipe:
    return recipe_from(parse_source(f"recipe: small\ntitle: small\n{text}", name="recipe.yaml"))


def test_a_checkout_gets_what_the_sweep_names_and_nothing_else() -> None:
    spec = built(num_speculative_tokens=7, draft_sample_method="greedy", checkpoint="official-0731", env__NCCL_NET="IB")
    assert (spec.style, spec.argv, spec.num_speculative_tokens) == ("two_node_checkout", (), 7)
    assert spec.environment == snapshot(
        {
            "ABLITERATED": "0",
            "DSPARK_MODEL_OFFICIAL": "deepseek-ai/DeepSeek-V4-Flash-0731",
            "DSPARK_REVISION": "9e165c30e2704aec5d9d593cce3eebd58bbef1cb",
            "SERVED_MODEL_NAME": "deepseek-v4-flash-0731",
            "MTP_NUM_TOKENS": "7",
            "DRAFT_SAMPLE_METHOD": "greedy",
            "NCCL_NET": "IB",
        }
    )


def test_the_operators_own_file_untouched() -> None:
    spec = built()
    assert (spec.environment, spec.num_speculative_tokens) == ({}, None)
    assert spec.pair is not None
    assert (spec.pair.image, spec.pair.checkpoint, spec.pair.generation) == (None, None, "september")


def test_no_speculation_is_carried_by_no_variable() -> None:
    spec = built(num_speculative_tokens=0, max_num_seqs=4)
    assert (spec.environment, spec.num_speculative_tokens) == ({"MAX_NUM_SEQS": "4"}, 0)


def test_an_image_that_needs_an_override_says_so() -> None:
    spec = built(image="stage-c", confidence_threshold=0.5, confidence_scheduler="threshold")
    assert spec.pair is not None
    assert spec.pair.overrides == ("docker-compose.stage-c.override.yml",)
    assert spec.environment["DSPARK_VLLM_IMAGE"] == "vllm-dspark-runtime:dspark-nvfp4-stage-c"
    assert spec.environment["VLLM_DSPARK_CONFIDENCE_THRESHOLD"] == "0.5"
    assert built(image="anemll-0.1.1").pair.overrides == ()  # type: ignore[union-attr]


def test_the_bundled_launch_has_defaults_where_there_is_no_file_of_an_operator() -> None:
    spec = built(generation="bundled", max_num_seqs=8)
    assert (spec.style, spec.environment, spec.num_speculative_tokens) == ("two_node_bundled", {"MAX_NUM_SEQS": "8"}, 5)
    assert spec.pair is not None
    assert spec.pair.defaults["MTP_NUM_TOKENS"] == "5"
    assert spec.pair.defaults["MAX_MODEL_LEN"] == "1048576"
    assert "MAX_NUM_SEQS" not in spec.pair.defaults


def test_the_bundled_launch_works_image_and_checkpoint_out_with_pair_yaml() -> None:
    spec = built(generation="bundled", image="stage-c", checkpoint="official-0731", num_speculative_tokens=0)
    assert spec.pair is not None
    assert (spec.pair.image, spec.environment, spec.num_speculative_tokens) == (
        "vllm-dspark-runtime:dspark-nvfp4-stage-c",
        {},
        0,
    )
    assert spec.pair.checkpoint == "deepseek-ai/DeepSeek-V4-Flash-0731@9e165c30e2704aec5d9d593cce3eebd58bbef1cb"
    assert spec.pair.defaults["VLLM_DSPARK_GPU_REJECTED_CONTEXT_MASK"] == "1"
    assert "VLLM_DSPARK_GPU_REJECTED_CONTEXT_MASK" not in built(generation="bundled").pair.defaults  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("knobs", "because"),
    [
        ({"block_k": 1}, "block_k is a hot fix of the checkout"),
        ({"max_inflight_prefills": 2}, "only a hot fix of the checkout reads max_inflight_prefills"),
        ({"checkout": "~/dspark"}, "the bundled launch uses no checkout"),
        ({"env__DSPARK_ENABLE_SP_INDEXER": 1}, "nothing reads env.DSPARK_ENABLE_SP_INDEXER here"),
        ({"checkpoint": "vision-exp", "num_speculative_tokens": 5}, "Vision-Exp drafts with 3 layers"),
    ],
)
def test_what_only_a_checkout_can_do_is_refused_in_the_bundled_launch(
    knobs: dict[str, KnobValue], because: str
) -> None:
    written = configuration("dspark-2x-spark", generation="bundled", **knobs)
    verdict = check(PAIR.recipe, canonicalise(PAIR.recipe, written)[0])
    assert verdict.because is not None
    assert verdict.because.startswith(because)


def test_a_correction_that_the_bundled_launch_lacks_makes_no_second_server() -> None:
    written = configuration("dspark-2x-spark", generation="bundled", swa_prefix=1)
    assert check(PAIR.recipe, written).configuration.knobs == {"generation": "bundled"}


@given(before=st.text(max_size=4), code=st.sampled_from(CODE), after=st.text(max_size=4))
def test_what_the_scripts_would_run_is_refused_for_a_checkout(before: str, code: str, after: str) -> None:
    with pytest.raises(InputError, match=r"env\.X = ") as caught:
        build_launch(PAIR, configuration("dspark-2x-spark", **{"env.X": f"{before}{code}{after}"}), PLACES)
    assert caught.value.exit_code == 2


@given(text=st.text().filter(lambda text: not re.search(f"[{re.escape(CODE)}\x00-\x1f]", text)))
def test_what_they_would_not_run_reaches_them_unchanged(text: str) -> None:
    spec = build_launch(PAIR, configuration("dspark-2x-spark", **{"env.X": text}), PLACES)
    assert spec.environment == {"X": text}


def test_an_injection_in_a_sweep_is_no_matter_for_the_bundled_launch() -> None:
    value = 'x"; touch /tmp/owned; "'
    assert built(generation="bundled", env__X=value).environment == {"X": value}
    with pytest.raises(InputError) as caught:
        built(env__X=value)
    assert str(caught.value) == snapshot("""\
dspark-2x-spark: env.X = "x"; touch /tmp/owned; "": the recipe's scripts would run what stands after '"'
  Write a value without control characters and without ` $ " ' \\ ; & | < > ( ).\
""")


@pytest.mark.parametrize(
    "name",
    [
        "WORKER_HOST",  # ssh takes -oProxyCommand=... for an option
        "WORKER_SCRIPT_DIR",
        "MASTER_ADDR",
        "VLLM_HOST",
        "VLLM_HOST_IP",
        "HF_CACHE",
        "DSPARK_TMP_HOST",
        "DSPARK_ISSUE55_HOTFIX",
        "DSPARK_ENCODING_FILE",
        "DSPARK_PATCHES_DIR",
        "COMPOSE_FILE",
        "PROJECT_NAME",
        "PATH",
        "BASH_ENV",
        "LD_PRELOAD",
        "DOCKER_HOST",
        "DSPARK_MODEL",
        "VLLM_API_KEY",
    ],
)
def test_what_steers_the_scripts_is_no_ones_to_sweep(name: str) -> None:
    with pytest.raises(InputError):
        canonicalise(PAIR.recipe, configuration("dspark-2x-spark", **{f"env.{name}": "-oProxyCommand=touch"}))


@pytest.mark.parametrize(
    "name", ["NCCL_IB_HCA", "VLLM_USE_B12X_MOE", "DSPARK_SKIP_ISSUE22_HOTFIX", "KV_DISK_CACHE_ENABLE"]
)
def test_what_changes_the_engine_may_be_swept(name: str) -> None:
    canonicalise(PAIR.recipe, configuration("dspark-2x-spark", **{f"env.{name}": "1"}))


@pytest.mark.parametrize("value", ["--format=x", "a b", "$(x)", ""])
def test_an_image_has_the_form_of_one(value: str) -> None:
    with pytest.raises(InputError, match="does not have the form"):
        canonicalise(PAIR.recipe, configuration("dspark-2x-spark", image=value))


@pytest.mark.parametrize("value", ["deepseek-v4-flash-0731", "-x/y@1", "a/b@", "a/b@-1", "a/b/c@1"])
def test_a_checkpoint_has_the_form_of_one(value: str) -> None:
    with pytest.raises(InputError, match="does not have the form"):
        canonicalise(PAIR.recipe, configuration("dspark-2x-spark", checkpoint=value))


def test_the_variables_of_a_configuration_for_pasting() -> None:
    variables = engine_variables(
        PAIR.recipe, {"num_speculative_tokens": 6, "checkpoint": "org/Some-Model@abc", "block_k": 0, "env.A": 1.5}
    )
    assert variables == {
        "ABLITERATED": "0",
        "DSPARK_MODEL_OFFICIAL": "org/Some-Model",
        "DSPARK_REVISION": "abc",
        "SERVED_MODEL_NAME": "some-model",
        "MTP_NUM_TOKENS": "6",
        "DSPARK_ENABLE_DSPARK_BLOCK_K": "0",
        "A": "1.5",
    }


AUGUST = (
    "Resolved DSpark profile:\nmtp speculative tokens: 5 (dspark_block_size min is 5)\n# treat exit 3 as already-up"
)
SEPTEMBER = f"{AUGUST}\nDSPARK_ENABLE_DSPARK_BLOCK_K=0 # requires MTP_NUM_TOKENS >= 5; rounded up to a multiple of 8"


@pytest.mark.parametrize(
    ("script", "generation"),
    [(AUGUST, "august"), (SEPTEMBER, "september"), (f"{AUGUST} # requires MTP_NUM_TOKENS", None), ("", None)],
)
def test_a_generation_is_told_by_options_and_messages(script: str, generation: str | None) -> None:
    assert PAIR.recipe.pair is not None
    assert PAIR.recipe.pair.checkout is not None
    assert recognise(PAIR.recipe.pair.checkout.generations, script) == generation


def test_a_container_is_named_by_project_and_service() -> None:
    assert PAIR.recipe.pair is not None
    assert PAIR.recipe.pair.container_name("mine") == "mine-vllm-dspark-1"


def test_a_style_of_two_nodes_needs_the_section() -> None:
    with pytest.raises(InputError, match="style two_node_bundled needs a section `pair` with `bundled`"):
        recipe_with("launch: {style: two_node_bundled, ready_timeout_s: 1, expected_launch_s: 1}\n")


def test_the_files_that_the_recipe_names_are_beside_it() -> None:
    for name in ("dspark-2x-spark", "dspark-1x-spark"):
        loaded = shipped(name)
        assert loaded.recipe.pair is not None
        assert loaded.recipe.pair.bundled is not None
        assert (Path(loaded.folder) / loaded.recipe.pair.bundled.compose).is_file()
