"""`harness sweep FILE`: plan, launch, measure, report."""

from __future__ import annotations

import sys
from pathlib import Path

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
    file: str,
    root: Path | None,
    engine: str | None,
    scenario: str | None,
    overrides: tuple[str, ...],
    seed: int,
    launches: int | None,
    resume: str | None,
) -> None:
    """Carry out the sweep in FILE: launch each configuration, measure its cells, and write a dated report.

    Ctrl-C stops the engine and keeps what was measured; --resume carries on. With --resume and --launches a finished
    run gets more launches of each configuration.
    """
    options = PlanOptions(
        file=file,
        root=root,
        engine=engine,
        scenario=scenario,
        overrides=overrides,
        seed=seed,
        launches=launches,
    )
    sys.exit(run_sweep(options, resume=resume, command=("harness", *sys.argv[1:])))
