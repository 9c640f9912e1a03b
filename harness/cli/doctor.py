"""`harness doctor RECIPE`: can this machine, or this pair, run it, and in what state is it?"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import click

from harness.cli.knobs import configuration_from
from harness.cli.loading import root_of
from harness.cli.options import site_option
from harness.cli.serving import stored_steps_s
from harness.cli.streams import shown_if_possible, write_document
from harness.engine.clock import SystemClock
from harness.engine.doctor.examine import Examination, examine, place_of, site_with
from harness.engine.doctor.site_file import site_text, write_site
from harness.recipe.find import find_recipe, places_for
from harness.recipe.load import load_recipe
from harness.records.finding import Finding
from harness.report.findings import print_findings
from harness.report.terminal import stderr_console
from harness.sweep.site import load_site

_EXIT_HOST = 3


@click.command("doctor")
@click.argument("recipe", metavar="RECIPE")
@click.option("--set", "settings", multiple=True, metavar="KNOB=VALUE", help="A launch knob, for example image=...")
@click.option("--checkout", metavar="DIR", help="Folder on the head of the recipe that starts the engine.")
@click.option("--write", is_flag=True, help="Write the site file from what the checkout says; never a key.")
@click.option("--force", is_flag=True, help="With --write: over one that is there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@site_option
def command(
    recipe: str,
    settings: tuple[str, ...],
    checkout: str | None,
    write: bool,
    force: bool,
    as_json: bool,
    site: Path | None,
) -> None:
    """Look whether RECIPE would run here, and what would spoil its numbers. Nothing is changed but with --write."""
    loaded = load_recipe(find_recipe(recipe))
    present = load_site(site if site is None or site.exists() or not write else None)
    task = Examination(
        recipe=loaded,
        site=site_with(present, checkout),
        knobs=configuration_from(loaded, settings).knobs,
        places=places_for(loaded.recipe.recipe),
        clock=SystemClock(),
    )
    task = replace(task, stored_steps_s=stored_steps_s(task, root_of(None, site)))
    found = asyncio.run(examine(task))
    if as_json:
        write_document(
            json.dumps({"recipe": loaded.recipe.recipe, "findings": [asdict(each) for each in found]}, indent=2)
        )
    else:
        with shown_if_possible():
            print_findings(found, stderr_console())
    if write:
        _write(task, site, force=force)
    sys.exit(_EXIT_HOST if _fails(found) else 0)


def _write(task: Examination, path: Path | None, *, force: bool) -> None:
    place = asyncio.run(place_of(task))
    file = write_site(path, site_text(place, task.site), force=force)
    click.echo(f"wrote {file}", err=True)


def _fails(found: list[Finding]) -> bool:
    return any(finding.level == "fail" for finding in found)
