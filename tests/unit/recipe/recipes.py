"""Recipes for tests, small and as packaged."""

from __future__ import annotations

from pathlib import Path

from harness.recipe.build import Places
from harness.recipe.find import packaged
from harness.recipe.load import LoadedRecipe, load_recipe, recipe_from
from harness.recipe.schema import Recipe
from harness.records.cell import Configuration, KnobValue
from harness.yaml_source import parse_source

PLACES = Places(
    cache_dir=Path("/cache"), data_dir=Path("/data"), python=Path("/bin/python3"), home=Path("/home/someone")
)

SMALL = """\
recipe: small
title: a program that speaks vLLM's command line
launch:
  style: local_process
  command: ["{command}"]
  args: [--model, "{model}", "--name={{x}}"]
  port_flag: --port
  host_flag: --host
  speculative_config: {flag: --speculative-config, fields: {draft_dir: "{data_dir}/draft"}}
  environment: {CACHE: "{cache_dir}/x", PORT: "{port}"}
  working_directory: "{recipe_dir}"
  served_model: "{served}"
  preparation:
    - {name: build, says: a second, creates: "{data_dir}/done", command: ["{python}", "{recipe_dir}/b.py", "{command}"]}
  ready_timeout_s: 60
  expected_launch_s: 5
  k_may_be_trimmed_when: {method: ngram}
knobs:
  command: {help: program, type: list, default: ["{data_dir}/bin/engine", serve]}
  model: {help: model, type: string, names: {tiny: org/tiny@1}}
  served: {help: name, type: string}
  num_speculative_tokens:
    {help: k, type: int, at_least: 0, at_most: 16, default: 3, spelled: [MTP_NUM_TOKENS],
     sets: {speculative: num_speculative_tokens}}
  method:
    help: method
    type: choice
    values: [none, ngram, draft_model]
    default: draft_model
    sets: {speculative: method}
    inert_when: {num_speculative_tokens: 0}
  eager: {help: eager, type: bool, default: true, sets: {flag: --eager, flag_off: --no-eager}}
  utilization: {help: share, type: float, at_least: 0, at_most: 1, sets: {flag: --utilization}}
  max_num_seqs: {help: slots, type: int, at_least: 1, default: 8, sets: {environment: MAX_NUM_SEQS}}
  max_num_batched_tokens:
    {help: budget, type: int, at_least: 1, sets: {flag: --budget}, deprecated: {OLD_BUDGET: say it anew}}
  args: {help: more, type: list, sets: {argv: ["{value}"]}}
  tag: {help: tag, type: string, sets: {argv: ["--tag={value}"]}}
implies:
  - {when: {method: none}, then: {num_speculative_tokens: 0}}
rules:
  - {when: {method: ngram}, require: {num_speculative_tokens: [{at_most: 5}, 8]}, because: ngram is short, source: log}
  - {when: {eager: false}, require: {utilization: {set: true}}, because: graphs need memory, level: warn}
"""


def small(text: str = SMALL) -> Recipe:
    """The small recipe, or a change of it."""
    return recipe_from(parse_source(text, name="recipe.yaml"))


def small_loaded(text: str = SMALL) -> LoadedRecipe:
    """The same with a folder."""
    return LoadedRecipe(recipe=small(text), folder=Path("/recipes/small"), sha256="0" * 64)


def shipped(name: str) -> LoadedRecipe:
    """A recipe of this repository."""
    return load_recipe(packaged("recipes") / name)


def configuration(recipe: str, **knobs: KnobValue) -> Configuration:
    """A configuration; ``env__X`` is env.X."""
    return Configuration(recipe=recipe, knobs={name.replace("env__", "env."): value for name, value in knobs.items()})
