"""`harness compare RUN RUN`: a verdict from what is stored."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cli.compared import CompareOptions, compare_runs
from harness.cli.options import root_option, site_option
from harness.cli.streams import write_document
from harness.records.codec import to_json


@click.command("compare")
@click.argument("base_run", metavar="BASE_RUN")
@click.argument("candidate_run", metavar="CANDIDATE_RUN")
@click.option("--base", multiple=True, metavar="NAME|KNOB=VALUE", help="Which configuration of BASE_RUN. Repeatable.")
@click.option(
    "--candidate", multiple=True, metavar="NAME|KNOB=VALUE", help="Which configuration of CANDIDATE_RUN. Repeatable."
)
@click.option(
    "--across",
    multiple=True,
    type=click.Choice(["engine", "rig", "workload", "harness"]),
    help="Compare although this differs. The doubt stays on the page. Repeatable.",
)
@click.option("--allow-factors", is_flag=True, help="The configurations may differ in more than one thing.")
@click.option("--margin", metavar="RATIO", help="Smaller differences do not matter, as in 3%. Default: the run's.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as one JSON document on stdout.")
@root_option
@site_option
def command(as_json: bool, root: Path | None, site: Path | None, **chosen: object) -> None:
    """Is CANDIDATE_RUN better than BASE_RUN, cell by cell and over the workload?

    RUN is an id, a unique prefix, a path or latest; it may be the same run twice, with two of its configurations. Runs
    of another engine, rig or workload are refused, unless --across names what may differ. Launches of stored runs did
    not alternate: `harness ab` makes some that do.

    Exit code: 0 better or no difference, 1 worse, 4 cannot tell.
    """
    options = CompareOptions(root=root, site=site, **chosen)  # type: ignore[arg-type]  # click gives these types
    comparison, code = compare_runs(options, shown=not as_json)
    if as_json:
        write_document(to_json(comparison))
    sys.exit(code)
