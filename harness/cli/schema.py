"""`harness schema`: JSON Schema of the files that users write, for their editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from harness.cli.streams import write_document
from harness.engine.pair.inventory import json_schema as pair_schema
from harness.recipe.schema import json_schema as recipe_schema
from harness.sweep.schema import json_schema as sweep_schema

_SCHEMAS = {"sweep": sweep_schema, "recipe": recipe_schema, "pair": pair_schema}


@click.command("schema")
@click.argument("which", type=click.Choice(tuple(_SCHEMAS)), default="sweep")
@click.option(
    "--write",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write all of them as DIRECTORY/NAME.json instead of printing one.",
)
def command(which: str, write: Path | None) -> None:
    """Print the JSON Schema of sweep files, recipes or pair.yaml (draft 2020-12)."""
    if write is None:
        write_document(_text(_SCHEMAS[which]()).rstrip())
        return
    write.mkdir(parents=True, exist_ok=True)
    for name, schema in _SCHEMAS.items():
        (write / f"{name}.json").write_text(_text(schema()), encoding="utf-8")


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
