"""`harness nightly FILE`: did anything move since the accepted baseline?"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from harness.cli.deliver import DeliveryWishes
from harness.cli.loading import PlanOptions, plan_from
from harness.cli.night import run_night
from harness.cli.options import (
    borrow_option,
    finish_by_option,
    idle_for_option,
    keep_text_option,
    plan_options,
)
from harness.cli.running import RunWishes
from harness.cli.scheduling import TimerWish, require_sense, schedule
from harness.run.nightly import NightlyWish

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("nightly")
@plan_options
@click.option("--baseline", metavar="NAME", help="The accepted one. Default: called like the sweep.")
@click.option(
    "--resume", metavar="RUN", is_flag=False, flag_value="latest", help="Carry on with a night that was stopped."
)
@borrow_option
@idle_for_option
@finish_by_option
@keep_text_option
@click.option("--junit", type=_FILE, help="Write the night as JUnit XML, for CI.")
@click.option("--prometheus", type=_FILE, help="Write it as a .prom file, for node_exporter's textfile collector.")
@click.option("--install-timer", is_flag=True, help="Do this every night, by systemd of this user, or say cron's line.")
@click.option("--remove-timer", is_flag=True, help="No longer do it.")
@click.option("--at", metavar="HH:MM", help="With --install-timer: when. Default: 02:30.")
@click.option("--time-limit", metavar="TIME", help="With --install-timer: then Ctrl-C. Default: 2h.")
@click.option("--as-of", metavar="TIME", help="With --engine simulated: the night that it stands for, in ISO 8601.")
def command(
    baseline: str | None,
    resume: str | None,
    borrow: bool,
    idle_for: str | None,
    finish_by: str | None,
    keep_text: bool,
    junit: Path | None,
    prometheus: Path | None,
    install_timer: bool,
    remove_timer: bool,
    at: str | None,
    time_limit: str | None,
    as_of: str | None,
    **chosen: Any,
) -> None:
    """Measure a small part of the sweep in FILE and compare it with the accepted baseline and with the nights before.

    The cells are chosen so that two launches fit into the sweep's budget.time; the second is made only where the first
    looks bad. The last line on stdout is what the morning needs.

    Exit code: 0 fine, 1 regressed, 4 doubtful, 3 could not run.
    """
    timer = TimerWish(install=install_timer, remove=remove_timer, at=at, time_limit=time_limit)
    require_sense(timer)
    options = PlanOptions(**chosen, finish_by=finish_by, nightly=NightlyWish(baseline=baseline), as_of=as_of)
    wishes = RunWishes(
        resume=resume, borrow=borrow, idle_for=idle_for, keep_text=keep_text, command=("harness", *sys.argv[1:])
    )
    if timer.remove:
        schedule(options.file, timer, sys.argv[2:])
        return
    if timer.install:
        plan_from(options)  # what cannot be planned now would fail every night
        schedule(options.file, timer, sys.argv[2:])
        return
    sys.exit(run_night(options, wishes, DeliveryWishes(junit=junit, prometheus=prometheus, environment=os.environ)))
