"""`harness sweep FILE`: plan, launch, measure, report."""

from __future__ import annotations

import sys
from typing import Any

import click

from harness.cli.loading import PlanOptions
from harness.cli.options import plan_options
from harness.cli.running import run_sweep


@click.command("sweep")
@plan_options
@click.option(
    "--resume",
    metavar="RUN",
    is_flag=False,
    flag_value="latest",
    help="Carry on with a run of this sweep: measured cells are kept. Without RUN the newest one.",
)
def command(
    resume: str | None,
    **chosen: Any,
) -> None:
    """Carry out the sweep in FILE: launch each configuration, measure its cells, and write a dated report.

    Ctrl-C stops the engine and keeps what was measured; --resume carries on. With --resume and --launches a finished
    run gets more launches of each configuration.
    """
    options = PlanOptions(**chosen)
    sys.exit(run_sweep(options, resume=resume, command=("harness", *sys.argv[1:])))
