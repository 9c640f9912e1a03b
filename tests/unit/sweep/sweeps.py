"""Sweeps for tests: text to Sweep and Expansion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from harness.errors import InputError
from harness.recipe.find import find_recipe
from harness.recipe.load import load_recipe
from harness.recipe.schema import Recipe
from harness.sweep.cells import Expansion, expand
from harness.sweep.load import Sweep, sweep_from
from harness.yaml_source import parse_source

HEAD = "sweep: a\nrecipe: vllm-cpu-tiny\n"
EXAMPLES = Path(__file__).parent / "examples"


def sweep(text: str, *, set_overrides: Sequence[str] = (), head: str = HEAD) -> Sweep:
    """The sweep in ``text``, which starts in line 3 unless there is another head."""
    return sweep_from(parse_source(head + text, name="s.yaml"), set_overrides=set_overrides)


def expanded(
    text: str, *, set_overrides: Sequence[str] = (), head: str = HEAD, recipe: Recipe | None = None
) -> Expansion:
    """What the sweep in ``text`` asks for."""
    loaded = sweep(text, set_overrides=set_overrides, head=head)
    return expand(loaded, recipe or _packaged(loaded.file.recipe))


def error_of(text: str, *, set_overrides: Sequence[str] = (), head: str = HEAD, recipe: Recipe | None = None) -> str:
    """The message of the InputError that the sweep ends in."""
    with pytest.raises(InputError) as caught:
        expanded(text, set_overrides=set_overrides, head=head, recipe=recipe)
    return str(caught.value)


def knobs(expansion: Expansion, *names: str) -> list[tuple[object, ...]]:
    """The values of some knobs, configuration by configuration."""
    return [tuple(group.configuration.knobs.get(name) for name in names) for group in expansion.groups]


@cache
def _packaged(name: str) -> Recipe:
    return load_recipe(find_recipe(name)).recipe
