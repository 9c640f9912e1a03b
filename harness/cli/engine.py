"""`harness engine`: engines that this tool started: list, start, stop."""

from __future__ import annotations

import asyncio
import json

import click

from harness.cli import engine_restore as restore
from harness.cli import engine_up as up
from harness.cli.engine_pair import list_pairs
from harness.cli.streams import write_document
from harness.engine.clock import SystemClock
from harness.engine.orphans import EngineEntry, find_engines, remove_orphans
from harness.engine.pair.state import default_states
from harness.engine.registry import default_registry

_WORDS = {
    "running": "running, its harness lives",
    "orphan": "left behind by a harness that is dead",
    "gone": "ended",
}


@click.group("engine")
def command() -> None:
    """Start, list and stop engines, and put pairs back. Processes that it did not start are never touched."""


@command.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.option("--keep", is_flag=True, help="Only list: do not stop what a dead harness left behind.")
def status(as_json: bool, keep: bool) -> None:
    """List engines; those whose harness is dead are stopped."""
    registry = default_registry()
    entries = find_engines(registry)
    pairs = list_pairs(default_states())
    stopped = [] if keep else asyncio.run(remove_orphans(registry, clock=SystemClock()))
    if as_json:
        engines = [_document(entry, stopped) for entry in entries]
        write_document(json.dumps({"engines": engines, **pairs.documents()}, indent=2))
        return
    if not entries and not pairs.entries and not pairs.unreadable:
        click.echo("no engine of this tool is running", err=True)
    for entry in entries:
        click.echo(_line(entry, stopped), err=True)
    pairs.say()


@command.command("down")
@click.option("--all", "even_owned", is_flag=True, help="Also engines whose harness is still measuring.")
def down(even_owned: bool) -> None:
    """Stop engines that a dead harness left behind; --all stops those of living ones too."""
    registry = default_registry()
    stopped = asyncio.run(remove_orphans(registry, clock=SystemClock(), even_owned=even_owned))
    for entry in stopped:
        click.echo(f"stopped {_name(entry)}", err=True)
    if not stopped:
        click.echo("nothing to stop", err=True)
    list_pairs(default_states()).say()


command.add_command(up.command)
command.add_command(restore.command)


def _document(entry: EngineEntry, stopped: list[EngineEntry]) -> dict[str, object]:
    return {
        "launch_id": entry.launch.launch_id,
        "run_id": entry.launch.run_id,
        "recipe": entry.launch.recipe,
        "port": entry.launch.port,
        "state": entry.state,
        "processes": [mark.pid for mark in entry.processes],
        "log": str(entry.launch.log_path),
        "stopped_now": any(each.launch.launch_id == entry.launch.launch_id for each in stopped),
    }


def _line(entry: EngineEntry, stopped: list[EngineEntry]) -> str:
    now = "; stopped now" if any(each.launch.launch_id == entry.launch.launch_id for each in stopped) else ""
    return f"{_name(entry)}: {_WORDS[entry.state]}{now}"


def _name(entry: EngineEntry) -> str:
    launch = entry.launch
    return f"{launch.recipe} on port {launch.port} (run {launch.run_id}, {len(entry.processes)} processes)"
