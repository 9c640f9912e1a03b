"""`harness workload convert FILE OUT`: a trace, or a part that is like the whole, in the harness's own format."""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness.cli.streams import shown_if_possible
from harness.cli.workload_inspect import format_option, trace_argument
from harness.errors import InputError, StoreError
from harness.workload.sampling import Sample, convert


@click.command("convert")
@trace_argument
@click.argument("out", metavar="OUT", type=click.Path(dir_okay=False, path_type=Path))
@format_option
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="N conversations; a single request is one.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of the sample.")
@click.option("--force", is_flag=True, help="Replace OUT if it is there.")
def convert_command(trace: Path, out: Path, format_name: str, sample: int | None, seed: int, force: bool) -> None:
    """Write the trace in FILE to OUT, which only its owner may read.

    A sample has as many conversations of each class and length as their share of the whole.
    """
    if out.exists() and not force:
        raise InputError("the file is there already", where=str(out), hint="Name another one, or add --force.")
    if out.exists() and trace.exists() and out.samefile(trace):
        raise InputError("a trace cannot be converted onto itself", where=str(out), hint="Name another file.")
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=1024 * 1024) as stream:
            drawn = Sample(conversations=sample, seed=seed) if sample is not None else None
            done = convert(trace, stream, format_name=format_name, sample=drawn)
        beside.replace(out)
    except OSError as error:
        raise StoreError(f"the trace cannot be written: {error.strerror}", where=str(out)) from error
    finally:
        beside.unlink(missing_ok=True)
    with shown_if_possible():
        click.echo(f"{done.entries} requests of {done.conversations} conversations written to {out}", err=True)
        if done.left_out:
            click.echo(f"{done.left_out} entries were left out: harness workload inspect says why", err=True)
