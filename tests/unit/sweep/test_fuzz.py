"""Whatever stands in a sweep or recipe file, it is understood or it is an InputError."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.recipe.build import build_launch
from harness.recipe.load import LoadedRecipe, recipe_from
from harness.recipe.rules import canonicalise
from harness.sweep.cells import expand
from harness.sweep.load import sweep_from
from harness.sweep.schema import SweepFile
from harness.yaml_source import parse_source, read_source
from tests.unit.recipe.recipes import PLACES, SMALL, configuration, small
from tests.unit.sweep.sweeps import EXAMPLES

RECIPE = small()
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["8K", "3%", "10m", "ngram", "none", "draft_model", "cold", "as_recorded", "today", "", "x", "06:30"]
    )
)
KNOBS = st.sampled_from(
    [*RECIPE.knobs, "MTP_NUM_TOKENS", "env.MTP_NUM_TOKENS", "env.X", "class", "concurrency", "context_tokens", "cache",
     "output_tokens", "temperature", "thinking", "from", "to", "step", "factor", "natural", "by", "OLD_BUDGET", "wrong"]
)  # fmt: skip
TREES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KNOBS, inner, max_size=3), max_leaves=6
)
FILES = st.fixed_dictionaries(
    {"sweep": st.just("a"), "recipe": st.just("small")},
    optional={key: TREES for key in SweepFile.model_fields if key not in ("sweep", "recipe")},
)
LIKELY = st.fixed_dictionaries(
    {"sweep": st.just("a"), "recipe": st.just("small")},
    optional={
        "knobs": st.dictionaries(KNOBS, SCALARS | st.lists(SCALARS, max_size=3), max_size=4),
        "zip": st.dictionaries(st.just("z"), st.dictionaries(KNOBS, st.lists(SCALARS, min_size=2, max_size=2))),
        "configurations": st.dictionaries(
            st.sampled_from("ab"), st.dictionaries(KNOBS, SCALARS, max_size=2), max_size=2
        ),
        "exclude": st.lists(st.dictionaries(KNOBS, SCALARS, max_size=2), max_size=2),
        "incumbent": st.dictionaries(KNOBS, SCALARS, max_size=2),
        "workload": st.just({"trace": "t.jsonl"}),
    },
)


@given(FILES | LIKELY)
def test_a_sweep_expands_or_is_refused_with_a_message(data: dict[str, Any]) -> None:
    try:
        expansion = expand(sweep_from(parse_source(json.dumps(data), name="s.yaml")), RECIPE)
    except InputError as problem:
        assert problem.what
        return
    assert expansion.groups
    identities = [group.configuration.configuration_id for group in expansion.groups]
    assert len(set(identities)) == len(identities)
    for group in expansion.groups:
        assert len(set(group.loads)) == len(group.loads)


PATHS = st.lists(st.integers(0, 40), min_size=1, max_size=5)


def mutated(tree: Any, path: list[int], value: Any) -> Any:
    """The tree with one place replaced; the numbers choose where."""
    if not path or not isinstance(tree, dict | list) or not tree:
        return value
    if isinstance(tree, list):
        at = path[0] % len(tree)
        return [*tree[:at], mutated(tree[at], path[1:], value), *tree[at + 1 :]]
    key = list(tree)[path[0] % len(tree)]
    return {**tree, key: mutated(tree[key], path[1:], value)}


@given(st.sampled_from(["which_k", "worth_it", "replay"]), PATHS, TREES)
def test_an_example_with_one_place_changed(name: str, path: list[int], value: Any) -> None:
    data = mutated(read_source(EXAMPLES / f"{name}.yaml").data, path, value)
    try:
        expand(sweep_from(parse_source(json.dumps(data), name="s.yaml")), RECIPE)
    except InputError as problem:
        assert problem.what


SMALL_DATA = parse_source(SMALL, name="recipe.yaml").data


@given(PATHS, TREES)
def test_a_recipe_with_one_place_changed(path: list[int], value: Any) -> None:
    data = mutated(SMALL_DATA, path, value)
    try:
        recipe = recipe_from(parse_source(json.dumps(data), name="recipe.yaml"))
        loaded = LoadedRecipe(recipe=recipe, folder=PLACES.data_dir, sha256="")
        build_launch(loaded, canonicalise(recipe, configuration("small", model="tiny"))[0], PLACES)
    except InputError as problem:
        assert problem.what
