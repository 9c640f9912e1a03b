"""`harness tune FILE`: the best configuration in the fewest launches, confirmed."""

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
from harness.errors import InputError
from harness.run.tuning import TuneWish


@click.command("tune")
@plan_options
@click.option(
    "--sampler", metavar="NAME", help="auto, tpe, gp, grid, random, cmaes or nsga2. Default: as the sweep says."
)
@click.option("--max-launches", type=click.IntRange(min=2), help="Of the search, without those that confirm.")
@click.option(
    "--storage", metavar="URL", help="A database that several searches share: postgresql://... Default: a file."
)
@click.option("--study", metavar="NAME", help="Of the study in it. Default: one for each space, rig and workload.")
@click.option(
    "--resume", metavar="RUN", is_flag=False, flag_value="latest", help="Carry on with a search that was stopped."
)
@borrow_option
@idle_for_option
@finish_by_option
@keep_text_option
def command(
    sampler: str | None,
    max_launches: int | None,
    storage: str | None,
    study: str | None,
    resume: str | None,
    borrow: bool,
    idle_for: str | None,
    finish_by: str | None,
    keep_text: bool,
    **chosen: Any,
) -> None:
    """Search the launch knobs of the sweep in FILE for the configuration that is best for its workload.

    The incumbent and no speculation are launched first. Each launch tells acceptance by position and step times, from
    which the next one is chosen; the best are then launched again, in turn with the incumbent, so that no lucky launch
    is recommended. The result may be to keep the incumbent.

    Exit code: 0 with a confirmed pick, keeping the incumbent included; 4 if it could not be confirmed.
    """
    from harness.search.storage import without_password  # with it comes optuna, for which --help must not wait

    if chosen["launches"] is not None:
        hint = "--max-launches is how many the search may make; tune.confirm.launches in the sweep how many confirm."
        raise InputError("--launches says nothing of a search", hint=hint)
    wish = TuneWish(sampler=sampler, max_launches=max_launches, study=study)
    options = PlanOptions(**chosen, finish_by=finish_by, tune=wish)
    wishes = RunWishes(
        resume=resume,
        borrow=borrow,
        idle_for=idle_for,
        keep_text=keep_text,
        command=("harness", *map(without_password, sys.argv[1:])),
        storage=storage,
    )
    sys.exit(run_sweep(options, wishes))
