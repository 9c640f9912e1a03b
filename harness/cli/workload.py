"""`harness workload`: what is in a trace, the same in the harness's own format, and how to get one."""

from __future__ import annotations

import click

from harness.cli.workload_convert import convert_command
from harness.cli.workload_inspect import inspect_command
from harness.cli.workload_record import record_command


@click.group("workload")
def command() -> None:
    """Look into recorded traffic, and prepare it for a sweep. It never leaves this machine."""


command.add_command(inspect_command)
command.add_command(convert_command)
command.add_command(record_command)
