"""`harness plan FILE`: what a sweep would do, without launching anything."""

from __future__ import annotations

from typing import Any

import click

from harness.cli.loading import PlanOptions, plan_from, root_of, stored_run
from harness.cli.options import plan_options
from harness.cli.site_checks import checks_of
from harness.cli.streams import shown_if_possible, write_document
from harness.errors import InputError
from harness.records.codec import to_json
from harness.report.terminal import print_plan, stderr_console
from harness.run.nightly import NightlyWish
from harness.run.tuning import TuneWish
from harness.sweep.site import load_site


@click.command("plan")
@plan_options
@click.option("--resume", metavar="RUN", help="Count what this run has measured as done.")
@click.option("--nightly", is_flag=True, help="Of one night: the cells that fit its time, and what is left out.")
@click.option("--tune", is_flag=True, help="Of a search: what it may take, and what is kept to confirm.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON document on stdout.")
def command(
    resume: str | None,
    nightly: bool,
    tune: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Show what the sweep in FILE would launch, refuse and cost. Nothing is launched."""
    if tune and (nightly or chosen["launches"] is not None):
        raise InputError("a search has launches of its own", hint="Leave out --tune, or --nightly and --launches.")
    options = PlanOptions(**chosen, nightly=NightlyWish() if nightly else None, tune=TuneWish() if tune else None)
    earlier = stored_run(resume, root_of(options.root, options.site))[1] if resume else None
    planned = plan_from(options, earlier=earlier)
    checks_of(planned, load_site(options.site))
    plan = planned.plan
    if as_json:
        write_document(to_json(plan))
        return
    with shown_if_possible():
        print_plan(plan, stderr_console())
