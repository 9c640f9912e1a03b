"""Recipe files: every name in them is checked, and every error is placed."""

# ruff: noqa: E501 - messages stand here as they are printed
from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from harness.errors import InputError
from harness.recipe.find import find_recipe, find_sweep, packaged, places_for, recipe_names
from harness.recipe.load import load_recipe
from tests.unit.recipe.recipes import SMALL, shipped, small


def error_of(text: str) -> str:
    with pytest.raises(InputError) as caught:
        small(text)
    return str(caught.value)


def changed(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new)


def test_unknown_name_in_a_template() -> None:
    text = changed('"{model}"', '"{modle}"').replace('"{cache_dir}/x"', '"{cachedir}/x"')
    assert error_of(text) == snapshot("""\
recipe.yaml:6:19: unknown name "{modle}" in a template
  Did you mean "model"? Known here: args, cache_dir, command, data_dir, eager, host, max_num_batched_tokens, max_num_seqs, method, model, num_speculative_tokens, port, python, recipe_dir, served, tag, utilization.
  Also: recipe.yaml:10:24: unknown name "{cachedir}" in a template
    Did you mean "cache_dir"?\
""")


def test_lone_brace_in_a_template() -> None:
    assert error_of(changed('"--tag={value}"', '"--tag={value"')) == snapshot(
        "recipe.yaml:38:48: a lone { in '--tag={value' (write {{ for the character itself)"
    )


def test_a_default_may_name_folders_only() -> None:
    assert error_of(changed("{data_dir}/bin/engine", "{model}/bin/engine")) == snapshot("""\
recipe.yaml:19:50: unknown name "{model}" in a template
  Known here: cache_dir, data_dir, host, port, python, recipe_dir.\
""")


def test_unknown_knob_in_rules_and_conditions() -> None:
    text = changed("when: {eager: false}", "when: {eagre: false}").replace(
        "inert_when: {num_speculative_tokens: 0}", "inert_when: {num_speculative_token: 0}"
    )
    assert error_of(text) == snapshot("""\
recipe.yaml:31:18: unknown knob "num_speculative_token"
  Did you mean "num_speculative_tokens"? Known here: args, cache, class, command, concurrency, context_tokens, eager, max_num_batched_tokens, max_num_seqs, method, model, num_speculative_tokens, output_tokens, served, tag, temperature, thinking, thinking_tokens, top_p, utilization.
  Also: recipe.yaml:43:13: unknown knob "eagre"
    Did you mean "eager"?\
""")


def test_unknown_knob_in_a_derived_number() -> None:
    assert error_of(SMALL + "derived: {size: {product_of: [max_num_seq, num_speculative_tokens + 1]}}\n") == snapshot("""\
recipe.yaml:44:31: unknown knob "max_num_seq"
  Did you mean "max_num_seqs"? Known here: args, command, eager, max_num_batched_tokens, max_num_seqs, method, model, num_speculative_tokens, served, tag, utilization.\
""")


def test_derived_number_that_is_no_product() -> None:
    assert error_of(SMALL + "derived: {size: {product_of: [max_num_seqs * 2]}}\n") == snapshot(
        'recipe.yaml:44:31: derived.size.product_of[0]: "max_num_seqs * 2" is not allowed (form: ^([a-z][a-z0-9_]*)(?: \\+ ([0-9]+))?$)'
    )


def test_one_spelling_for_two_knobs() -> None:
    assert error_of(changed("{help: slots,", "{help: slots, spelled: [MTP_NUM_TOKENS],")) == snapshot(
        'recipe.yaml:34:3: "MTP_NUM_TOKENS" names both num_speculative_tokens and max_num_seqs'
    )


def test_default_that_is_not_allowed() -> None:
    assert error_of(changed("default: draft_model", "default: mtp")) == snapshot(
        'recipe.yaml:29:14: default: "mtp" is not allowed (allowed: "none", "ngram", "draft_model")'
    )


def test_a_launch_knob_cannot_be_a_load_knob() -> None:
    text = changed("{help: slots,", "{help: slots, scope: load,") + "  \n"
    assert error_of(text) == snapshot("""\
recipe.yaml:34:3: max_num_seqs cannot have scope load
  Load knobs, and only they, have scope load: class, context_tokens, concurrency, cache, output_tokens, temperature, top_p, thinking, thinking_tokens.\
""")


def test_pattern_that_is_no_regular_expression() -> None:
    text = changed("  ready_timeout_s: 60", "  boot: {fatal: ['(unclosed']}\n  ready_timeout_s: 60")
    assert error_of(text) == snapshot(
        "recipe.yaml:15:18: not a regular expression: missing ), unterminated subpattern at position 0"
    )


def test_wrong_matcher() -> None:
    assert error_of(changed("{at_most: 5}", "{atmost: 5}")) == snapshot(
        'recipe.yaml:42:63: rules[0].require.num_speculative_tokens: "atmost" does not fit a matcher (multiple_of, at_least, at_most, not, set)'
    )


def test_unknown_keys_and_types() -> None:
    text = changed("ready_timeout_s: 60", "ready_timeout: 60").replace("help: k, type: int", "help: k, type: integer")
    assert error_of(text) == snapshot("""\
recipe.yaml:3:1: "ready_timeout_s" is missing in launch
  Also: recipe.yaml:15:3: unknown key "ready_timeout" in launch
    Did you mean "ready_timeout_s"?
  Also: recipe.yaml:23:21: knobs.num_speculative_tokens.type: "integer" is not allowed (allowed: 'int', 'float', 'bool', 'choice', 'string' or 'list')\
""")


@pytest.mark.parametrize("name", sorted(file.parent.name for file in packaged("recipes").glob("*/recipe.yaml")))
def test_every_recipe_of_the_repository_loads_under_its_own_name(name: str) -> None:
    loaded = shipped(name)
    assert loaded.recipe.recipe == name
    assert loaded.folder == (packaged("recipes") / name).resolve()


def test_a_recipe_is_found_as_a_path_then_here_then_as_packaged(tmp_path: Path) -> None:
    own = tmp_path / "recipes" / "small"
    own.mkdir(parents=True)
    (own / "recipe.yaml").write_text(SMALL, encoding="utf-8")
    assert find_recipe("small", start=tmp_path) == own
    assert load_recipe(find_recipe("./recipes/small", start=tmp_path)).recipe.title.startswith("a program")
    assert load_recipe(find_recipe("recipes/small/recipe.yaml", start=tmp_path)).folder == own.resolve()
    assert find_recipe("vllm-local", start=tmp_path) == packaged("recipes") / "vllm-local"
    assert {"small", "vllm-local", "attach"} <= set(recipe_names(start=tmp_path))


def test_a_recipe_here_hides_the_packaged_one(tmp_path: Path) -> None:
    own = tmp_path / "recipes" / "vllm-local"
    own.mkdir(parents=True)
    (own / "recipe.yaml").write_text(SMALL, encoding="utf-8")
    assert find_recipe("vllm-local", start=tmp_path) == own


def test_unknown_recipe(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        find_recipe("vllm-loca", where="s.yaml:2:9", start=tmp_path)
    assert str(caught.value).startswith(
        's.yaml:2:9: unknown recipe "vllm-loca"\n  Did you mean "vllm-local"? Known here: '
    )


def test_path_without_a_recipe(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        find_recipe("./nowhere", start=tmp_path)
    assert str(caught.value) == snapshot("""\
no recipe at "./nowhere"
  A recipe is a folder with a recipe.yaml.\
""")


def test_a_sweep_is_found_by_path_and_by_name(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    file = tmp_path / "sweeps" / "mine.yaml"
    file.write_text("sweep: mine\n", encoding="utf-8")
    assert find_sweep(str(file)) == file
    assert find_sweep("mine", start=tmp_path) == file
    assert find_sweep("mine.yaml", start=tmp_path) == file
    with pytest.raises(InputError, match=r'no sweep file "min"\n  Did you mean "mine"\?'):
        find_sweep("min", start=tmp_path)


@pytest.mark.parametrize("name", ["laptop", "laptop.yaml"])
def test_a_sweep_of_ones_own_comes_before_a_packaged_one_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_sweep(name) == packaged("sweeps") / "laptop.yaml"
    (tmp_path / "laptop.yaml").write_text("sweep: laptop\n", encoding="utf-8")
    assert find_sweep(name).resolve() == tmp_path / "laptop.yaml"


def test_data_of_a_recipe_lies_in_a_folder_of_its_own(tmp_path: Path) -> None:
    assert places_for("small", data_root=tmp_path).data_dir == tmp_path / "small"
