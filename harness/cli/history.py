"""`harness history`: the nights so far, and how much room their runs take."""

from __future__ import annotations

import json
from pathlib import Path

import click

from harness.cli.options import root_option


@click.group("history")
def command() -> None:
    """Show the nights of regression runs, derive them again from their runs, and keep those runs small."""


@command.command("show")
@click.argument("sweep", metavar="[SWEEP]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@root_option
def show(sweep: str | None, as_json: bool, root: Path | None) -> None:
    """Show what the nights of SWEEP (its name; default: of every sweep) measured, without judging them."""
    # What computes takes a second to import, which --help need not wait for.
    from harness.cli.loading import root_of
    from harness.cli.streams import shown_if_possible, write_document
    from harness.errors import InputError
    from harness.report.history_view import history_table, night_document
    from harness.report.screen_table import print_table
    from harness.report.terminal import stderr_console
    from harness.store.layout import RESULTS, list_runs
    from harness.store.nights import read_all_nights

    place = root_of(root)
    every = read_all_nights(place / RESULTS)
    sweeps = list(dict.fromkeys(night.sweep for night in every))
    if sweep is not None and sweep not in sweeps:
        hint = f"There are nights of: {', '.join(sweeps)}." if sweeps else "Measure one: harness nightly FILE."
        raise InputError(f"there are no nights of {sweep}", where=str(place / RESULTS / "nights"), hint=hint)
    chosen = [night for night in every if sweep in (None, night.sweep)]
    gone = frozenset({night.run_id for night in chosen} - {run.run_id for run in list_runs(place)})
    if as_json:
        nights = [night_document(night, gone=night.run_id in gone) for night in chosen]
        write_document(json.dumps({"nights": nights}, indent=2, ensure_ascii=False, allow_nan=False))
        return
    if not chosen:
        _say("there are no nights yet: harness nightly FILE measures one")
    with shown_if_possible():
        for name in dict.fromkeys(night.sweep for night in chosen):
            print_table(history_table(name, [one for one in chosen if one.sweep == name], gone=gone), stderr_console())


@command.command("rebuild")
@root_option
def rebuild(root: Path | None) -> None:
    """Derive every night again from its run, by today's definitions, and write results/history.parquet.

    A night whose run is gone, damaged or being written stays as it was written down.
    """
    from harness.cli.keeping import rebuild as derive_again
    from harness.cli.loading import root_of

    derive_again(root_of(root), _say)


@command.command("prune")
@click.option(
    "--keep",
    default="90d",
    show_default=True,
    metavar="90d|12w|N",
    help="What is kept whole: so many days or weeks before now, or the N newest nights of each sweep.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@root_option
def prune(keep: str, dry_run: bool, root: Path | None) -> None:
    """Remove run folders of old nights; what the nights measured stays in the history, and reports stay.

    The rule, for each series: every night of the last period (--keep); before it, for a year, the first valid night of
    each week; before that, the first valid night of each month. Where none is valid, the first one.

    Never removed: runs of baselines, accepted now or earlier; the nights on both sides of each change point; the newest
    night of each series; a run that is being written; and any run that is no night. Journals of nights that nobody
    wrote for 30 days are compressed in the end, as by history compress.
    """
    from harness.cli.keeping import prune as thin_out
    from harness.cli.loading import root_of
    from harness.engine.clock import SystemClock
    from harness.store.retention import parse_period

    thin_out(root_of(root), parse_period(keep), now=SystemClock().stamp(), dry_run=dry_run, say=_say)


@command.command("compress")
@click.option(
    "--older-than", type=click.IntRange(min=0), default=30, show_default=True, metavar="DAYS", help="Since it grew."
)
@click.option("--all-runs", is_flag=True, help="Also journals of runs that are no nights.")
@root_option
def compress(older_than: int, all_runs: bool, root: Path | None) -> None:
    """Compress journals of old nights to journal.jsonl.gz. Every command reads them as before.

    The plain journal goes only after the compressed one was read back. A run that is carried on with gets a plain one
    again.
    """
    from harness.cli.keeping import compress as make_smaller
    from harness.cli.loading import root_of
    from harness.engine.clock import SystemClock

    make_smaller(root_of(root), now=SystemClock().stamp(), days=older_than, every=all_runs, say=_say)


def _say(line: str) -> None:
    from harness.cli.streams import shown_if_possible
    from harness.report.text import one_line

    with shown_if_possible():
        click.echo(one_line(line), err=True)
