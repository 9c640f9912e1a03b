"""`harness ab FILE`: two configurations in turn, until the answer cannot change."""

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
from harness.run.arms import ComparisonWish
from harness.sweep.arms import ArmWords


@click.command("ab")
@plan_options
@click.option("--base", multiple=True, metavar="NAME|KNOB=VALUE", help="The arm that is the reference. Repeatable.")
@click.option("--candidate", multiple=True, metavar="NAME|KNOB=VALUE", help="The arm that is judged. Repeatable.")
@click.option("--same", is_flag=True, help="The base against itself: measures and stores the rig's noise floor.")
@click.option("--allow-factors", is_flag=True, help="The arms may differ in more than one thing.")
@click.option("--fixed", is_flag=True, help="All launches, and one look at the end.")
@click.option(
    "--resume", metavar="RUN", is_flag=False, flag_value="latest", help="Carry on with a run of this comparison."
)
@borrow_option
@idle_for_option
@finish_by_option
@keep_text_option
def command(
    base: tuple[str, ...],
    candidate: tuple[str, ...],
    same: bool,
    allow_factors: bool,
    fixed: bool,
    resume: str | None,
    borrow: bool,
    idle_for: str | None,
    finish_by: str | None,
    keep_text: bool,
    **chosen: Any,
) -> None:
    """Is the candidate better than the base for the workload in FILE?

    Launches alternate A B B A, both arms replay the same prompts, and after each block the verdict is looked at: it
    ends as soon as that cannot change, and after --launches of each arm at the latest. Arms are names or knobs, from
    the command line or from `compare` in FILE.

    Exit code: 0 better or no difference, 1 worse, 4 cannot tell.
    """
    words = ArmWords(base=base, candidate=candidate, same=same)
    wish = ComparisonWish(same=same, max_launches=chosen["launches"], sequential=not fixed, allow_factors=allow_factors)
    options = PlanOptions(**chosen, finish_by=finish_by, arms=words, comparison=wish)
    wishes = RunWishes(
        resume=resume, borrow=borrow, idle_for=idle_for, keep_text=keep_text, command=("harness", *sys.argv[1:])
    )
    sys.exit(run_sweep(options, wishes))
