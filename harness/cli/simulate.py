"""`harness simulate`: a simulated engine over real HTTP, for any client of vLLM."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import click

from harness.cli.knobs import configuration_from
from harness.cli.streams import shown_if_possible
from harness.errors import InputError
from harness.recipe.find import find_recipe
from harness.recipe.load import LoadedRecipe, load_recipe
from harness.recipe.simulated import build_simulated
from harness.recipe.spec import LaunchSpec
from harness.simulator.launch import dialect_of, new_engine
from harness.simulator.scenario import load_scenario
from harness.simulator.serve import ServeOptions, serve


@click.command("simulate")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free one.")
@click.option("--recipe", default="dspark-2x-spark", show_default=True, help="Whose engine is simulated.")
@click.option("--set", "knobs", multiple=True, metavar="KNOB=VALUE", help="A knob of the recipe.")
@click.option("--scenario", default="default", show_default=True, help="Noise and faults, by name.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of everything random.")
@click.option("--model", metavar="NAME", help="What it is served as. Default: the checkpoint's own name.")
@click.option("--api-key-variable", metavar="NAME", help="Environment variable with the key that clients must send.")
@click.option("--quiet", is_flag=True, help="No line for each request.")
def command(
    host: str,
    port: int,
    recipe: str,
    knobs: tuple[str, ...],
    scenario: str,
    seed: int,
    model: str | None,
    api_key_variable: str | None,
    quiet: bool,
) -> None:
    """Serve a SIMULATED engine over real HTTP until Ctrl-C: vLLM's routes, in real time. Nothing is measured on it."""
    spec = _spec(load_recipe(find_recipe(recipe)), knobs)
    assert spec.simulation is not None  # build_simulated made it
    engine = new_engine(spec.simulation, load_scenario(scenario, seed=seed), launch_key="served")
    served = model or engine.scenario.truth.checkpoint
    keys = _keys(api_key_variable)
    options = ServeOptions(host=host, port=port, model=served, api_keys=keys, dialect=dialect_of(spec))

    def say(line: str) -> None:
        with shown_if_possible():
            click.echo(line, err=True)

    def ready(bound: int) -> None:
        say(f"SIMULATED engine: http://{host}:{bound} serves {served}; no model runs here. Ctrl-C stops it.")
        say(f"SIMULATED: truth {engine.scenario.truth.name}, scenario {scenario}, k = {engine.k}, seed {seed}")

    asyncio.run(serve(engine, options, on_ready=ready, on_access=(lambda line: None) if quiet else say))


def _spec(loaded: LoadedRecipe, settings: Sequence[str]) -> LaunchSpec:
    return build_simulated(loaded, configuration_from(loaded, settings))


def _keys(variable: str | None) -> tuple[str, ...]:
    if variable is None:
        return ()
    if key := os.environ.get(variable):
        return (key,)
    raise InputError(f"{variable} is not set", where="--api-key-variable", hint=f"Export {variable} first.")
