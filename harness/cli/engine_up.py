"""`harness engine up RECIPE`: the launch step alone."""

from __future__ import annotations

import asyncio
import os
import shlex
from pathlib import Path

import click

from harness.cli.knobs import configuration_from
from harness.cli.machines import Machines, machines_from
from harness.cli.options import borrow_option, idle_for_option, site_option
from harness.cli.signals import RunSignals
from harness.engine.clock import SystemClock
from harness.engine.launch import LaunchSetting
from harness.engine.registry import default_registry, state_directory
from harness.engine.shell import LocalShell
from harness.errors import Interrupted
from harness.recipe.build import build_launch
from harness.recipe.find import find_recipe, places_for
from harness.recipe.load import load_recipe
from harness.recipe.spec import LaunchSpec
from harness.records.events import Event, LaunchProgress, Note, PreparationProgress
from harness.run.standing import StandingEngine, hold_engine
from harness.units import format_seconds


@click.command("up")
@click.argument("recipe", metavar="RECIPE")
@click.option("--set", "settings", multiple=True, metavar="KNOB=VALUE", help="A launch knob of the recipe.")
@site_option
@borrow_option
@idle_for_option
def command(recipe: str, settings: tuple[str, ...], site: Path | None, borrow: bool, idle_for: str | None) -> None:
    """Bring the engine of RECIPE up with these knobs, prove what runs, and hold it until Ctrl-C."""
    loaded = load_recipe(find_recipe(recipe))
    spec = build_launch(loaded, configuration_from(loaded, settings), places_for(loaded.recipe.recipe))
    machines = machines_from(site, borrow=borrow, idle_for=idle_for)
    with RunSignals() as signals:
        try:
            asyncio.run(_hold(spec, machines, signals))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise Interrupted("the engine is stopped") from None


async def _hold(spec: LaunchSpec, machines: Machines, signals: RunSignals) -> None:
    name = f"engine-up-{os.getpid()}"
    setting = LaunchSetting(
        run_id=name,
        launch_id=name,
        log_path=state_directory() / "logs" / f"{name}.log",
        shell=LocalShell(),
        clock=SystemClock(),
        on_event=_tell,
        registry=default_registry(),
    )

    def ready(standing: StandingEngine) -> None:
        _say_ready(standing, setting.log_path)

    with signals.cancelling(asyncio.current_task()):
        driver = machines.driver({spec.configuration.configuration_id: spec})
        await hold_engine(spec, setting, driver, on_ready=ready)


def _say_ready(standing: StandingEngine, log_path: Path) -> None:
    live, url = standing.live, standing.base_url
    k = "not proved" if live.num_speculative_tokens is None else live.num_speculative_tokens
    click.echo(f"ready after {format_seconds(standing.ready_s)}: {url} serves {live.model}", err=True)
    click.echo(f"num_speculative_tokens: {k} ({live.proof})", err=True)
    click.echo(f"log: {log_path}", err=True)
    click.echo(f"measure it: harness sweep SWEEP --engine attach --set url={shlex.quote(url)}", err=True)
    click.echo("Ctrl-C stops it", err=True)


def _tell(event: Event) -> None:
    if isinstance(event, PreparationProgress):
        click.echo(f"{event.step}: {event.detail}", err=True)
    elif isinstance(event, LaunchProgress | Note):
        click.echo(event.text, err=True)
