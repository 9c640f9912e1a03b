"""`harness engine restore`: put pairs back that a dead run has changed."""

from __future__ import annotations

import click

from harness.cli.engine_pair import restore_pairs
from harness.engine.pair.state import default_states


@click.command("restore")
def command() -> None:
    """Put every pair back as it was before a run that died: ranks under test down, files back, server up again."""
    restored = restore_pairs(default_states())
    if not restored:
        click.echo("nothing to restore", err=True)
