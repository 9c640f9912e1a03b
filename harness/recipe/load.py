"""recipe.yaml -> Recipe, with every name in it checked before anything is launched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import InputError
from harness.recipe.knob import Knob
from harness.recipe.schema import BUILT_IN_NAMES, CHECKPOINT_PARTS, ENV_PREFIX, LOAD_KNOBS, Recipe
from harness.recipe.template import names_in
from harness.yaml_model import did_you_mean, validated
from harness.yaml_source import KeyPath, Source, raise_all, read_source

RECIPE_FILE = "recipe.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRecipe:
    """A recipe, and where it lies: its own files are beside it."""

    recipe: Recipe
    folder: Path
    sha256: str  # of recipe.yaml


def load_recipe(path: Path) -> LoadedRecipe:
    """Return the recipe in a file, or in a folder with a recipe.yaml.

    Raises:
        InputError: it cannot be read, or something in it is wrong; names file, line and column.
    """
    file = path / RECIPE_FILE if path.is_dir() else path
    source = read_source(file)
    return LoadedRecipe(recipe=recipe_from(source), folder=file.parent.resolve(), sha256=source.sha256)


def recipe_from(source: Source) -> Recipe:
    """Return the recipe in a source. Raises InputError."""
    recipe = validated(Recipe, source)
    raise_all(list(_problems(recipe, source)))
    return recipe


def _problems(recipe: Recipe, source: Source) -> Iterator[InputError]:
    yield from _knob_problems(recipe, source)
    yield from _template_problems(recipe, source)
    yield from _condition_problems(recipe, source)
    yield from _derived_problems(recipe, source)
    yield from _pattern_problems(recipe, source)
    yield from _pair_problems(recipe, source)
    yield from _simulation_problems(recipe, source)


def _knob_problems(recipe: Recipe, source: Source) -> Iterator[InputError]:
    spelled: dict[str, str] = {}
    for name, knob in recipe.knobs.items():
        path: KeyPath = ("knobs", name)
        for spelling in (name, *knob.spelled, *knob.deprecated):
            if spelling in spelled:
                yield source.error(path, f'"{spelling}" names both {spelled[spelling]} and {name}', value=False)
            spelled[spelling] = name
        if (knob.scope == "load") != (name in LOAD_KNOBS):
            yield source.error(path, f"{name} cannot have scope {knob.scope}", value=False, hint=_LOAD_HINT)
        yield from _default_problem(knob, source, (*path, "default"))


_LOAD_HINT = f"Load knobs, and only they, have scope load: {', '.join(LOAD_KNOBS)}."


def _default_problem(knob: Knob, source: Source, path: KeyPath) -> Iterator[InputError]:
    default = knob.default_value
    if default is None or (isinstance(default, str) and "{" in default):
        return
    try:
        knob.read(default)
    except ValueError as problem:
        yield source.error(path, f"default: {problem}")


def _template_problems(recipe: Recipe, source: Source) -> Iterator[InputError]:
    known = {*BUILT_IN_NAMES, *recipe.launch_knobs}
    for path, text in _texts(source.data.get("launch", {}), ("launch",)):
        if len(path) > 1 and path[1] in _TEMPLATED:
            yield from _names_problem(source, path, text, known)
    for name in recipe.knobs:
        path = ("knobs", name)
        for at, text in _texts(source.data["knobs"][name].get("sets") or {}, (*path, "sets")):
            yield from _names_problem(source, at, text, {"value", *CHECKPOINT_PARTS, *BUILT_IN_NAMES})
        for at, text in _texts(source.data["knobs"][name].get("default"), (*path, "default")):
            yield from _names_problem(source, at, text, set(BUILT_IN_NAMES))


_TEMPLATED = (
    "command",
    "args",
    "environment",
    "working_directory",
    "speculative_config",
    "base_url",
    "over_ssh",
    "served_model",
    "preparation",
)


def _names_problem(source: Source, path: KeyPath, text: str, known: Iterable[str]) -> Iterator[InputError]:
    try:
        names = names_in(text)
    except ValueError as problem:
        yield source.error(path, str(problem))
        return
    for name in names:
        if name not in known:
            yield source.error(path, f'unknown name "{{{name}}}" in a template', hint=did_you_mean(name, known))


def _condition_problems(recipe: Recipe, source: Source) -> Iterator[InputError]:
    known = {*recipe.knobs, *LOAD_KNOBS, *recipe.derived}
    for path, condition in _conditions(recipe):
        for name in condition:
            if name not in known and not name.startswith(ENV_PREFIX):
                hint = did_you_mean(name, known)
                yield source.error((*path, name), f'unknown knob "{name}"', hint=hint, value=False)


def _derived_problems(recipe: Recipe, source: Source) -> Iterator[InputError]:
    for name, made in recipe.derived.items():
        for index, term in enumerate(made.product_of):
            knob = term.partition(" ")[0]
            if knob not in recipe.launch_knobs:
                hint = did_you_mean(knob, recipe.launch_knobs)
                yield source.error(("derived", name, "product_of", index), f'unknown knob "{knob}"', hint=hint)


def _conditions(recipe: Recipe) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    for index, rule in enumerate(recipe.rules):
        yield ("rules", index, "when"), rule.when
        yield ("rules", index, "require"), rule.require
    for index, implication in enumerate(recipe.implies):
        yield ("implies", index, "when"), implication.when
        yield ("implies", index, "then"), implication.then
    for name, knob in recipe.knobs.items():
        for condition in knob.inert_when:
            yield ("knobs", name, "inert_when"), condition
    for name, about in recipe.environment_variables.known.items():
        for condition in about.ignored_when:
            yield ("environment_variables", "known", name, "ignored_when"), condition
    yield from _launch_conditions(recipe)
    yield from _simulation_conditions(recipe)
    yield from _pair_conditions(recipe)


def _launch_conditions(recipe: Recipe) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    for key in ("k_may_be_trimmed_when", "control_when"):
        for condition in getattr(recipe.launch, key):
            yield ("launch", key), condition


def _simulation_conditions(recipe: Recipe) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    if recipe.simulation is None:
        return
    for index, choice in enumerate(recipe.simulation.truths):
        yield ("simulation", "truths", index, "when"), choice.when
    for condition in recipe.simulation.truncates_graphs_when:
        yield ("simulation", "truncates_graphs_when"), condition
    for index, rule in enumerate(recipe.simulation.rules):
        yield ("simulation", "rules", index, "when"), rule.when
        yield ("simulation", "rules", index, "require"), rule.require


def _pair_conditions(recipe: Recipe) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    pair = recipe.pair
    for index, override in enumerate(pair.checkout.overrides if pair and pair.checkout else ()):
        yield ("pair", "checkout", "overrides", index, "when"), override.when
    for index, addition in enumerate(pair.bundled.additions if pair and pair.bundled else ()):
        yield ("pair", "bundled", "additions", index, "when"), addition.when


def _pair_problems(recipe: Recipe, source: Source) -> Iterator[InputError]:
    style, pair = recipe.launch.style, recipe.pair
    wanted = {"two_node_checkout": "checkout", "two_node_bundled": "bundled"}.get(style)
    if wanted is not None and (pair is None or getattr(pair, wanted) is None):
        what = f"style {style} needs a section `pair` with `{wanted}`"
        yield source.error(("launch", "style"), what)


def _pattern_problems(recipe: Recipe, source: Source) -> Iterator[InputError]:
    for path, pattern in _patterns(recipe):
        try:
            re.compile(pattern)
        except re.error as problem:
            yield source.error(path, f"not a regular expression: {problem}")


def _patterns(recipe: Recipe) -> Iterator[tuple[KeyPath, str]]:
    for path, patterns in _pattern_lists(recipe):
        for index, pattern in enumerate(patterns):
            yield (*path, index), pattern
    for pattern in recipe.launch.boot.remedies:
        yield ("launch", "boot", "remedies", pattern), pattern
    for name, knob in recipe.knobs.items():
        if knob.pattern is not None:
            yield ("knobs", name, "pattern"), knob.pattern


def _pattern_lists(recipe: Recipe) -> Iterator[tuple[KeyPath, tuple[str, ...]]]:
    for kind in ("progress", "fatal", "jit"):
        yield ("launch", "boot", kind), getattr(recipe.launch.boot, kind)
    checkout = recipe.pair.checkout if recipe.pair else None
    if checkout is None:
        return
    path: KeyPath = ("pair", "checkout")
    for kind in ("ready", "failed", "already_running"):
        yield (*path, "messages", kind), getattr(checkout.messages, kind)
    for number, generation in enumerate(checkout.generations):
        yield (*path, "generations", number, "has"), generation.has
        yield (*path, "generations", number, "lacks"), generation.lacks


def _simulation_problems(recipe: Recipe, source: Source) -> Iterator[InputError]:
    if recipe.simulation is None:
        return
    named = {"knobs": tuple(recipe.simulation.knobs), "assumes": tuple(recipe.simulation.assumes)}
    for key, names in named.items():
        for name in names:
            if name not in recipe.launch_knobs and not name.startswith(ENV_PREFIX):
                hint = did_you_mean(name, recipe.launch_knobs)
                yield source.error(("simulation", key, name), f'unknown knob "{name}"', hint=hint, value=False)


def _texts(tree: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _texts(value, (*path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _texts(value, (*path, index))
