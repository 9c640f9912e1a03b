"""`harness plan FILE`: what a sweep would do, without launching anything."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.loading import PlanOptions, plan_from, root_of, stored_run
from harness.cli.options import plan_options
from harness.cli.streams import shown_if_possible, write_document
from harness.records.codec import to_json
from harness.report.terminal import print_plan, stderr_console


@click.command("plan")
@plan_options
@click.option("--resume", metavar="RUN", help="Count what this run has measured as done.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON document on stdout.")
def command(
    file: str,
    root: Path | None,
    engine: str | None,
    scenario: str | None,
    overrides: tuple[str, ...],
    seed: int,
    launches: int | None,
    resume: str | None,
    as_json: bool,
) -> None:
    """Show what the sweep in FILE would launch, refuse and cost. Nothing is launched."""
    options = PlanOptions(
        file=file,
        root=root,
        engine=engine,
        scenario=scenario,
        overrides=overrides,
        seed=seed,
        launches=launches,
    )
    earlier = stored_run(resume, root_of(root))[1] if resume else None
    plan = plan_from(options, earlier=earlier).plan
    if as_json:
        write_document(to_json(plan))
        return
    with shown_if_possible():
        print_plan(plan, stderr_console())
