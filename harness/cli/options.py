"""Options that several commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

sweep_argument = click.argument("file", metavar="FILE")
run_argument = click.argument("run", metavar="RUN", default="latest")
root_option = click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where results/ and reports/ lie. Default: the site file's place, else the current directory.",
)
set_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a knob of the sweep, as if the file said so."
)
engine_option = click.option(
    "--engine",
    metavar="NAME",
    help="attach: measure the server that already runs. simulated: rehearse in virtual time, and start nothing.",
)
scenario_option = click.option(
    "--scenario", metavar="NAME", help="Noise and faults of --engine simulated. Default: default."
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of the order and the prompts."
)
launches_option = click.option(
    "--launches", type=click.IntRange(min=1), help="Boots of each configuration in all. Default: as the sweep says."
)

site_option = click.option(
    "--site",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Hosts, folders and commands of this place. Default: site.yaml in the user's configuration.",
)

borrow_option = click.option(
    "--borrow", is_flag=True, help="Stop a server that runs already once it is idle, and give it back."
)
idle_for_option = click.option(
    "--idle-for", metavar="TIME", help="How long it must have been idle, as in 2m. Default: the site file's."
)
finish_by_option = click.option(
    "--finish-by", metavar="HH:MM", help="Be done by then, giving back included. Default: as the sweep says."
)
keep_text_option = click.option(
    "--keep-text", is_flag=True, help="Keep prompts and answers in the run's folder. Else only their hashes."
)


def plan_options(command: Command) -> Command:
    """Add the options of every command that plans a sweep."""
    for option in (
        site_option,
        launches_option,
        seed_option,
        set_option,
        scenario_option,
        engine_option,
        root_option,
        sweep_argument,
    ):
        command = option(command)
    return command
