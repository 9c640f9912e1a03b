"""What a launch needs, worked out from a recipe and a configuration before anything runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.recipe.pair import Pair
from harness.recipe.schema import Recipe
from harness.records.cell import Configuration, KnobValue
from harness.records.trial import EventMeaning

LaunchStyle = Literal["local_process", "attach", "two_node_checkout", "two_node_bundled", "simulated"]
PORT = "{port}"  # stands in argv and environment until a free port is known


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationStep:
    """Something to install or build once before the first launch, for example an engine's own environment."""

    name: str
    says: str  # what it costs: size, minutes
    creates: Path  # done when this exists; written last by the step itself
    command: tuple[str, ...]
    environment: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootPatterns:
    """Regular expressions of the boot log. A named group carries the value."""

    progress: tuple[str, ...] = ()  # lines worth showing while waiting
    fatal: tuple[str, ...] = ()  # lines after which waiting is useless
    jit: tuple[str, ...] = ()  # compilation while serving
    remedies: tuple[tuple[str, str], ...] = ()  # pattern of the engine's own words, and what to do; first match


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How a server answers and counts, where servers differ. The defaults are vLLM's."""

    ready_by: Literal["health", "models"] = "health"
    thinking_field: Literal["chat_template_kwargs", "think"] = "chat_template_kwargs"
    first_event_tokens: int | None = None  # where the server does not tell
    events: EventMeaning = "steps"
    metrics: Literal["vllm", "none", "ds4"] = "vllm"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSpec:
    """The simulated engine that stands in for a configuration."""

    truth: str  # its name
    inputs: dict[str, KnobValue]  # of the model, by their names in the recipe's simulation; what is missing is default
    truncated_graphs: bool  # the widest step has none


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpec:
    """What a launch on one or two nodes needs besides the variables in ``LaunchSpec.environment``.

    What is None or not in ``environment`` is as the operator's env file (checkout) or pair.yaml (bundled) has it.
    """

    data: Pair
    folder: Path  # of the recipe, for its own files
    generation: str | None  # of the checkout, as the configuration says or the recipe assumes
    image: str | None  # where the configuration names it, in full
    checkpoint: str | None  # likewise, repository@revision
    overrides: tuple[str, ...] = ()  # checkout: compose files to merge into the main one
    defaults: Mapping[str, str] = field(default_factory=dict)  # bundled: variables where nobody names them


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """One engine to start, or one to attach to."""

    recipe: str
    configuration: Configuration
    style: LaunchStyle
    argv: tuple[str, ...]  # with PORT
    environment: dict[str, str]  # added to the harness's own
    working_directory: Path | None
    base_url: str | None  # attach: the endpoint; else None, since the port is chosen at launch
    served_model: str | None  # None: whatever /v1/models names first
    api_key_variable: str | None  # the environment variable that holds the key, never the key
    preparation: tuple[PreparationStep, ...]
    boot: BootPatterns
    ready_timeout_s: float
    stop_timeout_s: float
    expected_launch_s: float
    num_speculative_tokens: int | None  # the live server must prove it; 0: none; None: open
    k_may_be_trimmed: bool = False  # drafted / drafts may lie below k (ngram, confidence)
    chat: bool = True  # /v1/chat/completions; else /v1/completions
    prefill_tokens_per_s: float = 1000.0  # for timeouts and predicted times only
    slowest_decode_tokens_per_s: float = 5.0  # of a stream to allow for, likewise
    canary_limit_ratio: float = 0.03
    warmup_limit_ratio: float = 0.10
    over_ssh: str | None = None  # local_process: the host on which argv runs; None: this machine
    manners: Manners = field(default_factory=Manners)
    simulation: SimulatedSpec | None = None  # of style simulated
    pair: PairSpec | None = None  # of the two_node styles; environment then holds the configuration's own variables


def manners_of(recipe: Recipe) -> Manners:
    """Return how the engine of a recipe answers and counts."""
    server = recipe.server
    return Manners(
        ready_by=server.ready_by,
        thinking_field=server.thinking_field,
        first_event_tokens=server.first_event_tokens,
        events=server.events,
        metrics=recipe.measuring.metrics,
    )


def boot_patterns(recipe: Recipe) -> BootPatterns:
    """Return what to read in the boot log."""
    boot = recipe.launch.boot
    return BootPatterns(progress=boot.progress, fatal=boot.fatal, jit=boot.jit, remedies=tuple(boot.remedies.items()))
