"""`harness baseline`: say what is normal, with a reason, and see who said so before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import root_option

if TYPE_CHECKING:
    from harness.records.acceptance import Acceptances


@click.group("baseline")
def command() -> None:
    """Accept what is normal, and show what was accepted. Nothing else ever moves a baseline."""


@command.command("accept")
@click.argument("run", metavar="RUN")
@click.option("--name", required=True, help="Of the baseline. harness nightly FILE looks for the name of its sweep.")
@click.option("--reason", required=True, help="Why this is normal from now on. It stays in the file.")
@click.option("--author", help="Who accepts it. Default: user.name of git, else the login name.")
@click.option("--since", metavar="DATE|RUN", help="The first night of it. Default: as many as --nights says.")
@click.option(
    "--nights",
    type=click.IntRange(min=1),
    help="At most so many, the newest ones. Default: 14, and with --since all of them.",
)
@click.option("--key", metavar="PREFIX", help="Of which series, where RUN watched several configurations.")
@root_option
def accept_nights(root: Path | None, **wish: object) -> None:
    """Accept the nights of one series that end with RUN (an id, a unique prefix, a path, or latest).

    A series is what can be compared: the same sweep, engine, image, checkpoint, machines and way of measuring. Doubtful
    nights are left out and named. An earlier baseline of the name stays in the file, and what changes is said.
    Baselines of rehearsals are called simulated_NAME.
    """
    # What computes takes a second to import, which --help need not wait for.
    from harness.cli.accepting import AcceptWish, acceptance_of
    from harness.cli.loading import root_of
    from harness.engine.clock import SystemClock
    from harness.report.baseline_view import accepted_lines
    from harness.store.nights import accept, read_acceptances

    place = root_of(root)
    new = acceptance_of(AcceptWish(**wish), place, at=SystemClock().stamp())  # type: ignore[arg-type]  # click's types
    before = read_acceptances(place, new.baseline.name)
    path = accept(place, new)
    _say(*accepted_lines(new, before.current if before else None), f"written: {path}")


@command.command("show")
@click.argument("name", metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@root_option
def show(name: str, as_json: bool, root: Path | None) -> None:
    """Show the baseline NAME, what it is of, and every earlier acceptance."""
    from harness.cli.loading import root_of
    from harness.cli.streams import write_document
    from harness.errors import InputError
    from harness.report.baseline_view import baseline_lines
    from harness.store.nights import list_baselines, read_acceptances

    place = root_of(root)
    found = read_acceptances(place, name)
    if found is None:
        known = ", ".join(one.name for one in list_baselines(place))
        hint = f"There are: {known}." if known else "Accept one: harness baseline accept RUN --name NAME --reason TEXT."
        raise InputError(f"no baseline is called {name}", where=str(place / "baselines"), hint=hint)
    if as_json:
        write_document(json.dumps(_document(found), indent=2, ensure_ascii=False))
        return
    _say(*baseline_lines(found))


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@root_option
def list_all(as_json: bool, root: Path | None) -> None:
    """List the baselines that are accepted now."""
    from harness.cli.loading import root_of
    from harness.cli.streams import shown_if_possible, write_document
    from harness.report.baseline_view import baselines_table
    from harness.report.screen_table import print_table
    from harness.report.terminal import stderr_console
    from harness.store.nights import list_acceptances

    every = list_acceptances(root_of(root))
    if as_json:
        write_document(json.dumps({"baselines": [_document(one) for one in every]}, indent=2, ensure_ascii=False))
        return
    if not every:
        _say("no baseline is accepted yet: harness baseline accept RUN --name NAME --reason TEXT")
        return
    with shown_if_possible():
        print_table(baselines_table(every), stderr_console())


def _document(found: Acceptances) -> object:
    from harness.records.codec import to_json

    return json.loads(to_json(found))


def _say(*lines: str) -> None:
    from harness.cli.streams import shown_if_possible
    from harness.report.text import one_line

    with shown_if_possible():
        for line in lines:
            click.echo(one_line(line), err=True)
