"""The JSON Schema files equal the models, and every shipped file is valid by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.engine.pair.inventory import json_schema as pair_schema
from harness.recipe.find import packaged
from harness.recipe.schema import json_schema as recipe_schema
from harness.sweep.schema import SweepFile
from harness.sweep.schema import json_schema as sweep_schema
from harness.yaml_source import read_source
from tests.unit.sweep.sweeps import EXAMPLES

SCHEMAS = {"sweep": sweep_schema, "recipe": recipe_schema, "pair": pair_schema}
SWEEPS = sorted([*packaged("sweeps").glob("*.yaml"), *EXAMPLES.glob("*.yaml")])
RECIPES = sorted(packaged("recipes").glob("*/recipe.yaml"))
PAIRS = sorted(packaged("recipes").glob("*/pair.example.yaml"))


def problems(schema: dict[str, Any], data: object) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(data)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_file_equals_the_model(name: str) -> None:
    stored = json.loads((packaged("schemas") / f"{name}.json").read_text(encoding="utf-8"))
    assert stored == SCHEMAS[name](), "run `make schema`"


@pytest.mark.parametrize("name", SCHEMAS)
def test_it_is_a_schema_without_loose_ends(name: str) -> None:
    schema = SCHEMAS[name]()
    Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    assert "x-shared" not in text
    for name_used in {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}:
        assert name_used in schema["$defs"]


def test_every_key_of_a_sweep_is_described() -> None:
    described = [key for key, value in sweep_schema()["properties"].items() if value.get("description")]
    assert set(described) == set(SweepFile.model_fields)


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
def test_every_sweep_is_valid(file: Path) -> None:
    assert problems(sweep_schema(), read_source(file).data) == []


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.parent.name)
def test_every_recipe_is_valid(file: Path) -> None:
    assert problems(recipe_schema(), read_source(file).data) == []


@pytest.mark.parametrize("file", PAIRS, ids=lambda file: file.parent.name)
def test_every_pair_is_valid(file: Path) -> None:
    assert problems(pair_schema(), read_source(file).data) == []


_KINDS = {"recipe.yaml": ("recipe", "../.."), "pair.example.yaml": ("pair", "../..")}


@pytest.mark.parametrize("file", [*packaged("sweeps").glob("*.yaml"), *RECIPES, *PAIRS], ids=str)
def test_every_shipped_file_names_its_schema(file: Path) -> None:
    kind, up = _KINDS.get(file.name, ("sweep", ".."))
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# yaml-language-server: $schema={up}/schemas/{kind}.json"


@pytest.mark.parametrize(
    "changes",
    [
        {"knobs": {"concurrency": {"from": 1, "to": 8}}},
        {"knobs": {"concurrency": {"from": 1, "to": 8, "step": 1, "factor": 2}}},
        {"knobs": {"concurrency": []}},
        {"knobs": {"output_tokens": {"natura": 3}}},
        {"repeat": {"launches": 0}},
        {"budget": {"finish_by": "6:30"}},
        {"unknown": 1},
        {"mix": {"by": "bytes"}},
        {"on_refused": "halt"},
    ],
    ids=str,
)
def test_an_editor_sees_what_is_wrong(changes: dict[str, object]) -> None:
    assert problems(sweep_schema(), {"sweep": "a", "recipe": "vllm-local", **changes}) != []


@pytest.mark.parametrize(
    "axis",
    [3, "8K", [1, 2], {"from": 1, "to": 8, "factor": 2}, [{"natural": 9}], {"natural": 9}, [["--seed", 3]]],
    ids=str,
)
def test_an_editor_takes_every_form_of_an_axis(axis: object) -> None:
    assert problems(sweep_schema(), {"sweep": "a", "recipe": "vllm-local", "knobs": {"output_tokens": axis}}) == []
