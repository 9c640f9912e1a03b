"""`harness show RUN`: the cells of a run, finished or not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path

import click

from harness.cli.display import view_of
from harness.cli.following import follow
from harness.cli.loading import root_of, summaries_of
from harness.cli.options import root_option, run_argument
from harness.cli.streams import shown_if_possible, write_document
from harness.records.journal import RunData
from harness.records.launch import LaunchRecord
from harness.report.terminal import print_result, stderr_console
from harness.stats.cells import cell_document
from harness.stats.objective import workload_document
from harness.stats.session_figures import session_figures
from harness.store.layout import resolve_run
from harness.store.reader import read_run


@click.command("show")
@run_argument
@root_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.option("--follow", "following", is_flag=True, help="Watch the run until it ends.")
def command(run: str, root: Path | None, as_json: bool, following: bool) -> None:
    """Show the cells of RUN (an id, a unique prefix, a path, or latest)."""
    folder = resolve_run(run, root=root_of(root))
    if following:
        asyncio.run(follow(folder))
    if as_json:
        write_document(json.dumps(_document(read_run(folder)), indent=2, ensure_ascii=False, allow_nan=False))
        return
    view = view_of(folder)
    with shown_if_possible():
        print_result(view, stderr_console())


def _document(run: RunData) -> dict[str, object]:
    manifest, cells = run.manifest, summaries_of(run)
    return {
        "run_id": manifest.run_id,
        "sweep": manifest.sweep,
        "recipe": manifest.recipe,
        "started_at": manifest.started_at,
        "harness_version": manifest.harness_version,
        "simulated": manifest.simulated,
        "mark": manifest.mark,
        "launches": [
            {
                "launch_id": launch.launch_id,
                "configuration": launch.configuration.knobs,
                "round": launch.round,
                "attempt": launch.attempt,
                "outcome": launch.outcome,
                "reason": launch.reason,
                "ready_s": launch.ready_s,
                "speculation": _speculation(launch),
            }
            for launch in run.launches
        ],
        "checks": [asdict(check) for check in run.checks],
        "cells": [cell_document(summary) for summary in cells],
        "mix": workload_document(cells, run.plan.weights if run.plan is not None else {}),
    }


def _speculation(launch: LaunchRecord) -> dict[str, object] | None:
    """What the engine says of its drafts in this launch; None where it counts them per trial, in the cells."""
    stats = launch.speculation
    if stats is None:
        return None
    figures = session_figures(stats)
    said = {"counts": stats.counts, "times_s": stats.times_s, "histograms": stats.histograms}
    return {**figures.values, "bypassed": stats.bypassed, "null_reasons": figures.null_reasons, **said}
