"""The part of a recipe about an engine that runs as one container per node: names, messages and files, as data.

There are two ways to launch it. ``checkout`` drives the scripts of the recipe that owners have; ``bundled`` needs no
checkout: a compose document of the harness's own is filled from the configuration and from pair.yaml. The bundled way
is taken where the knob ``generation`` has the value of ``bundled.generation``, or where ``launch.style`` says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from harness.recipe.matcher import Matchers
from harness.yaml_model import FileModel

GENERATION = "generation"
_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
Variable = Annotated[str, Field(pattern=_NAME)]


class PairVariables(FileModel):
    """Environment variables of the engine's scripts, by what they hold."""

    host: Variable = Field(description="The address that the API listens on.")
    port: Variable = Field(description="The port of the API.")
    keys: tuple[Variable, ...] = Field(default=(), description="API keys; the first that is set counts.")
    image: Variable = Field(description="The container image.")
    restart_policy: Variable | None = Field(default=None, description="Of the containers.")
    worker: Variable | None = Field(default=None, description="What ssh reaches the worker by.")
    worker_folders: tuple[Variable, ...] = Field(
        default=(), description="The worker's copy of the checkout; the first that is set counts, else the head's path."
    )
    cache: Variable | None = Field(default=None, description="The head's cache of checkpoints.")
    worker_cache: Variable | None = Field(default=None, description="The worker's, where it is another path.")
    worker_nfs: Variable | None = Field(default=None, description="1: the worker mounts the head's cache.")
    env_file: Variable | None = Field(default=None, description="Names the env file to a script's process.")
    compose_file: Variable | None = Field(default=None, description="Names the compose file, likewise.")
    project: Variable | None = Field(default=None, description="Names the compose project, likewise.")
    wait_attempts: Variable | None = Field(default=None, description="How often start looks whether the API answers.")
    wait_seconds: Variable | None = Field(default=None, description="And how long it waits in between.")


class Scripts(FileModel):
    """The programs of a checkout, relative to it."""

    start: str
    stop: str
    status: str | None = None
    validate_: str | None = Field(default=None, alias="validate")
    smoke: str | None = None
    prepare: str | None = None


class Override(FileModel):
    """A compose file to merge into the main one where ``when`` holds."""

    when: Matchers = Field(description="Every knob named here matches.")
    file: str = Field(description="Relative to the checkout.")


class Generation(FileModel):
    """How to tell a state of the checkout's scripts. Regular expressions over the text of its start script."""

    name: str = Field(description="A value of the knob generation.")
    has: tuple[str, ...] = Field(min_length=1, description="All of these are found.")
    lacks: tuple[str, ...] = Field(default=(), description="None of these is.")


class Messages(FileModel):
    """Regular expressions over the lines of the start script."""

    ready: tuple[str, ...] = Field(default=(), description="The API has answered. No proof: the exit code decides.")
    failed: tuple[str, ...] = Field(default=(), description="It has given up.")
    already_running: tuple[str, ...] = Field(default=(), description="The old configuration still runs.")


class Checkout(FileModel):
    """The way through the scripts of a checkout."""

    scripts: Scripts
    env_file: str = Field(description="The operator's own, relative to the checkout.")
    env_example: str | None = Field(default=None, description="What it was copied from.")
    compose_file: str = Field(description="Relative to the checkout; the same name on the worker.")
    overrides: tuple[Override, ...] = Field(default=(), description="Compose files that some configurations need.")
    speculative_flag: str = Field(description="Taken out of the compose file where k = 0.")
    exit_already_running: int = Field(description="The exit code of start where the old configuration still runs.")
    messages: Messages = Field(default=Messages())
    generations: tuple[Generation, ...] = Field(default=(), description="The first that fits is taken.")


class Lookup(FileModel):
    """A text of the compose document that depends on one variable."""

    of: Variable = Field(description="The variable.")
    texts: dict[str, str] = Field(min_length=1, description="Its values, and the text for each.")


class Addition(FileModel):
    """Variables that some configurations get besides their knobs."""

    when: Matchers = Field(description="Every knob named here matches.")
    variables: dict[Variable, str] = Field(min_length=1)


class Encoder(FileModel):
    """A file of the checkpoint that takes the place of one in the image, where the checkpoint has it."""

    file: str = Field(description="Relative to the snapshot.")
    takes_the_place_of: str = Field(description="In the image.")


class Bundled(FileModel):
    """The way without a checkout."""

    compose: str = Field(description="The template of the compose document of a rank, beside recipe.yaml.")
    generation: str = Field(description="The value of the knob generation that asks for this way.")
    image: str = Field(description="Where neither the sweep nor pair.yaml names one.")
    checkpoint: str = Field(default="", description="Likewise, as repository@revision; empty: one must be named.")
    variables: dict[Variable, str] = Field(default={}, description="Values where the sweep names none.")
    additions: tuple[Addition, ...] = Field(default=(), description="More of them, for some configurations.")
    lookups: dict[str, Lookup] = Field(default={}, description="Texts that the template names.")
    speculative_method: str = Field(description="Of the JSON in {speculative_config}.")
    sequences: Variable = Field(description="The most sequences in a step, for {capture_size}.")
    depth: Variable = Field(description="k, for {capture_size} and {speculative_config}.")
    sample_method: Variable = Field(description="For {speculative_config}.")
    capture_multiple: int = Field(default=1, ge=1, description="{capture_size} is rounded up to a multiple of this.")
    encoder: Encoder | None = Field(default=None, description="For {encoder}.")


class Pair(FileModel):
    """An engine that runs as one container on each of one or two nodes."""

    nodes: Literal[1, 2] = Field(description="2: a head rank with the API, and a worker rank.")
    service: str = Field(description="Its name in the compose file.")
    project: str = Field(description="The compose project of the operator's own server, unless the site says another.")
    port: int = Field(description="Where the operator's own server listens, unless its env file says another.")
    container: str = Field(
        default="{project}-{service}-1", description="The name of a rank's container, with {project} and {service}."
    )
    variables: PairVariables
    checkout: Checkout | None = Field(default=None, description="The way through the scripts of a checkout.")
    bundled: Bundled | None = Field(default=None, description="The way without one.")

    def container_name(self, project: str) -> str:
        """Return what a rank's container of this project is called on either node."""
        return self.container.replace("{project}", project).replace("{service}", self.service)


def recognise(generations: Sequence[Generation], start_script: str) -> str | None:
    """Return which generation a start script is of; None where it is none that was tested."""
    for generation in generations:
        found = all(re.search(pattern, start_script) for pattern in generation.has)
        if found and not any(re.search(pattern, start_script) for pattern in generation.lacks):
            return generation.name
    return None
