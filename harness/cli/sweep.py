"""`harness sweep FILE`: plan, launch, measure, report."""

from __future__ import annotations

import sys
from typing import Any

import click

from harness.cli.loading import PlanOptions
from harness.cli.options import (
    borrow_option,
    finish_by_option,
    idle_for_option,
    keep_text_option,
    plan_options,
)
from harness.cli.running import RunWishes, run_sweep


@click.command("sweep")
@plan_options
@click.option(
    "--resume",
    metavar="RUN",
    is_flag=False,
    flag_value="latest",
    help="Carry on with a run of this sweep: measured cells are kept. Without RUN the newest one.",
)
@borrow_option
@idle_for_option
@finish_by_option
@keep_text_option
def command(
    resume: str | None,
    borrow: bool,
    idle_for: str | None,
    finish_by: str | None,
    keep_text: bool,
    **chosen: Any,
) -> None:
    """Carry out the sweep in FILE: launch each configuration, measure its cells, and write a dated report.

    Ctrl-C stops the engine and keeps what was measured; --resume carries on. With --resume and --launches a finished
    run gets more launches of each configuration.
    """
    options = PlanOptions(**chosen, finish_by=finish_by)
    wishes = RunWishes(
        resume=resume, borrow=borrow, idle_for=idle_for, keep_text=keep_text, command=("harness", *sys.argv[1:])
    )
    sys.exit(run_sweep(options, wishes))
