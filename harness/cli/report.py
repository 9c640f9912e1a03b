"""`harness report RUN`: the dated report of a stored run, again."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.loading import root_of
from harness.cli.options import root_option, run_argument
from harness.cli.reporting import report_run
from harness.store.layout import resolve_run


@click.command("report")
@run_argument
@root_option
def command(run: str, root: Path | None) -> None:
    """Write the report of RUN (an id, a unique prefix, a path, or latest) and show its result."""
    place = root_of(root)
    report_run(resolve_run(run, root=place), place)
