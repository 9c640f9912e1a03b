"""The `harness` command: the one place where a failure becomes text and an exit code."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence

import click

from harness.cli.streams import shown_if_possible
from harness.errors import HarnessError, Interrupted, LaunchError

_COMMANDS = {
    "ab": "harness.cli.ab",
    "baseline": "harness.cli.baseline",
    "compare": "harness.cli.compare",
    "doctor": "harness.cli.doctor",
    "engine": "harness.cli.engine",
    "history": "harness.cli.history",
    "import": "harness.cli.importing",
    "nightly": "harness.cli.nightly",
    "plan": "harness.cli.plan",
    "report": "harness.cli.report",
    "schema": "harness.cli.schema",
    "show": "harness.cli.show",
    "simulate": "harness.cli.simulate",
    "sweep": "harness.cli.sweep",
    "tune": "harness.cli.tune",
    "workload": "harness.cli.workload",
}
_EXIT_INPUT = 2


class LazyGroup(click.Group):
    """Imports a command's module when it is named: `harness --help` must not wait for pandas."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None for an unknown name."""
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _SUMMARIES[name]) for name in _COMMANDS])


_SUMMARIES = {
    "ab": "Is one configuration better than another? Launch both in turn until it shows.",
    "baseline": "Accept what is normal, and show what was accepted.",
    "compare": "Is one stored run better than another?",
    "doctor": "Look whether a recipe would run here, and what would spoil its numbers.",
    "engine": "Start, stop and list engines that this tool started.",
    "history": "Show the nights so far, and keep their runs small.",
    "import": "Store results of ds4-bench or ds4 as a run that can be shown and reported.",
    "nightly": "Did anything move since the accepted baseline? Measure a small part, and say so in a line.",
    "plan": "Show what a sweep would launch, refuse and cost, without launching.",
    "report": "Write the dated report of a stored run.",
    "schema": "Print the JSON Schema of sweep and recipe files.",
    "show": "Show the cells of a run on the terminal, or as JSON.",
    "simulate": "Serve a simulated engine over HTTP, for any client of vLLM.",
    "sweep": "Plan, launch, measure and report: the main job.",
    "tune": "Search the configurations of a sweep for the best one, and confirm it.",
    "workload": "Look into recorded traffic, and prepare it for a sweep.",
}


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="harness-spec", prog_name="harness")
def cli() -> None:
    """Benchmark and tune speculative decoding on engines that this tool launches.

    A sweep file goes in; each configuration is launched, measured and proved; a dated report comes out.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with a code of the table in the README."""
    try:
        code = cli.main(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except HarnessError as failure:
        with shown_if_possible():
            _show(failure)
        sys.exit(failure.exit_code)
    except click.ClickException as failure:
        failure.show(file=sys.stderr)
        sys.exit(_EXIT_INPUT)
    except (click.Abort, KeyboardInterrupt):
        with shown_if_possible():
            click.echo("interrupted", err=True)
        sys.exit(Interrupted.exit_code)
    except Exception:  # noqa: BLE001 - Python's own code for it is 1, which here says that something became worse
        with shown_if_possible():
            traceback.print_exc()
        sys.exit(HarnessError.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _show(failure: HarnessError) -> None:
    word = "interrupted" if isinstance(failure, Interrupted) else "error"
    text = f"{failure.where}: {failure.what}" if failure.where else failure.what
    click.secho(f"{word}: ", fg="red", bold=True, nl=False, err=True)
    click.echo(text, err=True)
    if failure.hint:
        for line in failure.hint.splitlines():
            click.echo(f"  {line}", err=True)
    if isinstance(failure, LaunchError) and failure.log_tail:
        click.echo("  Last lines of the engine's log:", err=True)
        for line in failure.log_tail:
            click.echo(f"    {line}", err=True)


if __name__ == "__main__":
    main()
