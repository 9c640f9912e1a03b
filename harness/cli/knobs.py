"""KNOB=VALUE of the command line -> knobs of a recipe."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import InputError
from harness.recipe.load import LoadedRecipe
from harness.recipe.names import KnobNames
from harness.records.cell import Configuration
from harness.yaml_source import parse_value


def configuration_from(loaded: LoadedRecipe, settings: Sequence[str]) -> Configuration:
    """Return the configuration that ``--set`` names, by neutral names. Raises InputError."""
    written = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise InputError("expected KNOB=VALUE", where=f"--set {setting}", hint="As in num_speculative_tokens=5.")
        written[name.strip()] = parse_value(text, place=f"--set {name}")
    knobs, _ = KnobNames(loaded.recipe).canonical(written)
    return Configuration(recipe=loaded.recipe.recipe, knobs=knobs)
