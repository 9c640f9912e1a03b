"""best.env: the best configuration in the form in which an operator can use it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from itertools import pairwise

from harness.records.cell import Configuration
from harness.records.launch import LaunchRecord
from harness.report.reading import Reading
from harness.report.text import one_line

_OPTION = "--speculative-config"
EngineVariables = Callable[[Configuration], Mapping[str, str]]  # what carries a configuration's knobs; k = 0 is absent


def best_env(
    reading: Reading, configuration: Configuration, result: str, *, variables: EngineVariables | None = None
) -> str | None:
    """Return the content of best.env.

    Args:
        reading: the run.
        configuration: the best one.
        result: the headline, which goes into a comment together with its standing.
        variables: by which the recipe's scripts read a configuration, where it is set up by variables.
            Without it the value of ``--speculative-config`` is taken from the command that was launched.

    Returns:
        None where neither form is known.
    """
    lines = _assigned(configuration, variables) if variables else _options(reading, configuration)
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


def _options(reading: Reading, configuration: Configuration) -> list[str] | None:
    """An engine that counts its drafts per launch is ds4."""
    if any(launch.speculation is not None for launch in reading.facts.launches):
        return _dspark_options(reading, configuration)
    return _speculative_config(reading, configuration)


def _dspark_options(reading: Reading, configuration: Configuration) -> list[str] | None:
    if configuration.num_speculative_tokens == 0:
        return ["# No DSpark: start ds4-server without --dspark and without the support file.", "DS4_ARGS="]
    launches = _launches_of(reading, configuration)
    named = configuration.knobs.get("confidence_threshold")  # 0 is a value too
    confidence = _value_of(launches[-1] if launches else None) if named is None else named
    if confidence is None:
        return None
    options = f"--dspark --dspark-confidence {one_line(str(confidence))}"
    return ["# With the support file of your model, as --mtp-model FILE (--mtp FILE in older builds).", _set(options)]


def _set(options: str) -> str:
    return f"DS4_ARGS={shlex.quote(options)}"


def _value_of(launch: LaunchRecord | None) -> str | None:
    command = launch.command if launch else ()
    return next((value for option, value in pairwise(command) if option == "--dspark-confidence"), None)


def _launches_of(reading: Reading, configuration: Configuration) -> list[LaunchRecord]:
    return [
        launch
        for launch in reading.facts.launches
        if launch.configuration.configuration_id == configuration.configuration_id and launch.command
    ]


def _speculative_config(reading: Reading, configuration: Configuration) -> list[str] | None:
    launched = _launches_of(reading, configuration)
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
