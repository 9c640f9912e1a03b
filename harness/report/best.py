"""best.env: the best configuration in the form in which an operator can use it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping

from harness.records.cell import Configuration
from harness.records.launch import LaunchRecord
from harness.report.reading import Reading
from harness.report.text import one_line

_OPTION = "--speculative-config"
EngineVariables = Callable[[Configuration], Mapping[str, str]]  # what carries a configuration's knobs; k = 0 is absent


def best_env(reading: Reading, result: str, *, variables: EngineVariables | None = None) -> str | None:
    """Return the content of best.env.

    Args:
        reading: the run.
        result: the headline, which goes into a comment together with its standing.
        variables: by which the recipe's scripts read a configuration, where it is set up by variables.
            Without it the value of ``--speculative-config`` is taken from the command that was launched.

    Returns:
        None where nothing is best, or where neither form is known.
    """
    if reading.best is None:
        return None
    configuration = reading.best.configuration
    lines = _assigned(configuration, variables) if variables else _speculative_config(reading, configuration)
    if lines is None:
        return None
    manifest = reading.facts.manifest
    head = [
        f"# {one_line(result)}",
        f"# run {one_line(manifest.run_id)}, sweep {manifest.sweep_sha256[:12]}",
        *(["# SIMULATED: no engine ran."] if manifest.simulated else []),
    ]
    return "\n".join([*head, *lines, ""])


def _assigned(configuration: Configuration, variables: EngineVariables) -> list[str] | None:
    lines = [f"{name}={shlex.quote(one_line(text))}" for name, text in variables(configuration).items()]
    if configuration.num_speculative_tokens == 0:
        return [f"# No speculation: take {_OPTION} out of the command that starts the engine.", *lines]
    return lines or None


def _speculative_config(reading: Reading, configuration: Configuration) -> list[str] | None:
    launched = [
        launch
        for launch in reading.facts.launches
        if launch.configuration.configuration_id == configuration.configuration_id and launch.command
    ]
    if not launched:
        return None
    value = _option(launched[-1])
    if value is None:
        if configuration.num_speculative_tokens != 0:
            return None
        return [f"# No speculation: leave {_OPTION} out."]
    return [f"# vllm serve ... {_OPTION} {shlex.quote(value)}", f"SPECULATIVE_CONFIG={shlex.quote(value)}"]


def _option(launch: LaunchRecord) -> str | None:
    """The option's value, as canonical JSON where it is JSON."""
    for argument, following in zip(launch.command, (*launch.command[1:], ""), strict=True):
        if argument == _OPTION:
            return _one_line_json(following)
        if argument.startswith(f"{_OPTION}="):
            return _one_line_json(argument.split("=", 1)[1])
    return None


def _one_line_json(text: str) -> str:
    try:
        return json.dumps(json.loads(text))
    except ValueError:
        return one_line(text)
