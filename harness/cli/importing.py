"""`harness import FILE...`: results of another program as a run that can be shown and reported."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cli.loading import root_of
from harness.cli.options import root_option
from harness.cli.reporting import report_run
from harness.engine.clock import SystemClock
from harness.run.imported import ImportedFile, ImportWishes, configuration_named, import_results

_RECIPE = "ds4"


@click.command("import")
@click.argument("files", metavar="[NAME=]FILE...", nargs=-1, required=True)
@click.option("--name", help="Of the run. Default: imported, and the first file's name.")
@click.option("--class", "workload_class", default="unknown", show_default=True, help="What the prompt is about.")
@click.option("--temperature", type=float, default=0.0, show_default=True, help="That was sampled at.")
@click.option("--context-tokens", type=click.IntRange(min=1), help="Of the prompt, where the file does not say.")
@click.option("--machine", default="unknown", show_default=True, help="What it was measured on.")
@root_option
def command(
    files: tuple[str, ...],
    name: str | None,
    workload_class: str,
    temperature: float,
    context_tokens: int | None,
    machine: str,
    root: Path | None,
) -> None:
    """Store results of ds4-bench (CSV) or ds4 (its output) as one run, marked as IMPORTED, and write its report.

    Each FILE is a configuration, called NAME, else after the file; files of one NAME are repeats. Gains are measured
    against the first.
    """
    place, given = root_of(root), [_file(text) for text in files]
    wishes = ImportWishes(
        name=name or f"imported_{given[0].path.stem}",
        workload_class=workload_class,
        temperature=temperature,
        context_tokens=context_tokens,
        machine=machine,
        command=("harness", *sys.argv[1:]),
    )
    report_run(import_results(given, wishes, root=place, recipe=_RECIPE, clock=SystemClock()), place)


def _file(text: str) -> ImportedFile:
    name, equals, path = text.partition("=")
    if not equals or Path(text).is_file():
        name, path = Path(text).stem, text
    return ImportedFile(path=Path(path).expanduser(), configuration=configuration_named(name, {}, recipe=_RECIPE))
