"""Recipe and configuration -> command line, environment and what the live server must show."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from harness.errors import InputError
from harness.recipe.build import build_launch
from harness.recipe.rules import canonicalise
from harness.recipe.spec import LaunchSpec
from harness.records.cell import KnobValue
from tests.unit.recipe.recipes import PLACES, SMALL, configuration, shipped, small_loaded


def built(text: str = SMALL, **knobs: KnobValue) -> LaunchSpec:
    loaded = small_loaded(text)
    return build_launch(loaded, canonicalise(loaded.recipe, configuration("small", **knobs))[0], PLACES)


def speculative(spec: LaunchSpec) -> dict[str, object] | None:
    if "--speculative-config" not in spec.argv:
        return None
    fields: dict[str, object] = json.loads(spec.argv[spec.argv.index("--speculative-config") + 1])
    return fields


def test_the_whole_command_line() -> None:
    spec = built(model="tiny", utilization=0.5, args="--seed 3 'a b'", tag="x", max_num_batched_tokens=64)
    assert list(spec.argv) == snapshot(
        [
            "/data/bin/engine",
            "serve",
            "--model",
            "org/tiny@1",
            "--name={x}",
            "--host",
            "127.0.0.1",
            "--port",
            "{port}",
            "--eager",
            "--utilization",
            "0.5",
            "--budget",
            "64",
            "--speculative-config",
            '{"draft_dir": "/data/draft", "num_speculative_tokens": 3, "method": "draft_model"}',
            "--seed",
            "3",
            "a b",
            "--tag=x",
        ]
    )


def test_environment_and_places() -> None:
    spec = built(model="tiny", max_num_seqs=4, env__VLLM_X=1, env__CACHE="mine")
    assert spec.environment == {"CACHE": "mine", "PORT": "{port}", "MAX_NUM_SEQS": "4", "VLLM_X": "1"}
    assert spec.working_directory == Path("/recipes/small")


def test_no_speculation_leaves_the_flag_out() -> None:
    for knobs in ({"num_speculative_tokens": 0}, {"method": "none"}):
        spec = built(model="tiny", **knobs)
        assert speculative(spec) is None
        assert spec.num_speculative_tokens == 0


def test_speculation_fields_keep_their_types() -> None:
    spec = built(model="tiny", num_speculative_tokens=5)
    assert speculative(spec) == {"draft_dir": "/data/draft", "num_speculative_tokens": 5, "method": "draft_model"}
    assert (spec.num_speculative_tokens, spec.k_may_be_trimmed) == (5, False)
    assert built(model="tiny", method="ngram").k_may_be_trimmed


def test_k_is_open_where_neither_sweep_nor_recipe_says() -> None:
    text = SMALL.replace("at_most: 16, default: 3,", "at_most: 16,")
    assert built(text, model="tiny").num_speculative_tokens is None


def test_k_is_0_where_nothing_asks_for_speculation() -> None:
    text = SMALL.replace("at_most: 16, default: 3,", "at_most: 16,").replace("    default: draft_model\n", "")
    spec = built(text, model="tiny")
    assert speculative(spec) is None
    assert spec.num_speculative_tokens == 0


def test_flags_of_a_bool() -> None:
    assert "--eager" in built(model="tiny").argv
    assert "--no-eager" in built(model="tiny", eager=False, utilization=0.1).argv


def test_home_and_braces_in_a_users_value() -> None:
    spec = built(model="~/models/{x}", tag="{port}")
    assert spec.argv[spec.argv.index("--model") + 1] == "/home/someone/models/{x}"
    assert spec.argv[-1] == "--tag={port}"


def test_a_value_that_the_recipe_needs() -> None:
    with pytest.raises(InputError) as caught:
        built()
    assert str(caught.value) == snapshot("""\
recipe small needs a value: "model" has no value
  Name it in `knobs`, or with --set.\
""")


def test_a_template_that_may_stay_empty() -> None:
    assert built(model="tiny").served_model is None
    assert built(model="tiny", served="alias").served_model == "alias"


def test_preparation() -> None:
    (step,) = built(model="tiny").preparation
    assert step.creates == Path("/data/done")
    assert step.command == ("/bin/python3", "/recipes/small/b.py", "/data/bin/engine", "serve")


def test_a_refused_configuration_is_not_built() -> None:
    with pytest.raises(InputError, match="is refused: ngram is short"):
        built(model="tiny", method="ngram", num_speculative_tokens=7)


def test_attach_has_an_address_and_no_command() -> None:
    spec = build_launch(shipped("attach"), configuration("attach", url="http://spark:8888/"), PLACES)
    assert (spec.style, spec.argv, spec.base_url) == ("attach", (), "http://spark:8888")
    assert spec.num_speculative_tokens is None


@pytest.mark.parametrize("k", [0, 1, 6])
def test_the_packaged_default_builds(k: int) -> None:
    spec = build_launch(shipped("vllm-cpu-tiny"), configuration("vllm-cpu-tiny", num_speculative_tokens=k), PLACES)
    assert spec.num_speculative_tokens == k
    assert ("--speculative-config" in spec.argv) == (k > 0)
    assert not any("{" in word for word in spec.argv if word not in ("{port}",) and not word.startswith('{"'))


def test_vllm_local_needs_a_model_and_gives_it_on() -> None:
    loaded = shipped("vllm-local")
    with pytest.raises(InputError, match="is refused"):
        build_launch(loaded, configuration("vllm-local"), PLACES)
    spec = build_launch(loaded, configuration("vllm-local", model="org/m", command="my-engine serve"), PLACES)
    assert spec.argv[:2] == ("my-engine", "serve")
    assert "org/m" in spec.argv
    assert spec.num_speculative_tokens == 0


def test_the_specification_keeps_the_name_of_the_configuration() -> None:
    loaded = small_loaded()
    named = replace(configuration("small", model="tiny"), name="mine")
    assert build_launch(loaded, named, PLACES).configuration.name == "mine"
