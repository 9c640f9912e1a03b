"""The form of a recipe file: the contract with one engine, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from harness.recipe.knob import Knob, honoured_by
from harness.recipe.matcher import DEFINITIONS, Conditions, Matchers
from harness.recipe.pair import Pair
from harness.records.cell import KnobValue
from harness.yaml_model import FileModel, editor_schema

BUILT_IN_NAMES = ("port", "host", "recipe_dir", "cache_dir", "data_dir", "python")
CHECKPOINT_PARTS = ("repository", "revision", "model")  # of repository@revision, in Reach.variables
LOAD_KNOBS = (
    "class",
    "context_tokens",
    "concurrency",
    "cache",
    "output_tokens",
    "temperature",
    "top_p",
    "thinking",
    "thinking_tokens",
)
IMAGE = "image"
TERM = re.compile(r"^([a-z][a-z0-9_]*)(?: \+ ([0-9]+))?$")
ENV_PREFIX = "env."
VISION = "vision"  # the content class whose prompts hold pictures


class Preparation(FileModel):
    """Something to install or build once, before the first launch."""

    name: str = Field(description="A word or two, shown as progress.")
    says: str = Field(description="What it costs: size, minutes.")
    creates: str = Field(description="Done when this path exists; the step writes it last.")
    command: tuple[str, ...] = Field(min_length=1, description="Words of the command; templates.")
    environment: dict[str, str] = Field(default={}, description="Added to the environment; templates.")


class SpeculativeConfig(FileModel):
    """One flag that takes JSON. Left out wholly where num_speculative_tokens is 0."""

    flag: str = Field(description="For example --speculative-config.")
    fields: dict[str, str] = Field(default={}, description="Fields beside those that knobs set; templates.")


class Boot(FileModel):
    """Regular expressions over the boot log. A named group carries the value."""

    progress: tuple[str, ...] = Field(default=(), description="Lines worth showing while waiting.")
    fatal: tuple[str, ...] = Field(default=(), description="Lines after which waiting is useless.")
    jit: tuple[str, ...] = Field(default=(), description="Lines that report compilation while serving.")
    remedies: dict[str, str] = Field(
        default={}, description="What to do about a failed boot, by a pattern of this engine's own words; first match."
    )


class Launch(FileModel):
    """How the engine is started, or found."""

    style: Literal["local_process", "attach", "two_node_checkout", "two_node_bundled"] = Field(
        description="local_process: a process of this machine. attach: an endpoint that is already running. "
        "two_node_checkout: by the scripts of a checkout. two_node_bundled: by a compose file of this recipe; on one "
        "node too. Both are described under `pair`."
    )
    command: tuple[str, ...] = Field(default=(), description="The program; templates.")
    args: tuple[str, ...] = Field(default=(), description="Its arguments, before those that knobs add; templates.")
    environment: dict[str, str] = Field(default={}, description="Added to the environment; templates.")
    working_directory: str | None = Field(default=None, description="Where the program starts; template.")
    over_ssh: str | None = Field(
        default=None,
        description="local_process: the host on which it runs, as ssh reaches it without a prompt; a template of one "
        "knob, without whose value it is this machine.",
    )
    speculative_config: SpeculativeConfig | None = Field(default=None, description="The flag for speculation.")
    port_flag: str | None = Field(default=None, description="Takes the free port; else use {port} in args.")
    host_flag: str | None = Field(default=None, description="Takes the address to listen on.")
    host: str = Field(default="127.0.0.1", description="The address to listen on.")
    base_url: str | None = Field(default=None, description="attach: the endpoint; template.")
    served_model: str | None = Field(default=None, description="What requests ask for; else the first that is served.")
    chat: bool = Field(default=True, description="Use /v1/chat/completions; else /v1/completions.")
    api_key_variable: str | None = Field(default=None, description="Environment variable that holds the key.")
    preparation: tuple[Preparation, ...] = Field(default=(), description="Once, before the first launch.")
    boot: Boot = Field(default=Boot(), description="What to read in the boot log.")
    ready_timeout_s: float = Field(gt=0, description="Give up waiting after this.")
    stop_timeout_s: float = Field(default=30.0, gt=0, description="Then it is killed.")
    expected_launch_s: float = Field(ge=0, description="For predicted times.")
    k_may_be_trimmed_when: Conditions = Field(
        default=(), description="Where any of these holds, fewer than k tokens may be drafted in a step."
    )
    control_when: Conditions = Field(
        default=(), description="Where any of these holds, it is a control: measured, and never what is recommended."
    )


class Measuring(FileModel):
    """What the harness assumes of this engine before it has measured it."""

    metrics: Literal["vllm", "none", "ds4"] = Field(
        default="vllm",
        description="How it counts. vllm: by its /metrics. ds4: by lines of its log, per launch. none: not at all.",
    )
    prefill_tokens_per_s: float = Field(default=1000.0, gt=0, description="For timeouts and predicted times only.")
    decode_tokens_per_s: float = Field(default=50.0, gt=0, description="Of one stream alone, for predicted times only.")
    slowest_decode_tokens_per_s: float = Field(default=5.0, gt=0, description="The slowest stream to allow for.")
    canary_limit_ratio: float = Field(default=0.03, gt=0, description="A canary that moved more makes a doubt.")
    warmup_limit_ratio: float = Field(default=0.10, gt=0, description="Warm when two rounds differ by less.")
    drafter_block_tokens: int | None = Field(
        default=None, ge=1, description="The block that the drafter was trained for: deeper drafts may fall apart."
    )


class Server(FileModel):
    """How the server answers where servers differ. The defaults are vLLM's."""

    accepts_images: Matchers | None = Field(
        default=None,
        description="Where this holds, prompts may hold pictures; {}: as far as anybody knows. Left out: text alone.",
    )

    ready_by: Literal["health", "models"] = Field(
        default="health", description="What says that it is up. models: /v1/models, where it has no /health."
    )
    thinking_field: Literal["chat_template_kwargs", "think"] = Field(
        default="chat_template_kwargs", description="The field of a request that turns reasoning on and off."
    )
    first_event_tokens: int | None = Field(
        default=None, ge=1, description="Tokens in the first event of an answer, where the server does not tell."
    )
    events: Literal["steps", "tokens"] = Field(
        default="steps",
        description="What an event is. tokens: those of one step come as events of their own, close together.",
    )


class EnvironmentVariable(FileModel):
    """A variable of the engine that is no knob, but about which something is known."""

    help: str = Field(default="", description="What it does.")
    images: tuple[str, ...] = Field(default=(), description="Patterns of the images that honour it; empty: all.")
    ignored_when: Conditions = Field(default=(), description="Where any of these holds, nothing reads it.")

    def honoured_by(self, image: str) -> bool:
        """Whether an image of this name honours the variable."""
        return honoured_by(self.images, image)


class FreeVariables(FileModel):
    """Whether `env.NAME` may set any variable, and what is known of some."""

    allowed: bool = Field(default=True, description="Whether a sweep may set variables by env.NAME.")
    known: dict[str, EnvironmentVariable] = Field(default={}, description="By name or pattern, for example VLLM_X_*.")
    never: dict[str, str] = Field(
        default={}, description="Variables, by name or pattern, that no sweep may set, and why: those of a site."
    )


class Rule(FileModel):
    """Where ``when`` holds, ``require`` must hold too. Load knobs may be named: then it is about cells."""

    when: Matchers = Field(description="Every knob named here matches.")
    require: Matchers = Field(default={}, description="Every knob named here must match; empty: never allowed.")
    because: str = Field(description="The reason, shown to the user.")
    source: str | None = Field(default=None, description="Where this is known from.")
    level: Literal["refuse", "warn"] = Field(default="refuse", description="warn: it boots, but say so.")

    @property
    def is_about_cells(self) -> bool:
        """It names load knobs, so it is about cells and not about a whole configuration."""
        return any(name in LOAD_KNOBS for name in (*self.when, *self.require))


class Derived(FileModel):
    """A number worked out from knobs, for rules to name."""

    product_of: tuple[Annotated[str, Field(pattern=TERM.pattern)], ...] = Field(
        min_length=1, description='Factors: a knob, or a knob and a number, as in "num_speculative_tokens + 1".'
    )


class Implication(FileModel):
    """Where ``when`` holds, these knobs have these values, whatever the sweep says."""

    when: Matchers = Field(description="Every knob named here matches.")
    then: dict[str, bool | int | float | str] = Field(description="The values that follow.")


ModelInput = Literal[
    "num_speculative_tokens",
    "draft_sample_method",
    "confidence_threshold",
    "confidence_scheduler",
    "max_num_seqs",
    "max_num_batched_tokens",
    "long_prefill_token_threshold",
    "max_inflight_prefills",
    "max_model_len",
    "prefix_caching",
    "condition",
    "inert",
]


class TruthChoice(FileModel):
    """Where ``when`` holds, the simulated engine is this one."""

    when: Matchers = Field(description="Every knob named here matches.")
    truth: str = Field(description="The name of a truth of the simulator.")


class Simulation(FileModel):
    """How the simulated engine stands in for this one."""

    truth: str = Field(description="The name of a truth of the simulator: what a step costs, how good drafts are.")
    truths: tuple[TruthChoice, ...] = Field(default=(), description="Other truths; the first that matches is taken.")
    assumes: dict[str, bool | int | float | str] = Field(
        default={}, description="Values of knobs that nobody names: what the operator's own file is taken to say."
    )
    knobs: dict[str, ModelInput] = Field(
        default={},
        description="What each knob is in the model: an input, condition (it is named in one), or inert. env.NAME may "
        "be a pattern. A knob that is not here cannot be simulated.",
    )
    truncates_graphs_when: Conditions = Field(
        default=(),
        description="Where any of these holds, graphs are captured only up to the multiple of 8 below "
        "max_num_seqs x (k + 1); else the widest step has one.",
    )
    rules: tuple[Rule, ...] = Field(default=(), description="What boots, but cannot be simulated; about launch knobs.")


class Recipe(FileModel):
    """How to launch one engine."""

    recipe: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", description="Its name, that of its folder.")
    title: str = Field(description="In a line.")
    launch: Launch
    measuring: Measuring = Field(default=Measuring(), description="What is assumed before anything is measured.")
    server: Server = Field(default=Server(), description="How it answers.")
    knobs: dict[str, Knob] = Field(default={}, description="By neutral name.")
    environment_variables: FreeVariables = Field(default=FreeVariables(), description="What env.NAME may be.")
    derived: dict[str, Derived] = Field(default={}, description="Numbers worked out from knobs, by name.")
    implies: tuple[Implication, ...] = Field(default=(), description="Spellings of the same server.")
    rules: tuple[Rule, ...] = Field(default=(), description="Which configurations boot.")
    simulation: Simulation | None = Field(default=None, description="How the simulated engine stands in for it.")
    pair: Pair | None = Field(default=None, description="Of an engine that runs as one container on each node.")

    @cached_property
    def launch_knobs(self) -> dict[str, Knob]:
        """Those that need a restart."""
        return {name: knob for name, knob in self.knobs.items() if knob.scope == "launch"}

    @cached_property
    def launch_defaults(self) -> dict[str, KnobValue]:
        """What a launch knob is where the sweep does not name it, for those that say."""
        defaults = {name: knob.default_value for name, knob in self.launch_knobs.items()}
        return {name: value for name, value in defaults.items() if value is not None}

    @cached_property
    def inert_conditions(self) -> dict[str, Conditions]:
        """Where a launch knob does nothing, for those that say."""
        return {name: knob.inert_when for name, knob in self.launch_knobs.items() if knob.inert_when}

    @cached_property
    def launch_rules(self) -> tuple[Rule, ...]:
        """The rules about whole configurations."""
        return tuple(rule for rule in self.rules if not rule.is_about_cells)

    @cached_property
    def cell_rules(self) -> tuple[Rule, ...]:
        """The rules that name load knobs, and that pictures go only to what takes them."""
        return (*(rule for rule in self.rules if rule.is_about_cells), *_picture_rules(self.server.accepts_images))


def _picture_rules(accepts: Mapping[str, Any] | None) -> tuple[Rule, ...]:
    if accepts is None:
        because = "class vision sends a picture with each prompt, and what this recipe serves takes text alone"
        return (Rule(when={"class": VISION}, because=because),)
    if not accepts:
        return ()
    needed = ", ".join(f"{name} {matcher}" for name, matcher in accepts.items())
    because = f"class vision sends a picture with each prompt, which only {needed} takes; name it in knobs"
    return (Rule(when={"class": VISION}, require=dict(accepts), because=because),)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of recipe files."""
    return editor_schema(Recipe, title="harness recipe", definitions=DEFINITIONS)
