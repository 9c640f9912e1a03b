"""`harness engine restore`: put pairs back that a dead run has changed."""

from __future__ import annotations

import click

from harness.cli.engine_pair import restore_pairs
from harness.engine.pair.borrow import ACCEPT_SMOKE_FAILURE
from harness.engine.pair.state import default_states


@click.command("restore")
@click.option(
    ACCEPT_SMOKE_FAILURE,
    "accept_smoke_failure",
    is_flag=True,
    help="Be done with a server that runs again on every host, files and containers as they were, although its own "
    "smoke test does not pass.",
)
def command(accept_smoke_failure: bool) -> None:
    """Put every pair back as it was before a run that died: ranks under test down, files back, server up again."""
    restored = restore_pairs(default_states(), accept_smoke_failure=accept_smoke_failure)
    if not restored:
        click.echo("nothing to restore", err=True)
