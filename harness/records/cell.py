"""What is measured: configurations (launch knobs), load points (load knobs), and cells (both)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Literal

from harness.records.identity import content_id

KnobValue = bool | int | float | str
CacheMode = Literal["cold", "warm", "shared", "as_recorded"]
Arrivals = Literal["closed", "constant", "poisson", "recorded"]
NUM_SPECULATIVE_TOKENS = "num_speculative_tokens"


@dataclass(frozen=True, kw_only=True)  # without slots: its id is asked for often, and kept
class Configuration:
    """One value for every launch knob that the sweep names, by neutral name. The rest stays as the recipe has it."""

    recipe: str
    knobs: dict[str, KnobValue]
    name: str | None = None  # how the sweep calls it; no part of its identity

    @cached_property
    def configuration_id(self) -> str:
        """Identity: the recipe and the knobs, not the name."""
        return content_id({"recipe": self.recipe, "knobs": self.knobs})

    @property
    def num_speculative_tokens(self) -> int | None:
        """k; 0 means no speculation; None where the sweep leaves it to the recipe."""
        value = self.knobs.get(NUM_SPECULATIVE_TOKENS)
        return value if isinstance(value, int) else None

    @property
    def label(self) -> str:
        """The name, else the knobs."""
        return self.name or ", ".join(f"{name}={value}" for name, value in sorted(self.knobs.items())) or "as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLength:
    """How long answers are: exactly ``most_tokens`` (min = max, EOS ignored), or natural and at most that."""

    tokens: int
    natural: bool = False
    reserve_tokens: int = 0  # for reasoning, so that it does not eat the answer

    @property
    def most_tokens(self) -> int:
        """What a request's max_tokens is: the answer and its reasoning."""
        return self.tokens + self.reserve_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLoad:
    """The part of a trace that a cell replays. Hashes, counts and lengths, never a text.

    Beside it, the load's own ``context_tokens`` is the upper end of the lengths, ``output`` the longest answer, and
    ``temperature`` and ``top_p`` are medians where they are as recorded.
    """

    workload_id: str  # of its conversations, in their order
    arrivals: Arrivals
    as_recorded: tuple[str, ...]  # load knobs that each request has from the trace
    conversations: int
    requests: int
    prompt_tokens: int  # of all requests, as far as the trace tells, else estimated
    output_tokens: int
    reused_ratio: float  # of the prompt tokens: begin an earlier prompt of the same conversation, or of all
    span_s: float = 0.0  # from the first request that is due to the last
    rate_per_s: float | None = None  # of constant and Poisson arrivals: conversations that begin
    synthetic_class: str | None = None  # what fills entries without text; None: all texts are as recorded


@dataclass(frozen=True, kw_only=True)  # without slots: its id is asked for often, and kept
class LoadPoint:
    """One value for every load knob. Sampling is always explicit: a server's own defaults differ by version."""

    workload_class: str
    context_tokens: int
    concurrency: int
    output: OutputLength
    cache: CacheMode = "cold"
    temperature: float = 0.0
    top_p: float = 1.0
    thinking: str = "off"
    recorded: RecordedLoad | None = None  # None: prompts are made for it

    @property
    def columns(self) -> dict[str, KnobValue]:
        """The load by the names of tables and JSON, in their order. ``output_tokens`` there is what came, not this."""
        return {
            "class": self.workload_class,
            "cache": self.cache,
            "context_tokens": self.context_tokens,
            "concurrency": self.concurrency,
            "asked_output_tokens": self.output.tokens,
            "natural_output": self.output.natural,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "thinking": self.thinking,
            "thinking_tokens": self.output.reserve_tokens,
        }

    @cached_property
    def load_id(self) -> str:
        """Identity of the load alone, the same in every arm."""
        load: dict[str, object] = {
            "class": self.workload_class,
            "context_tokens": self.context_tokens,
            "concurrency": self.concurrency,
            "output": [self.output.tokens, self.output.natural, *filter(None, [self.output.reserve_tokens])],
            "cache": self.cache,
            "sampling": [self.temperature, self.top_p, self.thinking],
        }
        if self.recorded is not None:
            load["recorded"] = asdict(self.recorded)
        return content_id(load)


@dataclass(frozen=True, kw_only=True)  # without slots: its id is asked for often, and kept
class Cell:
    """A configuration under a load."""

    configuration: Configuration
    load: LoadPoint

    @cached_property
    def cell_id(self) -> str:
        """Identity: configuration and load."""
        return content_id([self.configuration.configuration_id, self.load.load_id])


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A configuration that is not launched, and why."""

    configuration: Configuration
    because: str
    source: str | None = None
    where: str | None = None  # file:line:column in the sweep
    loads: tuple[LoadPoint, ...] = ()  # the cells that are refused; empty: the whole configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class CellGroup:
    """All cells of one configuration: what one launch measures."""

    configuration: Configuration
    loads: tuple[LoadPoint, ...] = field(default=())
