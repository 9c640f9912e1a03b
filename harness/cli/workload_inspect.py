"""`harness workload inspect FILE`: what is in a trace, and what will be replayed of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from harness.cli.streams import shown_if_possible, write_document
from harness.recipe.find import find_recipe
from harness.recipe.load import load_recipe
from harness.recipe.schema import Recipe
from harness.report.workload_page import render_workload
from harness.report.workload_view import Speed, terminal_text, workload_sections
from harness.store.files import write_whole
from harness.workload.inspection import inspect_trace

trace_argument = click.argument("trace", metavar="FILE", type=click.Path(path_type=Path))
format_option = click.option(
    "--format", "format_name", metavar="NAME", default="auto", show_default=True, help="Of the trace, if not guessed."
)


@click.command("inspect")
@trace_argument
@format_option
@click.option("--recipe", metavar="NAME", help="Say how long this engine takes to replay it, and what is too long.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write it as a page to this file."
)
def inspect_command(trace: Path, format_name: str, recipe: str | None, as_json: bool, page: Path | None) -> None:
    """Show what the trace in FILE holds: lengths, classes, conversations, and what cannot be replayed and why.

    No text of the trace is shown. Lengths are as recorded, else estimated.
    """
    loaded = load_recipe(find_recipe(recipe)).recipe if recipe else None
    most_tokens = _most_tokens(loaded) if loaded else None
    found = inspect_trace(trace, format_name=format_name, most_tokens=most_tokens, on_entry=_progress())
    speed = _speed(loaded) if loaded else None
    sections = workload_sections(found, speed)
    if page is not None:
        write_whole(page, render_workload(f"Workload {found.file}", sections).encode())
    if as_json:
        write_document(json.dumps(asdict(found), indent=2, ensure_ascii=False, allow_nan=False))
        return
    with shown_if_possible():
        click.echo(terminal_text(sections), err=True)


def _progress() -> Callable[[int], None] | None:
    """Count on a terminal; a log needs no line for each thousand entries."""
    if not sys.stderr.isatty():
        return None

    def show(entries: int) -> None:
        with shown_if_possible():
            click.echo(f"\r{entries} entries\r", nl=False, err=True)

    return show


def _most_tokens(recipe: Recipe) -> int | None:
    """Of prompt and answer, by the recipe's own default: a sweep may name another."""
    most = recipe.launch_defaults.get("max_model_len")
    return most if isinstance(most, int) else None


def _speed(recipe: Recipe) -> Speed:
    return Speed(
        engine=recipe.recipe,
        prefill_tokens_per_s=recipe.measuring.prefill_tokens_per_s,
        decode_tokens_per_s=recipe.measuring.decode_tokens_per_s,
    )
