"""Ranks without a checkout from the command line of a host: `up PAIR.YAML PORT KNOB=VALUE...`, `down PAIR.YAML`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from harness.engine.pair.bundled import ApiKey, BundledLaunch
from harness.engine.pair.inventory import load_inventory, nodes_of
from harness.engine.pair.ranks import prepare, start, stop
from harness.errors import HarnessError
from harness.recipe.build import build_launch
from harness.recipe.find import find_recipe, places_for
from harness.recipe.load import load_recipe
from harness.recipe.rules import canonicalise
from harness.records.cell import Configuration
from harness.yaml_source import parse_value

RECIPE, PROJECT = "dspark-2x-spark", "harness-trial"


async def up(pair: Path, port: int, words: list[str]) -> None:
    """Bring both ranks up with the knobs that the words name; ``key=`` is the API key."""
    loaded = load_recipe(find_recipe(RECIPE))
    named = {name: parse_value(text, place="here") for name, _, text in (word.partition("=") for word in words)}
    key = named.pop("key", None)
    knobs = canonicalise(loaded.recipe, Configuration(recipe=RECIPE, knobs={"generation": "bundled", **named}))[0]
    inventory = load_inventory(pair, nodes=2)
    launch = BundledLaunch(
        spec=build_launch(loaded, knobs, places_for(RECIPE)),
        inventory=inventory,
        project=PROJECT,
        host="127.0.0.1",
        port=port,
        key=ApiKey(variable="VLLM_API_KEY", value=str(key)) if key else None,
    )
    nodes = nodes_of(inventory)
    await start(nodes, await prepare(launch, nodes))


async def down(pair: Path) -> None:
    """Remove both, and see that they are gone."""
    await stop(nodes_of(load_inventory(pair, nodes=2)), PROJECT)


def main(words: list[str]) -> int:
    """Do what the words say."""
    try:
        if words[0] == "up":
            asyncio.run(up(Path(words[1]), int(words[2]), words[3:]))
        else:
            asyncio.run(down(Path(words[1])))
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
